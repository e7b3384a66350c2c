package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// archiver writes sealed windows to disk, in order. Its goroutine is history's.
//
// Invariant: the tip holds every message above its floor, and the floor is never above what the folder holds whole.
type archiver struct {
	h        *history
	kick     chan struct{}  // capacity 1: a window was sealed
	before   []subtree.Meta // files that the folder had when it was opened: the log is replayed over them
	oldest   uint64         // number of the oldest window that was retained when last looked at; 0: not looked at. run's
	done     atomic.Uint64  // number of the last window looked at; all before it were, or are no longer retained
	progress progress       // of done
	ended    chan struct{}  // closed when run has returned
	problem  trouble
	load     loadMeter
}

// open sets the tip's floor by what the folder holds.
func (a *archiver) open() {
	a.before = a.h.store.Files()
	a.h.tip.SetFloor(a.archived())
}

// archived is the last seq up to which no window is missing or damaged.
func (a *archiver) archived() uint64 {
	_, last := a.h.store.Bounds()
	damaged := a.h.store.Damaged()
	if len(damaged) == 0 {
		return last
	}
	for _, m := range a.h.store.Files() {
		hit := slices.ContainsFunc(damaged, func(e *subtree.CorruptError) bool { return e.File == m.Name() })
		if hit && m.Kind == subtree.KindWindow {
			return m.FirstSeq - 1
		}
	}
	return last
}

// run follows the machine's windows until ctx ends.
func (a *archiver) run(ctx context.Context) {
	defer close(a.ended)
	for ctx.Err() == nil {
		for w, ok := a.next(ctx); ok; w, ok = a.next(ctx) {
			if !a.has(w) {
				a.h.awaitCalm(ctx, &a.load, archiveDelay, a.crowded)
			}
			if !a.dropped(w) && !a.archive(ctx, w) {
				return
			}
			faults.Pass(faults.Sealed)
			a.done.Store(w.Number)
			a.h.tip.SetFloor(max(w.LastSeq, a.archived()))
			a.progress.tell()
			kick(a.h.rewriter.kick)
		}
		select {
		case <-ctx.Done():
		case <-a.kick:
		}
	}
}

// next is the window to look at next. Before, what is no longer retained is dropped here, however long that takes: a folder that lags
// behind has a hole then, and begins anew after it.
func (a *archiver) next(ctx context.Context) (w fsm.Window, ok bool) {
	windows := a.h.machine.Windows()
	if len(windows) == 0 || !a.drop(ctx, windows[0]) {
		return w, false
	}
	pending := windowsAfter(windows, a.done.Load())
	if len(pending) == 0 {
		return w, false
	}
	return pending[0], true
}

// drop removes the files of windows before the oldest that is retained. It is false when ctx has ended.
func (a *archiver) drop(ctx context.Context, oldest fsm.Window) bool {
	if oldest.Number == 1 || oldest.Number == a.oldest {
		return true
	}
	for ctx.Err() == nil {
		err := a.h.store.Drop(oldest.Number - 1)
		a.problem.note(err)
		if err == nil {
			a.oldest = oldest.Number
			a.done.Store(max(a.done.Load(), oldest.Number-1))
			a.h.tip.SetFloor(max(oldest.FirstSeq-1, a.archived()))
			a.progress.tell()
			return true
		}
		a.problem.pause(ctx, &a.h.o)
	}
	return false
}

// pending are the sealed windows not looked at yet.
func (a *archiver) pending() []fsm.Window { return windowsAfter(a.h.machine.Windows(), a.done.Load()) }

// windowsAfter are those of the windows whose number is higher.
func windowsAfter(windows []fsm.Window, number uint64) []fsm.Window {
	i, _ := slices.BinarySearchFunc(windows, number+1, func(w fsm.Window, n uint64) int { return cmp.Compare(w.Number, n) })
	return windows[i:]
}

// archive brings one window to disk, however long it takes. It is false when it must not go on.
func (a *archiver) archive(ctx context.Context, w fsm.Window) bool {
	if err := a.foreign(w); err != nil {
		a.h.fail(err)
		return false
	}
	for ctx.Err() == nil {
		err := a.seal(w)
		var gone *tipstore.GoneError
		switch {
		case err == nil:
			a.problem.note(nil)
			return true
		case errors.As(err, &gone) && a.has(w):
			// A damaged window that the tip no longer has: it is listed as damaged, and the rest can go on.
			a.h.log.Error("a damaged window of history cannot be written again from the tip", "window", w.Number, "error", err)
			return true
		case errors.As(err, &gone) || errors.Is(err, subtree.ErrOutOfOrder):
			a.h.fail(fmt.Errorf("archive window %d: %w", w.Number, err))
			return false
		}
		a.problem.note(err)
		a.problem.pause(ctx, &a.h.o)
	}
	return false
}

// foreign tells whether the folder had a window of this number with other bounds: then it is not this stream's history.
func (a *archiver) foreign(w fsm.Window) error {
	i := sort.Search(len(a.before), func(i int) bool { return a.before[i].LastWindow >= w.Number })
	if i == len(a.before) || a.before[i].FirstWindow > w.Number {
		return nil
	}
	m := &a.before[i]
	if w.FirstSeq < m.FirstSeq || w.LastSeq > m.LastSeq ||
		w.Number == m.FirstWindow && w.FirstSeq != m.FirstSeq || w.Number == m.LastWindow && w.LastSeq != m.LastSeq {
		return fmt.Errorf("history in %s is not this stream's: the log seals window %d at seqs %d to %d, but %s holds seqs %d to %d of windows %d to %d: "+
			"move the folder away or put back the one that belongs here", a.h.o.Dir, w.Number, w.FirstSeq, w.LastSeq, m.Name(), m.FirstSeq, m.LastSeq, m.FirstWindow, m.LastWindow)
	}
	return nil
}

// has tells whether the folder holds the window, whole or damaged, or held it before it was dropped.
func (a *archiver) has(w fsm.Window) bool {
	_, last := a.h.store.Windows()
	return w.Number <= last
}

// dropped tells whether the folder holds nothing of the window any more: a log that is replayed seals it again, and will drop it again.
func (a *archiver) dropped(w fsm.Window) bool {
	first, _ := a.h.store.Windows()
	return w.Number < first
}

// await returns nil when all windows up to a number have been archived here; else ctx has ended, or the archiver.
func (a *archiver) await(ctx context.Context, window uint64) error {
	return a.progress.wait(ctx, a.ended, func() bool { return a.done.Load() >= window })
}

// seal reads the window from the tip, in one pass, and writes it.
func (a *archiver) seal(w fsm.Window) error {
	everything, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		return err
	}
	c := a.h.tip.NewCursor(topic.NewMatcher(a.h.table, everything), w.FirstSeq)
	defer c.Close()
	var v tipstore.View
	defer v.Release()
	parts := 0 // of v that were handed over
	return a.h.store.Seal(subtree.Window{Number: w.Number, FirstSeq: w.FirstSeq, LastSeq: w.LastSeq}, func() ([]byte, error) {
		for parts == len(v.Parts) {
			if err := c.Read(&v, tipstore.Limit{UpTo: w.LastSeq}); err != nil {
				return nil, err
			}
			if parts = 0; v.Count == 0 && v.Scanned >= w.LastSeq {
				return nil, fmt.Errorf("the tip ended before seq %d", w.LastSeq)
			}
		}
		parts++
		return v.Parts[parts-1], nil
	})
}
