package http

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/internal/wire"
)

func call(t *testing.T, method, url, body string) (int, string) {
	t.Helper()
	req, err := nethttp.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := nethttp.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func callJSON(t *testing.T, method, url, body string, want int, v any) {
	t.Helper()
	status, text := call(t, method, url, body)
	if status != want {
		t.Fatalf("%s %s: status %d, want %d: %s", method, url, status, want, text)
	}
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("%s %s: %v in %s", method, url, err, text)
	}
}

// TestOpenAPIHoldsTheRoutes compares the document with the route table, both ways.
func TestOpenAPIHoldsTheRoutes(t *testing.T) {
	var doc struct {
		Paths map[string]map[string]struct {
			Summary   string         `yaml:"summary"`
			Responses map[string]any `yaml:"responses"`
		} `yaml:"paths"`
	}
	if err := yaml.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	var described, served []string
	for path, methods := range doc.Paths {
		for method, op := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
			if op.Summary == "" || len(op.Responses) == 0 {
				t.Errorf("%s %s: the document has no summary or no responses", method, path)
			}
		}
	}
	for _, r := range (&Server{}).routes() {
		served = append(served, r.method+" "+r.pattern)
	}
	slices.Sort(described)
	slices.Sort(served)
	if !slices.Equal(described, served) {
		t.Errorf("openapi.yaml and the routes differ:\n%v\n%v", described, served)
	}
}

// TestEveryRouteAnswers: no described route is a 404, and none fails with "internal".
func TestEveryRouteAnswers(t *testing.T) {
	n := newFakeNode(t, "a")
	s, ts := serve(t, n, func(o *Options) {
		o.Gatherer = prometheus.NewRegistry()
		o.Config = map[string]string{"tip.size": "1GiB"}
		o.RequestTimeout = 50 * time.Millisecond
	})
	publish(t, ts, "", `{"topic":"a","payload":"x"}`)
	for _, r := range s.routes() {
		path := strings.NewReplacer("{id}", "1", "{seq}", "1").Replace(r.pattern)
		switch r.pattern {
		case "/v1/subscribe":
			path += "?filter=a&from=first&to=caught-up"
		case "/v1/last":
			path += "?filter=a"
		}
		status, body := call(t, r.method, ts.URL+path, "")
		if status == nethttp.StatusNotFound || status >= 500 && status != nethttp.StatusServiceUnavailable {
			t.Errorf("%s %s: status %d: %s", r.method, path, status, body)
		}
	}
}

func TestUnknownRouteAndMethod(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	for _, c := range []struct {
		method, path string
		status       int
		code         string
	}{
		{"GET", "/v2/status", 404, "not_found"},
		{"GET", "/debug/pprof/", 404, "not_found"},
		{"PUT", "/v1/status", 405, "method_not_allowed"},
		{"GET", "/metrics", 404, "not_found"},
	} {
		var body errorBody
		callJSON(t, c.method, ts.URL+c.path, "", c.status, &body)
		if body.Error.Code != c.code || !strings.Contains(body.Error.Message, "openapi.yaml") {
			t.Errorf("%s %s: %+v", c.method, c.path, body.Error)
		}
	}
	_, open := serve(t, newFakeNode(t, "b"), func(o *Options) { o.Pprof = true })
	if status, _ := call(t, "GET", open.URL+"/debug/pprof/", ""); status != 200 {
		t.Errorf("pprof asked for: status %d", status)
	}
}

func TestHealth(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	var ready struct{ Ready bool }
	callJSON(t, "GET", ts.URL+"/v1/health/ready", "", 200, &ready)
	if !ready.Ready {
		t.Error("ready is false")
	}
	n.notReady = errors.New("applied 3 of 9")
	var body errorBody
	callJSON(t, "GET", ts.URL+"/v1/health/ready", "", 503, &body)
	if body.Error.Code != "not_ready" || body.Error.Message != "applied 3 of 9" {
		t.Errorf("%+v", body.Error)
	}
	if status, _ := call(t, "GET", ts.URL+"/v1/health/live", ""); status != 200 {
		t.Errorf("live: status %d", status)
	}
}

