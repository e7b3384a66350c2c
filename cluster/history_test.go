package cluster

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// historyOptions are those of historyFeeder's streams.
func historyOptions(fs vfs.FS) StreamOptions {
	return StreamOptions{Tip: smallTip, MaxTopics: 1000, MaxProducers: 10, History: &HistoryOptions{
		Dir: "history", FS: fs, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond,
		Subtree: subtree.Options{OpenFiles: 3, CacheBytes: 64 << 10, CursorBytes: 64 << 10},
	}}
}

// historyFeeder is a feeder whose stream keeps history in fs.
func historyFeeder(tb testing.TB, fs vfs.FS) *feeder {
	tb.Helper()
	f := &feeder{keep: true}
	f.open(tb, fs)
	return f
}

func (f *feeder) open(tb testing.TB, fs vfs.FS) {
	tb.Helper()
	s, err := NewStream(historyOptions(fs))
	if err != nil {
		tb.Fatal(err)
	}
	f.s = s
}

// replay applies the whole log to an empty stream, as a restarted node does.
func (f *feeder) replay(tb testing.TB) {
	tb.Helper()
	for i, entry := range f.log {
		if _, _, err := f.s.Apply(uint64(i+1), entry, nil); err != nil {
			tb.Fatal(err)
		}
	}
}

// windows makes windows end at so many bytes.
func (f *feeder) windows(bytes uint64) error {
	return f.command(1, record.KindConfig, fsm.ConfigBody(fsm.StreamConfig{ProducerLease: 1, WindowBytes: bytes}))
}

// settled waits until everything sealed and planned is on disk.
func (f *feeder) settled(tb testing.TB) {
	tb.Helper()
	eventually(tb, "history to follow the log", func() bool {
		st := f.s.HistoryStatus()
		return st.PendingWindows == 0 && st.PendingGenerations == 0
	})
}

func (f *feeder) close(tb testing.TB) {
	tb.Helper()
	if err := f.s.Close(); err != nil {
		tb.Fatal(err)
	}
}

// failEvery makes every nth step that writes fail, up to a limit, since a long operation would never succeed; 0: none.
func failEvery(m *vfs.Mem, n int64) {
	const most = 20
	var steps atomic.Int64
	m.SetHook(func(op vfs.Op, _ string) error {
		if n == 0 || op == vfs.OpRead || op == vfs.OpOpen {
			return nil
		}
		if i := steps.Add(1); i%n != 0 || i > most*n {
			return nil
		}
		return errors.New("no space left on device, says the test")
	})
}

// TestHistoryAgainstBruteForce: a tiny ring and tiny windows, so that nearly everything is read from history; writes that fail,
// random plans and merges, restarts. Every reader gets exactly what a scan over all messages says, and never falls off.
func TestHistoryAgainstBruteForce(t *testing.T) {
	var past, tip uint64
	rapid.Check(t, func(r *rapid.T) {
		w := newHistoryWorld(t, r, 1, 2000, 9000)
		w.live(step{4, always(w.planAny)}, step{1, always(w.restart)})
		w.finish()
		past, tip = past+w.s.history.pastMessages.Load(), tip+w.s.history.tipMessages.Load()
	})
	if !testing.Short() && (past == 0 || tip == 0) { // the few random cases of a short run may all be small
		t.Errorf("%d messages from history, %d from the tip: the test shows nothing", past, tip)
	}
}

