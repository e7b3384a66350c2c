package cluster

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/subtree/plan"
)

// step is something that a world does at random.
type step struct {
	weight int         // how often, beside the others' weights
	do     func() bool // false: there was nothing to do
}

// always is a step that can always be done.
func always(do func()) func() bool { return func() bool { do(); return true } }

// live does up to most random steps. When there was nothing to do, a reader reads.
func (w *readerWorld) live(most int, steps ...step) {
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	for range rapid.IntRange(1, most).Draw(w.r, "steps") {
		k := rapid.IntRange(0, total-1).Draw(w.r, "step")
		i := slices.IndexFunc(steps, func(s step) bool { k -= s.weight; return k < 0 })
		if !steps[i].do() {
			w.readAny()
		}
	}
}

// openOne opens a reader unless there are most.
func (w *readerWorld) openOne(most int) func() bool {
	return func() bool {
		if len(w.readers) >= most {
			return false
		}
		w.openReader()
		return true
	}
}

// readAny does one Read of one of the readers.
func (w *readerWorld) readAny() bool {
	if len(w.readers) > 0 {
		w.read(rapid.IntRange(0, len(w.readers)-1).Draw(w.r, "reader"))
	}
	return true
}

// drainAll reads all that there is for every reader, and closes them.
func (w *readerWorld) drainAll() {
	for i := len(w.readers) - 1; i >= 0; i-- {
		w.drain(i)
	}
	for _, t := range w.readers {
		t.Close()
	}
}

// historyWorld is a world whose stream keeps history on a disk that fails at times.
type historyWorld struct {
	*readerWorld
	t      *testing.T
	fs     *vfs.Mem
	faults int64 // every so manieth step of the disk fails, 0: none
}

// newHistoryWorld draws a world with windows of one of so many bytes.
func newHistoryWorld(t *testing.T, r *rapid.T, windows ...uint64) *historyWorld {
	fs := vfs.NewMem()
	w := &historyWorld{
		readerWorld: &readerWorld{feeder: historyFeeder(t, fs), r: r, now: 1000}, t: t, fs: fs,
		faults: rapid.SampledFrom([]int64{0, 7, 23}).Draw(r, "faults"),
	}
	failEvery(fs, w.faults)
	if err := w.windows(rapid.SampledFrom(windows).Draw(r, "window")); err != nil {
		r.Fatal(err)
	}
	return w
}

// live does random steps: what all worlds of this kind do, and own.
func (w *historyWorld) live(own ...step) {
	w.readerWorld.live(200, append([]step{{36, always(w.write)}, {8, w.openOne(10)}, {4, always(w.planAny)}, {24, w.readAny}}, own...)...)
}

// healthy does what must not fail.
func (w *historyWorld) healthy(do func()) {
	w.fs.SetHook(nil)
	do()
	failEvery(w.fs, w.faults)
}

// restart loses the tip and the state, keeps history, and replays the log. Readers resume where they were.
func (w *historyWorld) restart() {
	w.healthy(func() {
		w.shut()
		w.open(w.t, w.fs)
		w.comeBack(func() { w.replay(w.t) })
	})
}

// shut closes readers and stream.
func (w *historyWorld) shut() {
	for _, rd := range w.readers {
		rd.Close()
	}
	w.close(w.t)
}

// comeBack replays and lets the readers resume, before it or after it. Those that need what is no longer retained are no more.
func (w *historyWorld) comeBack(replay func()) {
	if rapid.Bool().Draw(w.r, "readers come back at once") {
		defer replay()
	} else {
		replay()
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

// finish waits until history is what it should be, reads everything by old and new readers, wants the same files elsewhere, and closes.
func (w *historyWorld) finish() {
	w.retained(w.t)
	for range 3 {
		w.openReader()
	}
	w.drainAll()
	w.equalElsewhere()
	w.close(w.t)
}

// retained waits until history holds what is to be retained, and that only.
func (f *feeder) retained(tb testing.TB) {
	tb.Helper()
	f.settled(tb)
	eventually(tb, "history to drop what is not retained", func() bool {
		windows := f.s.Machine().Windows()
		first, _ := f.s.history.store.Windows()
		return len(windows) == 0 || first == windows[0].Number
	})
}

// equalElsewhere applies the log on another node, which has an old folder or none, and wants the same state and files there.
func (w *historyWorld) equalElsewhere() {
	other, fs := &feeder{log: w.log}, vfs.NewMem()
	other.open(w.t, fs)
	if rapid.Bool().Draw(w.r, "the other restarts") {
		other.replay(w.t)
		other.settled(w.t)
		other.close(w.t)
		other.open(w.t, fs)
	}
	defer other.close(w.t)
	other.replay(w.t)
	other.retained(w.t)
	state := func(f *feeder) string { return fmt.Sprintln(f.s.machine.Digest().Parts, f.s.history.store.Files()) }
	if got, want := state(other), state(w.feeder); got != want {
		w.r.Fatalf("another node has\n%s\nhere:\n%s", got, want)
	}
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