func TestMembershipGoesToTheLeader(t *testing.T) {
	leader, follower := newFakeNode(t, "lead"), newFakeNode(t, "follow")
	_, lts := serve(t, leader, nil)
	follower.leader = "lead"
	follower.nodes = []wire.NodeInfo{{ID: "lead", HTTPAddr: strings.TrimPrefix(lts.URL, "http://")}, {ID: "follow"}}
	_, fts := serve(t, follower, nil)

	var ok struct{ Ok bool }
	callJSON(t, "POST", fts.URL+"/v1/nodes", `{"id":"n4","raft_addr":"127.0.0.1:1","voter":true}`, 200, &ok)
	callJSON(t, "POST", fts.URL+"/v1/nodes", `{"id":"n5","raft_addr":"127.0.0.1:2"}`, 200, &ok)
	callJSON(t, "DELETE", fts.URL+"/v1/nodes/n4", "", 200, &ok)
	callJSON(t, "POST", fts.URL+"/v1/leader/transfer", `{"to":"follow"}`, 200, &ok)
	want := []string{"add voter n4 127.0.0.1:1", "add replica n5 127.0.0.1:2", "remove n4", "transfer follow"}
	if !slices.Equal(leader.done, want) || len(follower.done) > 0 {
		t.Errorf("leader did %q, follower %q; want all of %q on the leader", leader.done, follower.done, want)
	}

	var body errorBody
	callJSON(t, "POST", fts.URL+"/v1/nodes", `{"id":"n4"}`, 400, &body)
	callJSON(t, "POST", fts.URL+"/v1/nodes", `{"id":"n4","raftaddr":"x"}`, 400, &body)
	if !strings.Contains(body.Error.Message, "raftaddr") {
		t.Errorf("unknown field: %q does not name it", body.Error.Message)
	}
	callJSON(t, "DELETE", fts.URL+"/v1/nodes/nobody", "", 404, &body)
	callJSON(t, "POST", fts.URL+"/v1/leader/transfer", `{"to":"itself"}`, 409, &body)
	if body.Error.Code != "refused" || !strings.Contains(body.Error.Message, "cannot find peer") {
		t.Errorf("%+v", body.Error)
	}
}

// TestForwardedOnce: two nodes that each think the other leads do not pass a request to and fro.
func TestForwardedOnce(t *testing.T) {
	a, b := newFakeNode(t, "a"), newFakeNode(t, "b")
	_, ats := serve(t, a, nil)
	_, bts := serve(t, b, nil)
	addr := func(s string) string { return strings.TrimPrefix(s, "http://") }
	a.leader, a.nodes = "b", []wire.NodeInfo{{ID: "b", HTTPAddr: addr(bts.URL)}}
	b.leader, b.nodes = "a", []wire.NodeInfo{{ID: "a", HTTPAddr: addr(ats.URL)}}
	var body errorBody
	callJSON(t, "POST", ats.URL+"/v1/leader/transfer", "{}", 503, &body)
	if body.Error.Code != "not_leader" {
		t.Errorf("%+v", body.Error)
	}
}

func TestNoLeaderIsSaidInBoundedTime(t *testing.T) {
	n := newFakeNode(t, "a")
	n.leader = ""
	_, ts := serve(t, n, func(o *Options) { o.RequestTimeout = 20 * time.Millisecond })
	var body errorBody
	callJSON(t, "POST", ts.URL+"/v1/leader/transfer", "{}", 503, &body)
	if body.Error.Code != "no_leader" {
		t.Errorf("%+v", body.Error)
	}
}

// TestVerify: equal replicas are equal; one more message on one of them, or silence, is named.
func TestVerify(t *testing.T) {
	a, b := newFakeNode(t, "a"), newFakeNode(t, "b")
	_, ats := serve(t, a, func(o *Options) { o.RequestTimeout = 500 * time.Millisecond })
	_, bts := serve(t, b, func(o *Options) { o.RequestTimeout = 100 * time.Millisecond })
	a.nodes = []wire.NodeInfo{{ID: "a"}, {ID: "b", HTTPAddr: strings.TrimPrefix(bts.URL, "http://")}}

	var v Verification
	callJSON(t, "GET", ats.URL+"/v1/verify", "", 200, &v)
	if v.Equal || len(v.Differences) != 1 || !strings.Contains(v.Differences[0], "node b: no digest") {
		t.Errorf("b has no checkpoint: %+v", v)
	}
	b.checkpoint(7)
	b.checkpoint(7)
	a.checkpoint(8)
	callJSON(t, "GET", ats.URL+"/v1/verify", "", 200, &v)
	if v.Equal {
		t.Logf("indexes differ on purpose: %+v", v)
	}
	publish(t, ats, "", `{"topic":"x/y","payload":"1"}`)
	callJSON(t, "GET", ats.URL+"/v1/verify", "", 200, &v)
	if v.Equal || !slices.ContainsFunc(v.Differences, func(d string) bool { return strings.HasPrefix(d, "node b: stream is ") }) {
		t.Errorf("a has one message more: %+v", v)
	}
}

