package http

import (
	_ "embed"
	nethttp "net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

//go:embed openapi.yaml
var openAPI []byte

// route is a line of the table that openapi.yaml is held against.
type route struct {
	method, pattern string
	// leader: only the leader can do it; other nodes pass the request on.
	leader bool
	handle nethttp.HandlerFunc
}

func (s *Server) routes() []route {
	return []route{
		{"GET", "/v1/health/live", false, s.getLive},
		{"GET", "/v1/health/ready", false, s.getReady},
		{"GET", "/v1/status", false, s.getStatus},
		{"GET", "/v1/nodes", false, s.getNodes},
		{"POST", "/v1/nodes", true, s.postNode},
		{"DELETE", "/v1/nodes/{id}", true, s.deleteNode},
		{"POST", "/v1/leader/transfer", true, s.postTransfer},
		{"GET", "/v1/topics", false, s.getTopics},
		{"GET", "/v1/plan", false, s.getPlan},
		{"POST", "/v1/plan", true, s.postPlan},
		{"POST", "/v1/snapshot", false, s.postSnapshot},
		{"GET", "/v1/snapshots", false, s.getSnapshots},
		{"GET", "/v1/files", false, s.getFiles},
		{"GET", "/v1/files/{sha256}", false, s.getFiles},
		{"GET", "/v1/config", false, s.getConfig},
		{"POST", "/v1/checkpoint", true, s.postCheckpoint},
		{"GET", "/v1/checkpoint/{id}", false, s.getCheckpoint},
		{"GET", "/v1/verify", true, s.getVerify},
		{"POST", "/v1/producers", false, s.postProducer},
		{"POST", "/v1/publish", false, s.postPublish},
		{"GET", "/v1/subscribe", false, s.getSubscribe},
		{"GET", "/v1/messages/{seq}", false, s.getMessage},
		{"GET", "/v1/last", false, s.getLast},
		{"GET", "/v1/openapi.yaml", false, s.getOpenAPI},
		{"GET", "/metrics", false, s.getMetrics},
	}
}

// Handler is the whole control plane, to be mounted at the root.
func (s *Server) Handler() nethttp.Handler {
	mux := nethttp.NewServeMux()
	for _, r := range s.routes() {
		handle := r.handle
		if r.leader {
			handle = s.onLeader(handle)
		}
		mux.HandleFunc(r.method+" "+r.pattern, handle)
	}
	if s.opts.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	mux.HandleFunc("/", s.notFound)
	return mux
}

func (s *Server) getOpenAPI(w nethttp.ResponseWriter, _ *nethttp.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write(openAPI)
}

func (s *Server) getMetrics(w nethttp.ResponseWriter, r *nethttp.Request) {
	if s.opts.Gatherer == nil {
		writeProblem(w, nethttp.StatusNotFound, "not_found", "this node gathers no metrics: see /v1/openapi.yaml for what it answers")
		return
	}
	promhttp.HandlerFor(s.opts.Gatherer, promhttp.HandlerOpts{}).ServeHTTP(w, r)
}

func (s *Server) getConfig(w nethttp.ResponseWriter, _ *nethttp.Request) {
	writeJSON(w, nethttp.StatusOK, s.opts.Config)
}

func (s *Server) notFound(w nethttp.ResponseWriter, r *nethttp.Request) {
	known := false
	for _, route := range s.routes() {
		known = known || route.pattern == r.URL.Path
	}
	if known {
		writeProblem(w, nethttp.StatusMethodNotAllowed, "method_not_allowed", "%s does not take %s: see /v1/openapi.yaml", r.URL.Path, r.Method)
		return
	}
	writeProblem(w, nethttp.StatusNotFound, "not_found", "no route %s %s: see /v1/openapi.yaml", r.Method, r.URL.Path)
}
