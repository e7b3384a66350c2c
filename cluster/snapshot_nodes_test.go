package cluster_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// withSnapshots keeps little of the log, and takes snapshots and plans only when asked to.
func withSnapshots(i int, o *cluster.Options) {
	withHistory(i, o)
	o.History.PlanWindows = -1
	o.SnapshotBytes, o.LogKeepBytes = 1<<40, 1
}

// snapshot takes one on a node and returns it.
func (h *chronicle) snapshot(m *clustertest.Member) cluster.SnapshotInfo {
	h.t.Helper()
	i, err := m.TakeSnapshot(testContext(h.t))
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

// digest is the state of a node at a new checkpoint.
func (h *chronicle) digest(m *clustertest.Member) map[string]string {
	h.t.Helper()
	ctx := testContext(h.t)
	id, err := h.c.Leader().Checkpoint(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	d, err := m.CheckpointDigest(ctx, id)
	if err != nil {
		h.t.Fatal(err)
	}
	return d.Parts
}

// TestRestartFromSnapshot: the log is cut behind two snapshots; a restart begins with the newest and ends in the same state; readers
// find every message, from the first on.
func TestRestartFromSnapshot(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 5)
	m := c.Leader()
	for round := range 4 {
		h.publish(100)
		if round == 2 {
			if _, err := m.PlanNow(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		i := h.snapshot(m)
		if i.Seq != uint64(len(h.all)) || i.FirstSeq != 1 || i.HistoryFiles == 0 || i.StateBytes == 0 {
			t.Errorf("%+v with %d messages", i, len(h.all))
		}
		if again := h.snapshot(m); again != i {
			t.Errorf("nothing is new, and there is another snapshot: %+v", again)
		}
		h.publish(h.rnd.IntN(30))
		before := h.digest(m)
		st := m.Status(testContext(t))
		if round > 0 && (st.LogFirstIndex <= 1 || st.Snapshot == nil || *st.Snapshot != i) {
			t.Errorf("round %d: the log begins with %d, the snapshot is %+v", round, st.LogFirstIndex, st.Snapshot)
		}
		if round%2 == 0 {
			c.Close(m)
		} else {
			c.Crash(m)
		}
		c.Restart(m)
		c.Leader()
		if first, last := m.Stream().Bounds(); first != 1 || last != uint64(len(h.all)) {
			t.Errorf("after the restart %d to %d can be read, want 1 to %d", first, last, len(h.all))
		}
		h.check(m, 20)
		if after := h.digest(m); !maps.Equal(before, after) {
			t.Errorf("before the restart\n%v\nand after it\n%v", before, after)
		}
		if n := len(m.Snapshots()); n != min(round+1, 2) {
			t.Errorf("%d snapshots are kept", n)
		}
	}
	if names, err := filepath.Glob(filepath.Join(m.Dir, "snapshots", "*")); err != nil || len(names) != 4 {
		t.Errorf("%v %v", names, err)
	}
}

// TestSnapshotsOnThreeNodes: nodes take snapshots when enough was applied, each by itself, cut their logs and restart from them while
// messages come; all end in the same state with the same files.
func TestSnapshotsOnThreeNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		withHistory(i, o)
		o.SnapshotBytes, o.LogKeepBytes = 32<<10, 64<<10
	}})
	h := newChronicle(t, c, 6)
	for round := range 6 {
		h.publish(60)
		m := c.Members[round%3]
		if round%2 == 0 {
			c.Crash(m)
		} else {
			c.Close(m)
		}
		h.publish(5)
		c.Restart(m)
		c.Leader()
		h.check(m, 10)
	}
	h.publish(60)
	for _, m := range c.Running() {
		c.Eventually(fmt.Sprintf("node %d to cut its log", m.Index), func() bool {
			st := m.Status(testContext(t))
			if st.LogFirstIndex <= 1 {
				h.publish(20)
			}
			return st.LogFirstIndex > 1 && st.Snapshot != nil
		})
		h.check(m, 10)
	}
	h.wantEqualFiles()
}
