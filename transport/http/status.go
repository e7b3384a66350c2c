package http

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	nethttp "net/http"
)

// maxControlBody bounds the body of a control request, in bytes.
const maxControlBody = 64 << 10

func (s *Server) getLive(w nethttp.ResponseWriter, _ *nethttp.Request) {
	writeJSON(w, nethttp.StatusOK, map[string]any{"live": true, "node_id": s.node.NodeID()})
}

func (s *Server) getReady(w nethttp.ResponseWriter, _ *nethttp.Request) {
	if err := s.node.Ready(); err != nil {
		writeProblem(w, nethttp.StatusServiceUnavailable, "not_ready", "%v", err)
		return
	}
	writeJSON(w, nethttp.StatusOK, map[string]any{"ready": true, "node_id": s.node.NodeID()})
}

func (s *Server) getStatus(w nethttp.ResponseWriter, r *nethttp.Request) {
	writeJSON(w, nethttp.StatusOK, s.node.Status(r.Context()))
}

func (s *Server) getNodes(w nethttp.ResponseWriter, r *nethttp.Request) {
	writeJSON(w, nethttp.StatusOK, map[string]any{"nodes": s.node.Status(r.Context()).Nodes})
}

type addNode struct {
	ID       string `json:"id"`
	RaftAddr string `json:"raft_addr"`
	Voter    bool   `json:"voter"`
}

func (s *Server) postNode(w nethttp.ResponseWriter, r *nethttp.Request) {
	var req addNode
	if err := readJSON(r, &req); err != nil {
		writeErr(w, err)
		return
	}
	if req.ID == "" || req.RaftAddr == "" {
		writeProblem(w, nethttp.StatusBadRequest, "bad_request", "adding a node needs id and raft_addr; its folder's identity file and its status tell both")
		return
	}
	s.change(w, r, func(ctx context.Context) error { return s.node.AddNode(ctx, req.ID, req.RaftAddr, req.Voter) })
}

func (s *Server) deleteNode(w nethttp.ResponseWriter, r *nethttp.Request) {
	s.change(w, r, func(ctx context.Context) error { return s.node.RemoveNode(ctx, r.PathValue("id")) })
}

func (s *Server) postTransfer(w nethttp.ResponseWriter, r *nethttp.Request) {
	var req struct {
		To string `json:"to"`
	}
	if err := readJSON(r, &req); err != nil {
		writeErr(w, err)
		return
	}
	s.change(w, r, func(ctx context.Context) error { return s.node.TransferLeader(ctx, req.To) })
}

// change runs a change of membership or leadership within the time limit and answers with the topology after it.
func (s *Server) change(w nethttp.ResponseWriter, r *nethttp.Request, do func(context.Context) error) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.RequestTimeout)
	defer cancel()
	if err := do(ctx); err != nil {
		p := asProblem(err)
		if p.status == nethttp.StatusInternalServerError {
			// The cluster said no, for a reason that the message tells: nothing is broken.
			p = problem(nethttp.StatusConflict, "refused", "%v", err)
		}
		writeErr(w, p)
		return
	}
	t := s.node.Topology()
	writeJSON(w, nethttp.StatusOK, map[string]any{"ok": true, "leader": t.LeaderID, "term": t.Term})
}

// readJSON parses a small body strictly; an empty body leaves v as it is.
func readJSON(r *nethttp.Request, v any) error {
	dec := json.NewDecoder(io.LimitReader(r.Body, maxControlBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil && !errors.Is(err, io.EOF) {
		return problem(nethttp.StatusBadRequest, "bad_request", "body of %s: %v: see /v1/openapi.yaml", r.URL.Path, err)
	}
	return nil
}
