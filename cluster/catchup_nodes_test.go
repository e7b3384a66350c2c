package cluster_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// leaveBehind publishes and takes snapshots until the logs of all running nodes begin after what a stopped node can have.
func (h *chronicle) leaveBehind() {
	h.t.Helper()
	at := h.c.Leader().Status(testContext(h.t)).CommitIndex
	// A node that stopped as it was being brought up holds the log for a minute yet.
	for deadline := time.Now().Add(5 * clustertest.Patience); ; {
		if time.Now().After(deadline) {
			h.t.Fatal("the logs are not cut")
		}
		h.publish(40)
		cut := 0
		for _, m := range h.c.Running() {
			h.snapshot(m)
			if m.Status(testContext(h.t)).LogFirstIndex > at+1 {
				cut++
			}
		}
		if cut == len(h.c.Running()) {
			return
		}
		time.Sleep(50 * time.Millisecond) // between two looks
	}
}

// wantCaughtUp waits until a member has everything, by at least one snapshot that it fetched, and reads from it.
func (h *chronicle) wantCaughtUp(m *clustertest.Member) {
	h.t.Helper()
	h.c.Eventually(fmt.Sprintf("node %d to catch up", m.Index), func() bool {
		return m.Stream().Machine().LastSeq() >= uint64(len(h.all)) && m.Ready() == nil
	})
	if m.Reopened == 0 {
		h.t.Error("the log brought it all: the test shows nothing")
	}
	h.check(m, 10)
}

// TestLaggingNodeCatchesUpByFiles: a node that the log does not reach any more fetches history and state, and is one like the others.
func TestLaggingNodeCatchesUpByFiles(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 11)
	h.publish(50)
	for round := range 2 {
		m := c.Members[round]
		c.Crash(m)
		h.leaveBehind()
		if round == 1 {
			if _, err := c.Leader().PlanNow(testContext(t)); err != nil {
				t.Log(err)
			}
		}
		h.publish(20)
		c.Restart(m)
		h.wantCaughtUp(m)
		h.publish(20)
		h.wantEqualFiles()
	}
}

// TestEmptyNodesCatchUpByFiles: a lost disk comes back under a new id, and a node joins that was never there.
func TestEmptyNodesCatchUpByFiles(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 12)
	h.publish(50)
	lost := c.Followers()[0]
	c.Crash(lost)
	h.leaveBehind()
	if err := os.RemoveAll(lost.Dir); err != nil {
		t.Fatal(err)
	}
	c.Restart(lost)
	h.wantCaughtUp(lost)
	h.wantCaughtUp(c.Add())
	h.publish(20)
	h.wantEqualFiles()
}

// TestCatchUpGoesOnAfterCrashes: a node that is crashed at a random step of each attempt ends like the others, and fetches no file
// twice that it had whole.
func TestCatchUpGoesOnAfterCrashes(t *testing.T) {
	t.Parallel()
	reached := make(chan string)
	var mu sync.Mutex
	crashAt := map[int]string{} // by node: it stands still there
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		withSnapshots(i, o)
		cluster.SetCatchUpStep(o, func(ctx context.Context, step string) {
			mu.Lock()
			stop := crashAt[i] == step
			mu.Unlock()
			if !stop {
				return
			}
			select {
			case reached <- step:
				<-ctx.Done()
			case <-ctx.Done():
			}
		})
	}})
	h := newChronicle(t, c, 13)
	h.publish(30)
	m := c.Followers()[0]
	steps := cluster.CatchUpSteps()
	for _, i := range rand.Perm(len(steps))[:2] { // each costs seconds: raft waits long for a node that was down
		step := steps[i]
		t.Log("crash at step", step)
		c.Crash(m)
		h.leaveBehind()
		if rand.IntN(3) == 0 {
			if err := os.RemoveAll(m.Dir); err != nil {
				t.Fatal(err)
			}
		}
		m.Reopened = 0
		mu.Lock()
		crashAt[m.Index] = step
		mu.Unlock()
		c.Restart(m)
		select {
		case <-reached:
		case <-testContext(t).Done():
			t.Fatalf("step %q was not reached", step)
		}
		c.Crash(m)
		mu.Lock()
		delete(crashAt, m.Index)
		mu.Unlock()
		c.Restart(m)
		if step == "put" {
			m.Reopened++ // it counts: the restart is what ErrReopen asks for
		}
		h.wantCaughtUp(m)
	}
	h.wantEqualFiles()
	if left, _ := filepath.Glob(filepath.Join(m.Dir, "*", "*.part")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestCatchUpWhileEverythingMoves: nodes come back, some with empty disks, while the others take snapshots at every turn, cut their logs,
// rewrite history and drop its beginning under those who fetch it.
func TestCatchUpWhileEverythingMoves(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		withHistory(i, o)
		o.SnapshotBytes, o.LogKeepBytes = 16<<10, 1
		o.History.RetainCount = 1500
	}})
	h := newChronicle(t, c, 14)
	h.publish(100)
	reopened := 0
	for round := range 2 {
		m := c.Members[round]
		c.Eventually("a node to be dispensable", func() bool { return c.Leader().Status(testContext(t)).FailureTolerance > 0 })
		c.Crash(m)
		h.leaveBehind()
		if round == 1 {
			if err := os.RemoveAll(m.Dir); err != nil {
				t.Fatal(err)
			}
		}
		c.Restart(m)
		c.Eventually(fmt.Sprintf("node %d to catch up", m.Index), func() bool {
			h.publish(2)
			return m.Stream().Machine().LastSeq()+200 >= uint64(len(h.all)) && m.Ready() == nil
		})
		reopened += m.Reopened
	}
	if reopened == 0 {
		t.Error("the log brought it all: the test shows nothing")
	}
	h.wantEqualFiles()
	for _, m := range c.Running() {
		first, last := m.Stream().Bounds()
		if last != uint64(len(h.all)) || first == 1 || !h.readSome(m, first) {
			t.Errorf("node %d has seqs %d to %d of %d", m.Index, first, last, len(h.all))
		}
	}
}
