package cluster

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree/plan"
	"github.com/cantus-bus/cantus/tipstore"
)

// planned is a stream whose history is split by plans of the test's choice, with what was published.
type planned struct {
	*feeder
	t     *testing.T
	names []string // of the messages, in order
}

func newPlanned(t *testing.T, fs vfs.FS) *planned {
	p := &planned{feeder: historyFeeder(t, fs), t: t}
	if err := p.windows(1000); err != nil {
		t.Fatal(err)
	}
	return p
}

// fill publishes one window.
func (p *planned) fill(topics ...string) {
	p.t.Helper()
	before := newestWindow(p.s.Machine())
	for newestWindow(p.s.Machine()) == before {
		if err := p.publish(int64(len(p.names)), make([]byte, 100), topics...); err != nil {
			p.t.Fatal(err)
		}
		p.names = append(p.names, topics...)
	}
}

// archived waits until all windows are on disk.
func (p *planned) archived() {
	p.t.Helper()
	eventually(p.t, "the windows to be archived", func() bool { return p.s.HistoryStatus().PendingWindows == 0 })
}

// plan puts a plan for these windows into the log.
func (p *planned) plan(first, last uint64, plans ...fsm.PartitionPlan) error {
	g := fsm.Generation{Number: p.s.Machine().NextGeneration(), FirstWindow: first, LastWindow: last, Plans: plans}
	return p.command(int64(len(p.names)), record.KindPlan, fsm.PlanBody(g))
}

