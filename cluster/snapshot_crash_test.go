package cluster_test

import (
	"errors"
	"maps"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// TestNodeCrashesInSnapshot cuts the power of a node at every step of taking a snapshot, and also what its history had not synced yet:
// it starts again, with the state and all messages that it had.
func TestNodeCrashesInSnapshot(t *testing.T) {
	fs := vfs.NewMem()
	c := clustertest.Start(t, 1, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		withSnapshots(i, o)
		o.Stream.History.FS = fs
	}})
	h := newChronicle(t, c, 7)
	m := c.Leader()
	for range 3 {
		h.publish(70)
		h.snapshot(m)
	}
	rnd := rand.New(rand.NewSource(1))
	for cut, finished := int64(0), 0; finished < 2; cut++ {
		h.publish(5)
		before := h.digest(m)
		var steps atomic.Int64
		fs.SetHook(func(op vfs.Op, name string) error {
			if op == vfs.OpRead || op == vfs.OpOpen || !strings.Contains(name, "snapshots") || steps.Add(1) <= cut {
				return nil
			}
			return errors.New("the power is gone, says the test")
		})
		if _, err := m.TakeSnapshot(testContext(t)); err == nil {
			finished++
		}
		after := fs.Crash(rnd)
		c.Crash(m)
		fs = after
		c.Restart(m)
		c.Leader()
		if now := h.digest(m); !maps.Equal(before, now) {
			t.Fatalf("cut at step %d: before\n%v\nafter\n%v", cut, before, now)
		}
		h.check(m, 3)
	}
}

// open tries to start a member again without the help of the others.
func (h *chronicle) open(m *clustertest.Member, configure func(int, *cluster.Options)) error {
	o := clustertest.Defaults(m.Dir)
	configure(m.Index, &o)
	n, err := cluster.Open(o)
	if err != nil {
		return err
	}
	return n.Close()
}

// refused starts a member whose folder was changed and wants an error that says what.
func (h *chronicle) refused(m *clustertest.Member, configure func(int, *cluster.Options), want ...string) {
	h.t.Helper()
	err := h.open(m, configure)
	for _, w := range want {
		if err == nil || !strings.Contains(err.Error(), w) {
			h.t.Errorf("%v, want %q", err, w)
		}
	}
}

// spoilFile flips a bit in the middle of a file and returns what mends it.
func spoilFile(t *testing.T, path string) (mend func()) {
	t.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := append([]byte(nil), good...)
	bad[len(bad)/2] ^= 4
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(bad)
	return func() { write(good) }
}

// TestDamagedSnapshotOnNode: with the newest snapshot damaged a node starts from the one before and the log; with both, or with a part
// of the log missing, it refuses and says what to do; without history, or without its files, too.
func TestDamagedSnapshotOnNode(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 8)
	m := c.Leader()
	var ids []string
	for range 4 {
		h.publish(100)
		ids = append(ids, filepath.Join(m.Dir, "snapshots", h.snapshot(m).ID))
	}
	h.publish(10)
	before := h.digest(m)
	c.Close(m)

	mend := spoilFile(t, ids[3]+".state")
	mendBoth := spoilFile(t, ids[2]+".snap")
	h.refused(m, withSnapshots, "the raft log", "cannot be used", "empty the folder")
	mendBoth()
	c.Restart(m)
	c.Leader()
	if n := m.Snapshots(); len(n) != 1 || !strings.HasSuffix(ids[2], n[0].ID) {
		t.Errorf("%+v", n)
	}
	if now := h.digest(m); !maps.Equal(before, now) {
		t.Errorf("before\n%v\nafter\n%v", before, now)
	}
	h.check(m, 10)
	c.Close(m)
	mend()

	h.refused(m, func(_ int, o *cluster.Options) { o.LogStore = "" }, "start it with history")
	history, aside := filepath.Join(m.Dir, "history"), filepath.Join(m.Dir, "aside")
	rename(t, history, aside)
	h.refused(m, withSnapshots, "needs history up to seq", "empty the folder")
	if err := os.RemoveAll(history); err != nil {
		t.Fatal(err)
	}
	rename(t, aside, history)
	c.Restart(m)
	c.Leader()
	h.check(m, 10)
	h.snapshot(m)
	c.Close(m)
	deleteLog(t, m.Dir, func(first, last uint64) (uint64, uint64) { return last - 1, last })
	h.refused(m, withSnapshots, "which was made here: the log was replaced")
	deleteLog(t, m.Dir, func(first, last uint64) (uint64, uint64) { return first, last })
	h.refused(m, withSnapshots, "the raft log of data folder", "is gone")
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// deleteLog deletes entries of a stopped node's log.
func deleteLog(t *testing.T, dir string, which func(first, last uint64) (low, high uint64)) {
	t.Helper()
	s, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft", "log.db"))
	if err != nil {
		t.Fatal(err)
	}
	first, err1 := s.FirstIndex()
	last, err2 := s.LastIndex()
	low, high := which(first, last)
	if err := errors.Join(err1, err2, s.DeleteRange(low, high), s.Close()); err != nil {
		t.Fatal(err)
	}
}
