package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/subtree/plan"
)

// errSuperseded ends the rewriting into a generation that a newer plan has replaced.
var errSuperseded = errors.New("a newer plan covers it")

// rewriter makes the files of the generations that are in force, one after the other. What is unfinished it finds by comparing the
// state machine's generations with the folder's files, so that it needs no memory of its own. Its goroutine is history's.
type rewriter struct {
	h       *history
	kick    chan struct{} // capacity 1: a plan came into force, or a window was archived
	pace    pace
	load    loadMeter
	problem trouble
}

func (r *rewriter) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := r.pass(ctx); err != nil {
			r.problem.note(err)
			r.problem.pause(ctx, &r.h.o)
			continue
		}
		r.problem.note(nil)
		select {
		case <-ctx.Done():
		case <-r.kick:
		}
	}
}

// pass tries every unfinished generation once and returns the first error: one that fails does not keep the others.
func (r *rewriter) pass(ctx context.Context) (first error) {
	for _, g := range r.h.machine.Generations() {
		if ctx.Err() != nil {
			return nil
		}
		if !r.unfinished(g) {
			continue
		}
		r.h.awaitCalm(ctx, &r.load, rewriteDelay, func() bool { return false })
		err := r.rewrite(ctx, g)
		switch {
		case err == nil:
			r.h.log.Info("history rewritten into stores", "generation", g.Number, "windows", g.LastWindow-g.FirstWindow+1)
		case errors.Is(err, errSuperseded):
			kick(r.kick)
		case ctx.Err() == nil && first == nil:
			first = err
		}
	}
	return first
}

// unfinished tells whether the generation's windows are all here, but in other files than its own or a later one's.
func (r *rewriter) unfinished(g fsm.Generation) bool {
	_, archived := r.h.store.Windows()
	return archived >= g.LastWindow && !r.h.written(g) && r.inForce(g)
}

// written tells whether a generation lies on disk, by itself or within a later one, or did before it was dropped: a log that is replayed
// names it again.
func (h *history) written(g fsm.Generation) bool {
	if first, _ := h.store.Windows(); g.LastWindow < first {
		return true
	}
	return slices.ContainsFunc(h.store.Files(), func(m subtree.Meta) bool {
		return m.Kind == subtree.KindGeneration && m.Number >= g.Number && m.FirstWindow <= g.FirstWindow && m.LastWindow >= g.LastWindow
	})
}

func (r *rewriter) inForce(g fsm.Generation) bool {
	return slices.ContainsFunc(r.h.machine.Generations(), func(f fsm.Generation) bool { return f.Number == g.Number })
}

func (r *rewriter) rewrite(ctx context.Context, g fsm.Generation) error {
	sg := subtree.Generation{Number: g.Number, FirstWindow: g.FirstWindow, LastWindow: g.LastWindow}
	for _, p := range g.Plans {
		pl, err := decodePlan(p, r.h.table)
		if err != nil {
			return fmt.Errorf("generation %d: %w", g.Number, err)
		}
		sg.Plans = append(sg.Plans, subtree.PartitionPlan{Partition: p.Partition, Plan: splitter{pl}})
	}
	return r.h.store.Rewrite(ctx, sg, &limiter{r, g})
}

// decodePlan reads a partition's plan and holds it against the partition.
func decodePlan(p fsm.PartitionPlan, t *topic.Table) (*plan.Plan, error) {
	return planFor(t.Name(p.Partition), p.Plan)
}

func planFor(partition string, b []byte) (*plan.Plan, error) {
	pl, err := plan.Decode(b)
	if err == nil && pl.Partition() != partition {
		err = fmt.Errorf("plan for %q stands at partition %q", pl.Partition(), partition)
	}
	return pl, err
}

// checkPlan is the state machine's look at a plan.
func checkPlan(partition string, b []byte) error {
	_, err := planFor(partition, b)
	return err
}

// splitter is a plan as package subtree wants it.
type splitter struct{ *plan.Plan }

// Stores is the number of stores.
func (s splitter) Stores() int { return s.Len() }

// limiter paces one rewrite and ends it when its plan is no longer in force.
type limiter struct {
	r *rewriter
	g fsm.Generation
}

// Wait implements subtree.Limiter.
func (l *limiter) Wait(ctx context.Context, bytes int) error {
	faults.Pass(faults.Split)
	if !l.r.inForce(l.g) {
		return errSuperseded
	}
	return l.r.pace.wait(ctx, bytes)
}

// pace spreads work evenly over time. One goroutine's.
type pace struct {
	rate int64     // bytes a second; 0: no limit
	next time.Time // when the work done so far is paid for
}

func (p *pace) wait(ctx context.Context, bytes int) error {
	if p.rate <= 0 {
		return ctx.Err()
	}
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	p.next = p.next.Add(time.Duration(float64(bytes) / float64(p.rate) * float64(time.Second)))
	pause.For(ctx, p.next.Sub(now))
	return ctx.Err()
}
