package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree/plan"
)

const (
	// planInterval is how often a leader looks whether there is something to plan. A look costs two loads.
	planInterval = time.Second
	// planRetryMax bounds the time between two plans that fail, which reads the directories of many files.
	planRetryMax = time.Minute
)

// configure is c with what the policy asks for.
func (p HistoryPolicy) configure(c fsm.StreamConfig) fsm.StreamConfig {
	if p.WindowBytes > 0 {
		c.WindowBytes = p.WindowBytes
	}
	if p.WindowCount > 0 {
		c.WindowCount = p.WindowCount
	}
	if p.WindowAge > 0 {
		c.WindowAge = int64(p.WindowAge)
	}
	if p.RetainAge > 0 {
		c.RetainAge = int64(p.RetainAge)
	}
	if p.RetainBytes > 0 {
		c.RetainBytes = p.RetainBytes
	}
	if p.RetainCount > 0 {
		c.RetainCount = p.RetainCount
	}
	return c
}

// keepPlans is the leader's: it plans whenever enough windows have been archived.
func (n *Node) keepPlans(ctx context.Context) {
	if n.stream.history == nil || n.opts.History.PlanWindows < 0 {
		return
	}
	var problem trouble
	problem.init(n.log, "planning how history is split")
	problem.repeat(ctx, planInterval, planRetryMax, func() error {
		_, err := n.plan(ctx, uint64(n.opts.History.PlanWindows))
		return err
	})
}

// PlanNow makes the leader plan all windows that are sealed and not planned yet, and merge generations where that is due. It waits
// until these windows are archived here, and returns the generations that it made, which may be none. Elsewhere than on the leader
// it fails with code NotLeader.
func (n *Node) PlanNow(ctx context.Context) ([]fsm.Generation, error) {
	h := n.stream.history
	switch {
	case h == nil:
		return nil, &wire.Error{Code: wire.Code(fsm.Invalid), Message: "this node keeps no history: make another one lead"}
	case n.proposer.session() == nil:
		return nil, &wire.Error{Code: wire.Code(fsm.NotLeader), Message: "this node does not lead"}
	}
	sealed := newestWindow(n.stream.Machine())
	for h.archiver.done.Load() < sealed {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("cluster: plan: %d of %d windows are archived: %w", h.archiver.done.Load(), sealed, ctx.Err())
		case <-n.ctx.Done():
			return nil, ErrClosed
		case <-time.After(retryRefused):
		}
	}
	return n.plan(ctx, 1)
}

// plan makes and commits a plan for what is archived, if that is least windows, and then merges while there is something to merge.
func (n *Node) plan(ctx context.Context, least uint64) (made []fsm.Generation, err error) {
	select {
	case n.planning <- struct{}{}:
		defer func() { <-n.planning }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		w, previous, ok := n.nextRange(least)
		if !ok {
			return made, nil
		}
		g, err := n.planRange(ctx, w, previous)
		if err != nil {
			return made, err
		}
		made = append(made, g)
	}
}

// nextRange is what to plan next, and the generation before it.
func (n *Node) nextRange(least uint64) (w windowRange, previous *fsm.Generation, ok bool) {
	m := n.stream.Machine()
	gs := m.Generations()
	_, archived := n.stream.history.store.Windows()
	// History may be ahead of a log that is being replayed.
	archived = min(archived, newestWindow(m))
	w, ok = unplanned(gs, m.Windows(), archived, least)
	if !ok {
		w, ok = mergeable(gs, m.Windows(), m.Config())
	}
	for i := range gs {
		if gs[i].FirstWindow < w.first {
			previous = &gs[i]
		}
	}
	return w, previous, ok
}

// planRange plans one range and commits the plan.
func (n *Node) planRange(ctx context.Context, w windowRange, previous *fsm.Generation) (fsm.Generation, error) {
	start := time.Now()
	p := planner{store: n.stream.history.store, table: n.stream.table, opts: plan.Options{
		Budget: n.opts.History.StoresPerPartition, MinStoreBytes: n.opts.History.MinStoreBytes}}
	plans, err := p.plan(w, previous)
	if err != nil {
		return fsm.Generation{}, err
	}
	g := fsm.Generation{Number: n.stream.Machine().NextGeneration(), FirstWindow: w.first, LastWindow: w.last, Plans: plans}
	r, err := n.command(ctx, record.KindPlan, fsm.PlanBody(g))
	if err == nil && r.Code != fsm.OK {
		err = &wire.Error{Code: wire.Code(r.Code), Message: fmt.Sprintf("the plan of generation %d was refused: %v", g.Number, r.Code)}
	}
	if err != nil {
		return g, err
	}
	n.log.Info("planned how history is split", "generation", g.Number, "first_window", w.first, "last_window", w.last,
		"split_partitions", len(plans), "took", time.Since(start).Round(time.Millisecond))
	return g, nil
}