// computed are the plans that a leader would make for a range.
func (p *planned) computed(first, last uint64, budget int) []fsm.PartitionPlan {
	p.t.Helper()
	pl := planner{store: p.s.history.store, table: p.s.table, opts: plan.Options{Budget: budget}}
	plans, err := pl.plan(windowRange{first, last}, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	return plans
}

// check reads everything, and each filter, and compares with what was published.
func (p *planned) check(filters ...string) {
	p.t.Helper()
	for _, filter := range append(filters, "**") {
		fs := mustFilters(p.t, filter)
		r, err := p.s.OpenReader(ReaderOptions{Filters: fs, Start: wire.StartFirst})
		if err != nil {
			p.t.Fatal(err)
		}
		var want, got []string
		for i, name := range p.names {
			if fs.Match(name) {
				want = append(want, fmt.Sprint(i+1, name))
			}
		}
		var v tipstore.View
		for r.Position() < uint64(len(p.names)) {
			if err := r.Read(&v, tipstore.Limit{}); err != nil {
				p.t.Fatalf("%s: %v", filter, err)
			}
			for _, run := range v.Parts {
				for ; len(run) > 0; run = run[record.Scan(run):] {
					got = append(got, fmt.Sprint(record.First(run).Seq(), p.s.table.Name(topic.ID(record.First(run).Topic()))))
				}
			}
		}
		v.Release()
		r.Close()
		if !slices.Equal(got, want) {
			p.t.Fatalf("%s: got %d messages, want %d", filter, len(got), len(want))
		}
	}
}

// equalToAFreshNode applies the log on a node that never saw any trouble, and compares the files.
func (p *planned) equalToAFreshNode() {
	p.t.Helper()
	other := &feeder{log: p.log}
	other.open(p.t, vfs.NewMem())
	defer other.close(p.t)
	other.replay(p.t)
	other.settled(p.t)
	p.settled(p.t)
	if got, want := fmt.Sprint(p.s.HistoryFiles()), fmt.Sprint(other.s.HistoryFiles()); got != want {
		p.t.Fatalf("files\n%s\nof a node without trouble\n%s", got, want)
	}
}

var plannedTopics = []string{"a/b/c", "a/b/d", "a/b/d/e", "a/b/f/g", "x/y/z"}

// TestBadPlansAreRefused: a plan that cannot be carried out changes nothing, and keeps neither the next plan nor readers from going on.
func TestBadPlansAreRefused(t *testing.T) {
	p := newPlanned(t, vfs.NewMem())
	for range 4 {
		p.fill(plannedTopics...)
	}
	p.archived()
	ab, xy := p.partition("a/b"), p.partition("x/y")
	good := p.computed(1, 2, 3)
	if len(good) == 0 || good[0].Partition != ab {
		t.Fatalf("plans %v", good)
	}
	empty := []byte{plan.Version, 3, 'a', '/', 'b', 0, 0} // no stores, no rules
	files := fmt.Sprint(p.s.HistoryFiles())
	for name, bad := range map[string]struct {
		first, last uint64
		plans       []fsm.PartitionPlan
	}{
		"no stores":                     {1, 2, []fsm.PartitionPlan{{Partition: ab, Plan: empty}}},
		"no bytes":                      {1, 2, []fsm.PartitionPlan{{Partition: ab}}},
		"cut short":                     {1, 2, []fsm.PartitionPlan{{Partition: ab, Plan: good[0].Plan[:len(good[0].Plan)-1]}}},
		"two for one partition":         {1, 2, []fsm.PartitionPlan{good[0], good[0]}},
		"two for one by another's node": {1, 2, []fsm.PartitionPlan{good[0], {Partition: xy, Plan: good[0].Plan}}},
		"of another partition":          {1, 2, []fsm.PartitionPlan{{Partition: xy, Plan: good[0].Plan}}},
		"not a partition":               {1, 2, []fsm.PartitionPlan{{Partition: 9999, Plan: good[0].Plan}}},
		"windows that are not sealed":   {1, 99, good},
		"a window left out":             {2, 3, good},
		"no windows":                    {2, 1, good},
	} {
		if err := p.plan(bad.first, bad.last, bad.plans...); err == nil || err.Error() != fsm.Invalid.String() {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(p.s.Machine().Generations()); n != 0 || fmt.Sprint(p.s.HistoryFiles()) != files {
		t.Fatalf("%d generations, files %v", n, p.s.HistoryFiles())
	}
	stale := fsm.Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: good}
	if err := p.command(1, record.KindPlan, fsm.PlanBody(stale)); err != nil {
		t.Fatal(err)
	}
	// The plan of a leader that did not know that one.
	if err := p.command(1, record.KindPlan, fsm.PlanBody(stale)); err == nil || err.Error() != fsm.OutOfOrder.String() {
		t.Errorf("the same generation twice: %v", err)
	}
	if err := p.plan(3, 4, p.computed(3, 4, 2)...); err != nil {
		t.Fatal(err)
	}
	p.settled(t)
	p.check("a/b/d/**", "x/**")
	p.equalToAFreshNode()
	p.close(t)
}

func (p *planned) partition(name string) topic.ID {
	p.t.Helper()
	id, ok := p.s.table.Lookup(name)
	if !ok {
		p.t.Fatalf("no topic %s", name)
	}
	return id
}

// TestTopicsNeverSeenBeforeHaveAStore: a plan made before topics came up holds for them too: each lies in the store of the longest
// prefix that the plan names, and is read from there.
func TestTopicsNeverSeenBeforeHaveAStore(t *testing.T) {
	p := newPlanned(t, vfs.NewMem())
	p.fill(plannedTopics...)
	p.archived()
	plans := p.computed(1, 1, 4)
	fresh := []string{"a/b", "a/b/d/new", "a/b/new/below", "a/b/c/new", "new/partition/x", "solo"}
	p.fill(append(fresh, plannedTopics...)...)
	if err := p.plan(1, 2, plans...); err != nil {
		t.Fatal(err)
	}
	p.settled(t)
	if files := p.s.HistoryFiles(); len(files) != 1 || !strings.HasPrefix(files[0].Name(), "g-") {
		t.Fatalf("%+v", files)
	}
	pl, err := plan.Decode(plans[0].Plan)
	if err != nil || pl.Len() < 2 {
		t.Fatalf("%d stores, %v", pl.Len(), err)
	}
	for _, name := range fresh[:4] {
		if s := pl.StoreOf(name); s < 0 || s >= pl.Len() {
			t.Errorf("%s has store %d of %d", name, s, pl.Len())
		}
	}
	p.check(append(fresh, "a/b/d/**", "a/b/**", "new/**")...)
	p.equalToAFreshNode()
	p.close(t)
}

// breakpoint stops one goroutine at a step of a file system until it is let go.
type breakpoint struct {
	steps   atomic.Int64
	at      int64
	reached chan struct{}
	goOn    chan struct{}
}

// breakAt stops at the nth step from now on.
func breakAt(fs *vfs.Mem, n int64) *breakpoint {
	b := &breakpoint{at: n, reached: make(chan struct{}), goOn: make(chan struct{})}
	fs.SetHook(func(vfs.Op, string) error {
		if b.steps.Add(1) == b.at {
			close(b.reached)
			<-b.goOn
		}
		return nil
	})
	return b
}

// TestTroubleAtEveryStepOfARewrite: at each step of rewriting windows into stores, one after the other, a newer plan comes that
// covers them, or the node crashes, or both. Whatever was planned, readers get everything, and the files are in the end those of a node without
// trouble.
func TestTroubleAtEveryStepOfARewrite(t *testing.T) {
	for name, trouble := range map[string]struct{ newer, crash bool }{
		"newer plan": {newer: true}, "crash": {crash: true}, "newer plan and crash": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			rnd := rand.New(rand.NewSource(1))
			steps := 0
			for n := int64(1); ; n++ {
				if !troubleAt(t, n, trouble.newer, trouble.crash, rnd) {
					break
				}
				steps++
			}
			if steps < 15 {
				t.Errorf("the rewrite had %d steps: the test shows little", steps)
			}
			t.Log(steps, "steps")
		})
	}
}

