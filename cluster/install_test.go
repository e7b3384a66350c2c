package cluster_test

import (
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// TestLateSnapshotChangesNothing: an InstallSnapshot that comes twice, or long after, is answered as done, and one of a leader that is
// none any more is not. Raft itself would take the state back to it.
func TestLateSnapshotChangesNothing(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 31)
	h.publish(30)
	leader := c.Leader()
	h.snapshot(leader)
	list := leader.FileList()
	if len(list.Snapshots) != 1 {
		t.Fatalf("%+v", list)
	}
	late := list.Snapshots[0]
	h.publish(60)
	for _, m := range c.Followers() {
		h.check(m, 1)
		for range 3 {
			term := c.Leader().Status(testContext(t)).Term
			if ok, _, err := cluster.SendSnapshot(m.NodeID(), m.RaftAddr(), m.ClusterID(), term, late.Manifest); err != nil || !ok {
				t.Errorf("a snapshot of what the node has: %v, %v", ok, err)
			}
			if ok, itsTerm, err := cluster.SendSnapshot(m.NodeID(), m.RaftAddr(), m.ClusterID(), term-1, late.Manifest); err != nil || ok || itsTerm != term {
				t.Errorf("a snapshot of a former leader: %v, term %d of %d, %v", ok, itsTerm, term, err)
			}
		}
		if _, _, err := cluster.SendSnapshot(m.NodeID(), m.RaftAddr(), m.ClusterID(), 1<<40, late.Manifest[:len(late.Manifest)-1]); err == nil {
			t.Error("a snapshot that is cut was taken")
		}
		if err := m.Err(); err != nil || m.Stream().Machine().LastSeq() != uint64(len(h.all)) || m.Status(testContext(t)).CatchUp != nil {
			t.Fatalf("node %d is at %d of %d: %v", m.Index, m.Stream().Machine().LastSeq(), len(h.all), err)
		}
		h.check(m, 5)
	}
	h.publish(10)
	h.wantEqualFiles()
}

// TestLongerTailThatWasNeverCommitted: the log of a node that comes back is longer than all others', with entries that were never
// committed, and conflicts with the snapshot that it is sent. Raft itself would send it for ever.
func TestLongerTailThatWasNeverCommitted(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 32)
	h.publish(20)
	m := c.Followers()[0]
	for _, o := range c.Members {
		c.Crash(o) // so that what comes next is of another term
	}
	if err := cluster.AppendToLog(m.Dir, 5000); err != nil {
		t.Fatal(err)
	}
	for _, o := range c.Members {
		if o != m {
			c.Restart(o)
		}
	}
	c.Leader()
	h.leaveBehind()
	if last := c.Leader().Status(testContext(t)).CommitIndex; last > 5000 {
		t.Fatalf("the others have %d entries: the tail is not longer", last)
	}
	c.Restart(m)
	h.wantCaughtUp(m)
	h.publish(20)
	h.wantEqualFiles()
}