// TestForeignHistory: a folder with windows that the log does not seal so is refused.
func TestForeignHistory(t *testing.T) {
	fs := vfs.NewMem()
	f := historyFeeder(t, fs)
	fill := func(messages int) {
		if err := f.windows(1); err != nil {
			t.Fatal(err)
		}
		for range messages {
			if err := f.publish(1, nil, "a/b", "a/c"); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(5)
	f.settled(t)
	f.close(t)

	f = &feeder{keep: true}
	f.open(t, fs)
	defer f.close(t)
	if err := f.windows(1); err != nil {
		t.Fatal(err)
	}
	if err := f.publish(1, nil, "a/b"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-f.s.Failed():
		t.Log(err)
	case <-time.After(patience):
		t.Fatal("another stream's history was accepted")
	}
}

// TestDiskFull: with the disk full, applying goes on until the ring is full, readers lose nothing, and all is archived when there
// is space again.
func TestDiskFull(t *testing.T) {
	var full atomic.Bool
	fs := vfs.NewMem()
	fs.SetHook(func(op vfs.Op, _ string) error {
		if full.Load() && op == vfs.OpWrite {
			return errors.New("no space left on device, says the test")
		}
		return nil
	})
	f := historyFeeder(t, fs)
	defer f.close(t)
	if err := f.windows(1000); err != nil {
		t.Fatal(err)
	}
	full.Store(true)
	r, err := f.s.OpenReader(ReaderOptions{Filters: mustFilters(t, "**"), Start: wire.StartFirst})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	published := 0
	publish := func() {
		published++
		if err := f.publish(int64(published), make([]byte, 1000), "a/b"); err != nil {
			t.Error(err)
		}
	}
	// Ring and overflow hold 8 chunks of 4 KiB.
	for range 20 {
		publish()
	}
	eventually(t, "the problem to be told", func() bool { return f.s.HistoryStatus().Problem != "" })
	if n := f.s.Tip().Stats().FloorWaits; n != 0 {
		t.Fatalf("applying waited %d times although the ring was not full", n)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 80 {
			publish()
		}
	}()
	eventually(t, "applying to wait", func() bool { return f.s.Tip().Stats().FloorWaits > 0 })
	full.Store(false)
	<-done
	f.settled(t)
	if p := f.s.HistoryStatus().Problem; p != "" {
		t.Errorf("still a problem: %s", p)
	}
	var v tipstore.View
	next := uint64(1)
	for r.Position() < 100 {
		if err := r.Read(&v, tipstore.Limit{Count: 7}); err != nil {
			t.Fatal(err)
		}
		if v.Count > 0 && v.First != next {
			t.Fatalf("got seq %d, want %d", v.First, next)
		}
		next = r.Position() + 1
	}
	v.Release()
	if s := r.Sources(); s.History == 0 || s.Tip == 0 || s.History+s.Tip != 100 {
		t.Errorf("%+v", s)
	}
}

// TestRetireUnderFullDisk: closing does not wait for a disk that stays full.
func TestRetireUnderFullDisk(t *testing.T) {
	fs := vfs.NewMem()
	f := historyFeeder(t, fs)
	if err := f.windows(1000); err != nil {
		t.Fatal(err)
	}
	fs.SetHook(func(op vfs.Op, _ string) error {
		if op == vfs.OpWrite {
			return errors.New("no space left on device, says the test")
		}
		return nil
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 100 {
			if err := f.publish(int64(i), make([]byte, 1000), "a/b"); err != nil {
				t.Error(err)
			}
		}
	}()
	eventually(t, "applying to wait", func() bool { return f.s.Tip().Stats().FloorWaits > 0 })
	f.s.Retire()
	<-done
	f.close(t)
}

// keepAll is a configuration without limits of retention.
var keepAll = fsm.StreamConfig{RetainAge: fsm.Unlimited, RetainBytes: fsm.Unlimited, RetainCount: fsm.Unlimited}

// TestMergeable holds the choice of what to merge against a long life: every window planned in groups, merged whenever it is due.
func TestMergeable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, group := range []uint64{1, 8, 0} {
		var gs []fsm.Generation
		var windows []fsm.Window
		written := uint64(0)
		for number := uint64(1); len(windows) < 20_000; {
			n := group
			if n == 0 {
				n = 1 + rnd.Uint64N(20)
			}
			for range n {
				windows = append(windows, fsm.Window{Number: uint64(len(windows)) + 1, Bytes: 1})
			}
			w, ok := unplanned(gs, windows, uint64(len(windows)), n)
			if !ok {
				t.Fatal("nothing to plan")
			}
			for ; ok; w, ok = mergeable(gs, windows, keepAll) {
				gs = replaced(gs, fsm.Generation{Number: number, FirstWindow: w.first, LastWindow: w.last})
				written += w.last - w.first + 1
				number++
			}
			if len(gs) > 2*7*6 {
				t.Fatalf("groups of %d: %d generations for %d windows", group, len(gs), len(windows))
			}
		}
		each := float64(written) / float64(len(windows))
		t.Logf("groups of %d: %d generations, each window written %.1f times", group, len(gs), each)
		if each > 7 {
			t.Errorf("groups of %d: each window was written %.1f times", group, each)
		}
	}
}

// replaced is gs with g in the place of what it covers.
func replaced(gs []fsm.Generation, g fsm.Generation) (out []fsm.Generation) {
	for _, old := range gs {
		if old.LastWindow < g.FirstWindow {
			out = append(out, old)
		}
	}
	out = append(out, g)
	for _, old := range gs {
		if old.FirstWindow > g.LastWindow {
			out = append(out, old)
		}
	}
	return out
}

// TestMergeKeepsWithinBytes: what would become too large is left alone.
func TestMergeKeepsWithinBytes(t *testing.T) {
	var gs []fsm.Generation
	var windows []fsm.Window
	for i := range uint64(mergeFan) {
		gs = append(gs, fsm.Generation{Number: i + 1, FirstWindow: i + 1, LastWindow: i + 1})
		windows = append(windows, fsm.Window{Number: i + 1, Bytes: maxMergeBytes / mergeFan})
	}
	if w, ok := mergeable(gs, windows, keepAll); !ok || w != (windowRange{1, mergeFan}) {
		t.Errorf("%v %v", w, ok)
	}
	windows[3].Bytes++
	if w, ok := mergeable(gs, windows, keepAll); ok {
		t.Errorf("merged %v", w)
	}
}
