package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// HistoryOptions say where a stream's history lies.
type HistoryOptions struct {
	Dir     string          // a Node's default: "history" in its data folder
	FS      vfs.FS          // nil: the system's
	Subtree subtree.Options // memory and open files

	// RewriteRate bounds, in bytes of records a second, what rewriting into stores reads. 0: no limit.
	RewriteRate int64
	// ScrubInterval is how long after one scrub, which reads and checks all files, the next begins, and ScrubRate how many bytes a
	// second it reads at most. If either is 0 there are none.
	ScrubInterval time.Duration
	ScrubRate     int64
	// RetryMin and RetryMax bound the time between two attempts at what failed, doubling. 0: 100 ms and 10 s.
	RetryMin, RetryMax time.Duration

	Logger hclog.Logger // nil: silent; a Node's default: its own
}

func (o HistoryOptions) withDefaults() HistoryOptions {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	setDefault(&o.RetryMin, 100*time.Millisecond)
	setDefault(&o.RetryMax, max(o.RetryMin, 10*time.Second))
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	return o
}

// history is the part of a stream that lies on disk, and the two goroutines that bring it there: the archiver writes each sealed
// window from the tip, the rewriter turns windows into the generations that the log's plans name. Both only follow the log, so that
// every node ends with the same files.
type history struct {
	o       HistoryOptions
	log     hclog.Logger
	store   *subtree.Store
	table   *topic.Table
	tip     *tipstore.Store
	machine *fsm.Machine // set before start

	archiver archiver
	rewriter rewriter
	scrubber scrubber

	failed chan error         // capacity 1
	cancel context.CancelFunc // nil: not started
	loops  sync.WaitGroup
	once   sync.Once // of stop

	pastMessages, tipMessages atomic.Uint64 // that readers got from history and from the tip
}

// openHistory opens the folder and makes the tip hold what is not in it.
func openHistory(o HistoryOptions, table *topic.Table, tip *tipstore.Store) (*history, error) {
	o = o.withDefaults()
	store, err := subtree.Open(o.FS, o.Dir, table, o.Subtree)
	var corrupt *subtree.CorruptError
	if errors.As(err, &corrupt) && !errors.Is(err, subtree.ErrNewerVersion) { // its manifest: any other file is mended
		return nil, damaged(partManifest, fmt.Errorf("cluster: open the stream's history: %w: %s", err, howToMend))
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: open the stream's history: %w", err)
	}
	h := &history{o: o, log: o.Logger, store: store, table: table, tip: tip, failed: make(chan error, 1)}
	h.archiver = archiver{h: h, kick: make(chan struct{}, 1), ended: make(chan struct{})}
	h.archiver.progress.init()
	h.rewriter = rewriter{h: h, kick: make(chan struct{}, 1), pace: pace{rate: o.RewriteRate}}
	h.scrubber = scrubber{h: h, pace: pace{rate: o.ScrubRate}}
	h.archiver.problem.init(o.Logger, "archiving")
	h.rewriter.problem.init(o.Logger, "rewriting into stores")
	h.archiver.open()
	return h, nil
}

// start begins to follow the machine, which stands where the stream goes on.
func (h *history) start() {
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	h.loops.Go(func() { h.archiver.run(ctx) })
	h.loops.Go(func() { h.rewriter.run(ctx) })
	h.loops.Go(func() { h.scrubber.run(ctx) })
}

// stop ends both goroutines and lets the tip go.
func (h *history) stop() {
	h.once.Do(func() {
		if h.cancel != nil {
			h.cancel()
		}
		h.loops.Wait()
		h.tip.SetFloor(tipstore.NoFloor)
	})
}

// windowSealed is the state machine's call, from Apply.
func (h *history) windowSealed(w fsm.Window) {
	h.tip.SetSealed(w.LastSeq)
	kick(h.archiver.kick)
}

// retained is the state machine's call, from Apply.
func (h *history) retained(fsm.Window) { kick(h.archiver.kick) }

// planned is the state machine's call, from Apply.
func (h *history) planned(fsm.Generation) { kick(h.rewriter.kick) }

// fail reports what no retry mends.
func (h *history) fail(err error) {
	h.log.Error("history cannot be used", "dir", h.o.Dir, "error", err)
	select {
	case h.failed <- err:
	default:
	}
}

// kick wakes a goroutine that waits at a channel of capacity 1.
func kick(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// trouble is what is wrong with one of the goroutines just now, and the time until its next attempt.
type trouble struct {
	log   hclog.Logger
	doing string
	count atomic.Uint64 // errors so far
	wait  time.Duration // the owner's
	mu    struct {
		sync.Mutex
		err error
	}
}

func (t *trouble) init(log hclog.Logger, doing string) { t.log, t.doing = log, doing }

// note keeps an error; nil: all is well again.
func (t *trouble) note(err error) {
	t.mu.Lock()
	before := t.mu.err
	t.mu.err = err
	t.mu.Unlock()
	switch {
	case err != nil:
		t.count.Add(1)
		if before == nil || before.Error() != err.Error() {
			t.log.Warn(t.doing+" failed: trying again until it succeeds", "error", err)
		}
	case before != nil:
		t.log.Info(t.doing + " goes on")
	}
	if err == nil {
		t.wait = 0
	}
}

// pause waits longer after each error in a row, at most o.RetryMax.
func (t *trouble) pause(ctx context.Context, o *HistoryOptions) {
	t.wait = min(max(2*t.wait, o.RetryMin), o.RetryMax)
	pause.For(ctx, t.wait)
}

// repeat does something at an interval, longer and longer after while it fails, until ctx ends.
func (t *trouble) repeat(ctx context.Context, interval, longest time.Duration, do func() error) {
	retry := HistoryOptions{RetryMin: 2 * interval, RetryMax: longest}
	for pause.For(ctx, interval); ctx.Err() == nil; {
		err := do()
		if ctx.Err() != nil {
			return
		}
		if t.note(err); err != nil {
			t.pause(ctx, &retry)
		} else {
			pause.For(ctx, interval)
		}
	}
}

func (t *trouble) get() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.err == nil {
		return ""
	}
	return t.doing + " failed: " + t.mu.err.Error()
}
