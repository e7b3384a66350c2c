package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/subtree"
)

const (
	// repairPoll is how often the list of damaged files is looked at: it is short, and kept in memory.
	repairPoll = 500 * time.Millisecond
	// repairRetryMax bounds the time between two attempts at what no node could mend.
	repairRetryMax = 30 * time.Second
)

// repair replaces damaged files of history by whole ones of other nodes. Its run is the only one that does.
//
// A damaged file is not read. It is fetched by the hash in this node's own manifest; if no node has such a file any more, since theirs
// were rewritten meanwhile, the files that another node has for the same windows take its place. The damaged bytes are
// kept aside, in history's folder "quarantine".
type repair struct {
	n       *Node
	problem trouble
	done    atomic.Uint64 // files replaced since the node started
}

func (r *repair) init(n *Node) {
	r.n = n
	r.problem.init(n.log, "repairing history")
}

// run looks for damage until ctx ends.
func (r *repair) run(ctx context.Context) {
	h := r.n.stream.history
	if h == nil {
		return
	}
	retry := HistoryOptions{RetryMin: repairPoll, RetryMax: repairRetryMax}
	for ctx.Err() == nil {
		if len(h.store.Damaged()) == 0 || r.n.catchup.status() != nil { // a catch-up replaces what is damaged, too
			r.problem.note(nil)
			pause.For(ctx, repairPoll)
			continue
		}
		if err := r.pass(ctx, h); err != nil && ctx.Err() == nil {
			r.problem.note(err)
			r.problem.pause(ctx, &retry)
			continue
		}
		pause.For(ctx, repairPoll) // a disk may damage again what was just replaced
	}
}

// pass tries to mend each damaged file once.
func (r *repair) pass(ctx context.Context, h *history) error {
	damaged := h.store.Damaged()
	var errs []error
	for _, m := range h.store.Files() {
		if !isDamaged(damaged, &m) {
			continue
		}
		if err := r.mend(ctx, h.store, &m); err != nil {
			errs = append(errs, err)
			continue
		}
		r.done.Add(1)
		r.n.metrics.repaired.Inc()
		r.n.log.Info("a damaged file of history was replaced", "file", m.Name(), "first_seq", m.FirstSeq, "last_seq", m.LastSeq)
		kick(h.rewriter.kick) // it may have waited for this file
	}
	return errors.Join(errs...)
}

// mend replaces one file.
func (r *repair) mend(ctx context.Context, store *subtree.Store, m *subtree.Meta) error {
	f := fetcher{n: r.n}
	err := r.bring(ctx, &f, store, span{*m})
	if err == nil || errors.Is(err, errLocal) || ctx.Err() != nil {
		return err
	}
	errs := []error{err}
	for _, p := range f.order(0, true) {
		run, err := r.cover(ctx, store, m, p.id)
		if err == nil {
			err = r.bring(ctx, &f, store, run)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("repair %s: %w", m.Name(), errors.Join(errs...))
}

// bring fetches what is missing of a run and installs it.
func (r *repair) bring(ctx context.Context, f *fetcher, store *subtree.Store, run span) error {
	for _, m := range store.Missing(run) {
		if err := f.history(ctx, &m); err != nil {
			return err
		}
	}
	if err := store.Install(run); err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	return nil
}

// cover is what another node has in the place of a damaged file.
func (r *repair) cover(ctx context.Context, store *subtree.Store, m *subtree.Meta, id string) (span, error) {
	listing, err := r.n.listing(ctx, id)
	if err != nil {
		return nil, err
	}
	if !listing.adjacent() {
		return nil, fmt.Errorf("node %s does not have all of history whole", id)
	}
	run, ok := runFor(store.Files(), listing, m.FirstWindow, m.LastWindow)
	if !ok {
		return nil, fmt.Errorf("node %s has no files in its place", id)
	}
	return run, nil
}
