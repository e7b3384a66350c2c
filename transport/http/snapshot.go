package http

import (
	"context"
	nethttp "net/http"
	"time"

	"github.com/cantus-bus/cantus/cluster"
)

// freshWait bounds how long a snapshot waits for what the rest of the cluster has committed by now.
const freshWait = 2 * time.Second

// catchUp lets this node apply all that was acknowledged before the request, so that a snapshot or backup of it has that. Without a leader
// nothing can be caught up with, and a snapshot of what is here is what is wanted.
func (s *Server) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	if err := s.node.Barrier(ctx); err != nil {
		s.opts.Logger.Warn("a snapshot may lack what the cluster has committed last", "error", err)
	}
}

// snapshotWait bounds how long a request waits for a snapshot: windows up to it must be archived first.
const snapshotWait = 5 * time.Minute

// SnapshotList is what a node could be restored from, newest first.
type SnapshotList struct {
	NodeID    string                 `json:"node_id"`
	Snapshots []cluster.SnapshotInfo `json:"snapshots"`
}

func (s *Server) postSnapshot(w nethttp.ResponseWriter, r *nethttp.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), snapshotWait)
	defer cancel()
	s.catchUp(ctx)
	info, err := s.node.TakeSnapshot(ctx)
	if err != nil {
		writeErr(w, err)
		return
	}
	writeJSON(w, nethttp.StatusOK, info)
}

func (s *Server) getSnapshots(w nethttp.ResponseWriter, _ *nethttp.Request) {
	list := SnapshotList{NodeID: s.node.NodeID(), Snapshots: s.node.Snapshots()}
	if list.Snapshots == nil {
		list.Snapshots = []cluster.SnapshotInfo{}
	}
	writeJSON(w, nethttp.StatusOK, list)
}

// getFiles passes on to the node's files, which nodes serve each other too.
func (s *Server) getFiles(w nethttp.ResponseWriter, r *nethttp.Request) {
	nethttp.StripPrefix("/v1", s.node.FileHandler()).ServeHTTP(w, r)
}