func TestVerifyEqual(t *testing.T) {
	a, b := newFakeNode(t, "a"), newFakeNode(t, "b")
	_, ats := serve(t, a, nil)
	_, bts := serve(t, b, nil)
	a.nodes = []wire.NodeInfo{{ID: "a"}, {ID: "b", HTTPAddr: strings.TrimPrefix(bts.URL, "http://")}}
	publish(t, ats, "", `{"topic":"x/y","payload":"1"}`)
	publish(t, bts, "", `{"topic":"x/y","payload":"1"}`)
	b.checkpoint(7)
	var v Verification
	callJSON(t, "GET", ats.URL+"/v1/verify", "", 200, &v)
	if !v.Equal || v.Seq != 1 || len(v.Nodes) != 2 || v.Differences == nil {
		t.Errorf("%+v", v)
	}
}

func TestTopics(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	var lines []string
	for i := range 30 {
		for range i + 1 {
			lines = append(lines, fmt.Sprintf(`{"topic":"app/t%02d","payload":"abcd"}`, i))
		}
	}
	publish(t, ts, "", lines...)
	var page TopicPage
	callJSON(t, "GET", ts.URL+"/v1/topics?filter=app/**&sort=messages&limit=10", "", 200, &page)
	if page.Total != 30 || len(page.Topics) != 10 || page.Next == nil || *page.Next != 10 {
		t.Fatalf("%+v", page)
	}
	if top := page.Topics[0]; top.Topic != "app/t29" || top.Messages != 30 || top.Bytes != 120 || top.LastSeq != uint64(len(lines)) {
		t.Errorf("first of the page: %+v", top)
	}
	page = TopicPage{}
	callJSON(t, "GET", ts.URL+"/v1/topics?offset=25&sort=rate", "", 200, &page)
	if len(page.Topics) != 5 || page.Next != nil {
		t.Errorf("last page: %+v", page)
	}
	callJSON(t, "GET", ts.URL+"/v1/topics?depth=1", "", 200, &page)
	if page.Total != 1 || page.Topics[0].Topic != "app" || page.Topics[0].Messages != uint64(len(lines)) {
		t.Errorf("depth 1: %+v", page)
	}
	for _, q := range []string{"filter=a/*/b", "sort=size", "limit=0", "limit=10001", "depth=-1", "offset=x"} {
		var body errorBody
		callJSON(t, "GET", ts.URL+"/v1/topics?"+q, "", 400, &body)
	}
}

func TestRatesOfTopicsAndSubtrees(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	publish(t, ts, "", `{"topic":"a/b"}`, `{"topic":"a/c"}`)
	r := newRateSampler(n.stream.Table())
	t.Cleanup(r.close)
	r.get()
	start := r.mu.at
	for range 10 {
		publish(t, ts, "", `{"topic":"a/b"}`, `{"topic":"a/new"}`)
	}
	r.sample(start.Add(2 * time.Second))
	now := r.get()
	rate := func(path string, subtree bool) float64 {
		id, _ := n.stream.Table().Lookup(path)
		return now.of(id, subtree)
	}
	if b, c, fresh, a := rate("a/b", false), rate("a/c", false), rate("a/new", false), rate("a", true); b != 5 || c != 0 || fresh != 5 || a != 10 {
		t.Errorf("rates of a/b %v, a/c %v, a/new %v, a/** %v; want 5, 0, 5, 10", b, c, fresh, a)
	}
	if !r.sample(start.Add(sampleIdle+time.Hour)) || r.mu.counts != nil {
		t.Error("sampling goes on though nobody asks")
	}
}
