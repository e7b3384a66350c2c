package http

import (
	"context"
	nethttp "net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// forwardedHeader marks a request that a node has passed on, so that it is never passed on twice.
const forwardedHeader = "Cantus-Forwarded-By"

// onLeader runs handle on the leader: here, or by passing the request on to it.
func (s *Server) onLeader(handle nethttp.HandlerFunc) nethttp.HandlerFunc {
	return func(w nethttp.ResponseWriter, r *nethttp.Request) {
		leader, err := s.waitLeader(r.Context())
		switch {
		case err != nil:
			writeErr(w, err)
		case leader.ID == s.node.NodeID():
			handle(w, r)
		case r.Header.Get(forwardedHeader) != "":
			writeProblem(w, nethttp.StatusServiceUnavailable, "not_leader", "leadership moved while the request was passed on: try again")
		case leader.HTTPAddr == "":
			writeProblem(w, nethttp.StatusServiceUnavailable, "not_leader", "node %s leads, but its HTTP address is not known here: ask it directly", leader.ID)
		default:
			s.proxy(leader.HTTPAddr).ServeHTTP(w, r)
		}
	}
}

// waitLeader waits, bounded, until a leader is known.
func (s *Server) waitLeader(ctx context.Context) (wire.NodeInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.RequestTimeout)
	defer cancel()
	for {
		changed := s.node.TopologyChanged()
		t := s.node.Topology()
		for _, n := range t.Nodes {
			if n.ID == t.LeaderID && t.LeaderID != "" {
				return n, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return wire.NodeInfo{}, problem(nethttp.StatusServiceUnavailable, "no_leader", "no leader within %v: is a majority of the nodes up? see /v1/status", s.opts.RequestTimeout)
		}
	}
}

func (s *Server) proxy(addr string) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: s.peers.Transport,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: addr})
			p.Out.Header.Set(forwardedHeader, s.node.NodeID())
		},
		ErrorHandler: func(w nethttp.ResponseWriter, _ *nethttp.Request, err error) {
			writeProblem(w, nethttp.StatusBadGateway, "leader_unreachable", "the leader at %s could not be asked: %v", addr, err)
		},
		FlushInterval: 100 * time.Millisecond,
	}
}