// troubleAt is false if the rewrite has not so many steps.
func troubleAt(t *testing.T, n int64, newer, crash bool, rnd *rand.Rand) bool {
	fs := vfs.NewMem()
	p := newPlanned(t, fs)
	for range 3 {
		p.fill(plannedTopics...)
	}
	p.archived()
	if err := p.plan(1, 1, p.computed(1, 1, 2)...); err != nil {
		t.Fatal(err)
	}
	p.settled(t)
	second, merged := p.computed(2, 3, 3), p.computed(1, 3, 2)
	b := breakAt(fs, n)
	if err := p.plan(2, 3, second...); err != nil {
		t.Fatal(err)
	}
	hit, watched := p.rewrittenOr(b)
	if !hit {
		fs.SetHook(nil)
	}
	if newer {
		if err := p.plan(1, 3, merged...); err != nil {
			t.Fatal(err)
		}
	}
	if hit {
		p.letGo(b, fs, crash, rnd, watched)
	}
	p.settled(t)
	p.check("a/b/d/**", "a/b/c", "x/**")
	p.equalToAFreshNode()
	p.close(t)
	return hit
}

// rewrittenOr waits until all plans are carried out, or until the step is reached; then watched is closed when nobody looks at the stream
// any more, which may be after it goes on.
func (p *planned) rewrittenOr(b *breakpoint) (hit bool, watched chan struct{}) {
	watched, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for p.s.HistoryStatus().PendingGenerations > 0 { // it may wait for what has stopped
			select {
			case <-b.reached:
				return
			case <-time.After(100 * time.Microsecond):
			}
		}
		close(done)
	}()
	select {
	case <-b.reached:
		return true, watched
	case <-done:
		return b.steps.Load() >= b.at, watched
	}
}

// letGo lets the rewrite go on, or cuts the power where it stands and starts again with what the disk has.
func (p *planned) letGo(b *breakpoint, fs *vfs.Mem, crash bool, rnd *rand.Rand, watched <-chan struct{}) {
	p.t.Helper()
	if !crash {
		close(b.goOn)
		<-watched
		return
	}
	after := fs.Crash(rnd)
	close(b.goOn)
	<-watched
	p.close(p.t)
	p.open(p.t, after)
	p.replay(p.t)
}
