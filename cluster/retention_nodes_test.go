package cluster_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// withRetention keeps at least a thousand messages.
func withRetention(i int, o *cluster.Options) {
	withHistory(i, o)
	o.History.RetainCount = retainedCount
	o.RetainInterval = 20 * time.Millisecond
	o.SnapshotBytes = 32 << 10 // so that nodes come back from snapshots
}

const retainedCount = 1000

// TestRetentionOnThreeNodes: what is beyond the limit goes, on all nodes alike, while leaders crash and nodes are away; what is within stays
// and is served.
func TestRetentionOnThreeNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withRetention})
	h := newChronicle(t, c, 4)
	for round := range 4 {
		h.publish(60)
		if round%2 == 0 {
			c.Crash(c.Leader())
		} else {
			c.Close(c.Running()[h.rnd.IntN(3)])
		}
		h.publish(40)
		for _, m := range c.Members {
			if m.Node == nil {
				c.Restart(m)
			}
		}
	}
	all := uint64(len(h.all))
	for _, m := range c.Running() {
		if list := m.Snapshots(); len(list) == 0 || list[0].FirstSeq == 1 {
			t.Errorf("node %d has no snapshot of a stream whose beginning is gone: %+v", m.Index, list)
		}
	}
	c.Eventually("all nodes to drop the same", func() bool { return droppedAlike(c, all) })
	for _, m := range c.Running() {
		h.checkRetained(m)
	}
}

// droppedAlike: all nodes have the whole log, little more than the limit, and the same files.
func droppedAlike(c *clustertest.Cluster, all uint64) bool {
	var want string
	for i, m := range c.Running() {
		s := m.Stream()
		first, last := s.Bounds()
		files := s.HistoryFiles()
		st := s.HistoryStatus()
		if last != all || first == 1 || first+2*retainedCount < all || len(files) == 0 || files[0].FirstSeq != first || st.PendingGenerations > 0 {
			return false
		}
		state := fmt.Sprint(first, files)
		if i > 0 && state != want {
			return false
		}
		want = state
	}
	return true
}

// checkRetained: the oldest seq is not too new, it is what readers begin with, and nothing before it is served.
func (h *chronicle) checkRetained(m *clustertest.Member) {
	h.t.Helper()
	s := m.Stream()
	first, last := s.Bounds()
	if last-first+1 < retainedCount {
		h.t.Errorf("node %d: only %d messages are left", m.Index, last-first+1)
	}
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := s.OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartFirst})
	if err != nil {
		h.t.Fatal(err)
	}
	got := readTo(h.t, s, r, last, h.rnd)
	r.Close()
	if want := h.all[first-1:]; !slices.Equal(got, want) {
		h.t.Errorf("node %d: from seq %d got %d messages, want %d", m.Index, first, len(got), len(want))
	}
	gone := new(tipstore.GoneError)
	if _, err := s.OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartSeq, Value: first - 1}); !errors.As(err, &gone) || gone.Oldest != first {
		h.t.Errorf("node %d: seq %d, which is not retained: %v", m.Index, first-1, err)
	}
	if _, err := s.MessageAt(testContext(h.t), first-1); !errors.As(err, &gone) || gone.Oldest != first {
		h.t.Errorf("node %d: message %d, which is not retained: %v", m.Index, first-1, err)
	}
}
