package http

import (
	"context"
	"encoding/json"
	"fmt"
	nethttp "net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
)

// NodeDigest is one replica's answer to a verification.
type NodeDigest struct {
	ID    string            `json:"id"`
	Index uint64            `json:"index,omitempty"`
	Seq   uint64            `json:"seq"`
	Parts map[string]string `json:"parts,omitempty"`
	// KeepsHistory: it has files to compare.
	KeepsHistory bool   `json:"keeps_history"`
	Error        string `json:"error,omitempty"`
}

// Verification compares all replicas at one entry of the log, and the files of history that they have by then.
type Verification struct {
	Seq uint64 `json:"seq"`
	// Equal: every member answered and all parts agree.
	Equal       bool         `json:"equal"`
	Differences []string     `json:"differences"`
	Nodes       []NodeDigest `json:"nodes"`
	// Files is how many files of history more than one node has; their bytes were compared by hash.
	Files int `json:"files"`
	// Behind tells of generations that nodes have still to write: they have these messages in other files, of which nothing can be compared.
	Behind []string `json:"behind,omitempty"`
}

func (s *Server) postCheckpoint(w nethttp.ResponseWriter, r *nethttp.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.RequestTimeout)
	defer cancel()
	id, err := s.node.Checkpoint(ctx)
	if err != nil {
		writeErr(w, err)
		return
	}
	writeJSON(w, nethttp.StatusOK, map[string]string{"id": strconv.FormatUint(id, 10)})
}

// getCheckpoint waits, bounded, until this node has applied the checkpoint.
func (s *Server) getCheckpoint(w nethttp.ResponseWriter, r *nethttp.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		writeProblem(w, nethttp.StatusBadRequest, "bad_request", "checkpoint id %q is no number", r.PathValue("id"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.RequestTimeout)
	defer cancel()
	d, err := s.node.CheckpointDigest(ctx, id)
	if err != nil {
		writeErr(w, err)
		return
	}
	writeJSON(w, nethttp.StatusOK, s.ownDigest(d))
}

func (s *Server) getVerify(w nethttp.ResponseWriter, r *nethttp.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.RequestTimeout)
	defer cancel()
	id, err := s.node.Checkpoint(ctx)
	if err != nil {
		writeErr(w, err)
		return
	}
	own, err := s.node.CheckpointDigest(ctx, id)
	if err != nil {
		writeErr(w, err)
		return
	}
	v := compare(s.ownDigest(own), s.collect(ctx, id))
	s.verifyFiles(r.Context(), &v, wantedHistory(s.node.Stream().Machine()))
	writeJSON(w, nethttp.StatusOK, v)
}

func (s *Server) ownDigest(d fsm.Digest) NodeDigest {
	return NodeDigest{ID: s.node.NodeID(), Index: d.Index, Seq: d.Seq, Parts: d.Parts, KeepsHistory: s.node.Stream().HistoryStatus() != nil}
}

// collect asks every other member for its digest at checkpoint id, all at once.
func (s *Server) collect(ctx context.Context, id uint64) []NodeDigest {
	var (
		wg     sync.WaitGroup
		others []wire.NodeInfo
	)
	for _, n := range s.node.Topology().Nodes {
		if n.ID != s.node.NodeID() {
			others = append(others, n)
		}
	}
	answers := make([]NodeDigest, len(others))
	for i, n := range others {
		wg.Go(func() {
			d, err := s.askDigest(ctx, n, id)
			if err != nil {
				d = NodeDigest{ID: n.ID, Error: err.Error()}
			}
			answers[i] = d
		})
	}
	wg.Wait()
	return answers
}

func (s *Server) askDigest(ctx context.Context, n wire.NodeInfo, id uint64) (NodeDigest, error) {
	var d NodeDigest
	err := s.askPeer(ctx, n, fmt.Sprintf("/v1/checkpoint/%d", id), &d)
	d.ID = n.ID
	return d, err
}

// askPeer asks another node's control plane.
func (s *Server) askPeer(ctx context.Context, n wire.NodeInfo, path string, v any) error {
	if n.HTTPAddr == "" {
		return fmt.Errorf("its HTTP address is not known: is it up?")
	}
	req, err := nethttp.NewRequestWithContext(ctx, "GET", "http://"+n.HTTPAddr+path, nil)
	if err != nil {
		return err
	}
	resp, err := s.peers.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != nethttp.StatusOK {
		var body errorBody
		if json.NewDecoder(resp.Body).Decode(&body) == nil && body.Error != nil {
			return body.Error
		}
		return fmt.Errorf("answered %s", resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(v)
}

// compare holds the others' digests against own, part by part.
func compare(own NodeDigest, others []NodeDigest) Verification {
	v := Verification{Seq: own.Seq, Differences: []string{}, Nodes: append([]NodeDigest{own}, others...)}
	for _, o := range others {
		v.Differences = append(v.Differences, differences(own, o)...)
	}
	slices.Sort(v.Differences)
	v.Equal = len(v.Differences) == 0
	return v
}

func differences(own, o NodeDigest) []string {
	if o.Error != "" {
		return []string{fmt.Sprintf("node %s: no digest: %s", o.ID, o.Error)}
	}
	var out []string
	if o.Seq != own.Seq || o.Index != own.Index {
		out = append(out, fmt.Sprintf("node %s: seq %d at index %d, but %d at %d on %s", o.ID, o.Seq, o.Index, own.Seq, own.Index, own.ID))
	}
	for part, digest := range own.Parts {
		if o.Parts[part] != digest {
			out = append(out, fmt.Sprintf("node %s: %s is %s, but %s on %s", o.ID, part, o.Parts[part], digest, own.ID))
		}
	}
	for part := range o.Parts {
		if _, ok := own.Parts[part]; !ok {
			out = append(out, fmt.Sprintf("node %s: has a part %q that %s has not", o.ID, part, own.ID))
		}
	}
	return out
}
