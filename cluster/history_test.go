package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/subtree/plan"
	"github.com/cantus-bus/cantus/tipstore"
)

// historyFeeder is a feeder whose stream keeps history in fs.
func historyFeeder(tb testing.TB, fs vfs.FS) *feeder {
	tb.Helper()
	f := &feeder{keep: true}
	f.open(tb, fs)
	return f
}

func (f *feeder) open(tb testing.TB, fs vfs.FS) {
	tb.Helper()
	s, err := NewStream(StreamOptions{Tip: smallTip, MaxTopics: 1000, MaxProducers: 10, History: &HistoryOptions{
		Dir: "history", FS: fs, RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond,
		Subtree: subtree.Options{OpenFiles: 3, CacheBytes: 64 << 10, CursorBytes: 64 << 10},
	}})
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

// planAny plans a random range that may be planned: new windows, or a merge. Volumes come from the archived windows.
func (w *readerWorld) planAny() {
	m := w.s.Machine()
	gs := m.Generations()
	_, archived := w.s.history.store.Windows()
	r, ok := unplanned(gs, m.Windows(), min(archived, newestWindow(m)), 1)
	if len(gs) > 1 && rapid.Bool().Draw(w.r, "merge") {
		i := rapid.IntRange(0, len(gs)-2).Draw(w.r, "from")
		j := rapid.IntRange(i+1, len(gs)-1).Draw(w.r, "to")
		r, ok = windowRange{gs[i].FirstWindow, gs[j].LastWindow}, true
	}
	if !ok {
		return
	}
	p := planner{store: w.s.history.store, table: w.s.table, opts: plan.Options{Budget: rapid.IntRange(1, 6).Draw(w.r, "budget")}}
	var previous *fsm.Generation
	if len(gs) > 0 {
		previous = &gs[len(gs)-1]
	}
	plans, err := p.plan(r, previous)
	if errors.Is(err, subtree.ErrOutOfOrder) {
		return // a rewrite that ended just now has replaced what was to be looked at
	}
	if err != nil {
		w.r.Fatal(err)
	}
	body := fsm.PlanBody(fsm.Generation{Number: m.NextGeneration(), FirstWindow: r.first, LastWindow: r.last, Plans: plans})
	if err := w.command(w.now, record.KindPlan, body); err != nil {
		w.r.Fatal(err)
	}
}

// restart loses the tip and the state, keeps history, and replays the log. Readers resume where they were.
func (w *readerWorld) restart(t *testing.T, fs vfs.FS) {
	for _, rd := range w.readers {
		rd.Close()
	}
	w.close(t)
	w.open(t, fs)
	if !rapid.Bool().Draw(w.r, "readers come back at once") {
		w.replay(t)
	} else {
		defer w.replay(t)
	}
	w.readers = slices.DeleteFunc(w.readers, func(rd *tracked) bool { return !w.resume(rd) })
}

// resume opens a reader anew after what it got; it is false if that is no longer retained. One whose start time has not come stays as it
// is.
func (w *readerWorld) resume(t *tracked) bool {
	o := ReaderOptions{Filters: t.filters, Start: wire.StartSeq, Value: max(t.Position(), t.delivered) + 1}
	if t.since != 0 {
		o = ReaderOptions{Filters: t.filters, Start: wire.StartTime, Value: uint64(t.since)}
	} else if t.floating {
		o.Value = t.start
	}
	r, err := w.s.OpenReader(o)
	if oldest := w.s.Machine().FirstSeq(); o.Start == wire.StartSeq && o.Value < oldest && isGone(err) {
		return false
	}
	if err != nil {
		w.r.Fatal(err)
	}
	head := t.head
	t.Reader = r
	t.head, t.floating = head, t.since != 0
	return true
}

// TestHistoryAgainstBruteForce: a tiny ring and tiny windows, so that nearly everything is read from history; writes that fail,
// random plans and merges, restarts. Every reader gets exactly what a scan over all messages says, and never falls off.
func TestHistoryAgainstBruteForce(t *testing.T) {
	var past, tip uint64
	rapid.Check(t, func(r *rapid.T) {
		fs, faults := vfs.NewMem(), rapid.SampledFrom([]int64{0, 7, 23}).Draw(r, "faults")
		w := &readerWorld{feeder: historyFeeder(t, fs), r: r, now: 1000}
		failEvery(fs, faults)
		if err := w.windows(rapid.SampledFrom([]uint64{1, 2000, 9000}).Draw(r, "window")); err != nil {
			r.Fatal(err)
		}
		for range rapid.IntRange(1, 200).Draw(r, "steps") {
			switch k := rapid.IntRange(0, 20).Draw(r, "step"); {
			case k < 9:
				w.write()
			case k < 11 && len(w.readers) < 10:
				w.openReader()
			case k < 13:
				w.planAny()
			case k < 14 && rapid.IntRange(0, 3).Draw(r, "restart") == 0:
				fs.SetHook(nil)
				w.restart(t, fs)
				failEvery(fs, faults)
			case len(w.readers) > 0:
				w.read(rapid.IntRange(0, len(w.readers)-1).Draw(r, "reader"))
			}
		}
		w.settled(t)
		for range 3 {
			w.openReader()
		}
		for i := range w.readers {
			w.drain(i)
		}
		past, tip = past+w.s.history.pastMessages.Load(), tip+w.s.history.tipMessages.Load()
		for _, t := range w.readers {
			t.Close()
		}
		w.equalElsewhere(t)
		w.close(t)
	})
	if past == 0 || tip == 0 {
		t.Errorf("%d messages from history, %d from the tip: the test shows nothing", past, tip)
	}
}

// equalElsewhere applies the log on another node and wants the same files there.
func (w *readerWorld) equalElsewhere(t *testing.T) {
	other := &feeder{log: w.log}
	other.open(t, vfs.NewMem())
	defer other.close(t)
	other.replay(t)
	other.settled(t)
	if got, want := fmt.Sprint(other.s.history.store.Files()), fmt.Sprint(w.s.history.store.Files()); got != want {
		w.r.Fatalf("another node has other files:\n%s\nhere:\n%s", got, want)
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
