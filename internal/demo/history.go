package demo

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/transport/http"
)

// planOnce asks the leader to split into stores what was sealed since the last time. Nodes rewrite in the background, while messages
// come and are read.
func (r *run) planOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	made, err := r.askForPlan(ctx)
	if err != nil {
		return fmt.Errorf("plan history: %w", err)
	}
	for _, g := range made.Generations {
		r.o.Say("the leader plans windows %d to %d: %d partitions are split into stores by their topics' volumes", g.FirstWindow, g.LastWindow, g.Split)
	}
	return nil
}

// askForPlan asks again while the cluster is too busy to answer in time: planning what is planned already changes nothing.
func (r *run) askForPlan(ctx context.Context) (made http.PlanRun, err error) {
	for {
		err = r.control.Post(ctx, "/v1/plan", struct{}{}, &made)
		var refused *control.Refused
		if !errors.As(err, &refused) || refused.Status != nethttp.StatusServiceUnavailable {
			return made, err
		}
		if !pause.For(ctx, positionPoll) {
			return made, err
		}
	}
}

// planHistory plans the rest, waits until every node has rewritten it, and takes the figures.
func (r *run) planHistory(ctx context.Context) error {
	if err := r.planOnce(ctx); err != nil {
		return err
	}
	for _, n := range r.nodes.list {
		h, err := settled(ctx, n)
		if err != nil {
			return err
		}
		r.result.HistoryFiles, r.result.HistoryBytes, r.result.Windows = h.Files, h.Bytes, h.Windows
	}
	var plans http.PlanList
	if err := r.control.Get(ctx, "/v1/plan", &plans); err != nil {
		return fmt.Errorf("list plans: %w", err)
	}
	for _, p := range plans.Partitions {
		r.result.Stores += len(p.Stores)
	}
	r.o.Say("history is %s in %d files on each node: %d windows, %d stores of split partitions", units.Size(r.result.HistoryBytes),
		r.result.HistoryFiles, r.result.Windows, r.result.Stores)
	return nil
}

// settled waits until a node has written all that is sealed and planned.
func settled(ctx context.Context, n *node) (*cluster.HistoryStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	c, err := control.New([]string{n.config.Listen.HTTP})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	for {
		var s cluster.Status
		if err := c.Get(ctx, "/v1/status", &s); err != nil {
			return nil, fmt.Errorf("history of node %s: %w", n.name, err)
		}
		if h := s.History; h != nil && h.PendingWindows == 0 && h.PendingGenerations == 0 {
			return h, nil
		}
		if !pause.For(ctx, positionPoll) {
			return nil, fmt.Errorf("history of node %s: windows or generations are pending: %w", n.name, ctx.Err())
		}
	}
}
