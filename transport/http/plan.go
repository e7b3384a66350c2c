package http

import (
	"context"
	nethttp "net/http"

	"github.com/cantus-bus/cantus/cluster"
)

// PlanList is how history is split.
type PlanList struct {
	Partitions []cluster.PartitionStores `json:"partitions"`
}

// PlanRun is what planning on request has made.
type PlanRun struct {
	Generations []PlannedGeneration `json:"generations"`
}

// PlannedGeneration is a run of windows that is to be rewritten into stores, on every node, in the background.
type PlannedGeneration struct {
	Generation  uint64 `json:"generation"`
	FirstWindow uint64 `json:"first_window"`
	LastWindow  uint64 `json:"last_window"`
	Split       int    `json:"split_partitions"` // partitions with more than one store
}

func (s *Server) getPlan(w nethttp.ResponseWriter, r *nethttp.Request) {
	list, err := s.node.Stream().Plans(r.URL.Query().Get("partition"))
	if err != nil {
		writeErr(w, err)
		return
	}
	writeJSON(w, nethttp.StatusOK, PlanList{list})
}

func (s *Server) postPlan(w nethttp.ResponseWriter, r *nethttp.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.RequestTimeout)
	defer cancel()
	made, err := s.node.PlanNow(ctx)
	if err != nil {
		writeErr(w, err)
		return
	}
	run := PlanRun{Generations: make([]PlannedGeneration, len(made))}
	for i, g := range made {
		run.Generations[i] = PlannedGeneration{g.Number, g.FirstWindow, g.LastWindow, len(g.Plans)}
	}
	writeJSON(w, nethttp.StatusOK, run)
}
