package cluster_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// timesOf reads the time of every message on a node; message i has seq i+1.
func (h *chronicle) timesOf(m *clustertest.Member) (times []int64) {
	h.t.Helper()
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := m.Stream().OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartFirst})
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Close()
	var v tipstore.View
	defer func() { v.Release() }()
	for r.Position() < uint64(len(h.all)) {
		if err := r.Read(&v, tipstore.Limit{}); err != nil {
			h.t.Fatal(err)
		}
		for _, part := range v.Parts {
			for ; len(part) > 0; part = part[record.Scan(part):] {
				times = append(times, record.First(part).Time())
			}
		}
	}
	return times
}

// TestEveryStartOnEveryNode: first, any seq, any time, the last so many nanoseconds, and now, on each node, in history and in the tip,
// before and after a restart, which takes the tip away, and under plans: the first message is the same everywhere.
func TestEveryStartOnEveryNode(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withHistory})
	h := newChronicle(t, c, 31)
	h.publish(150)
	for round := range 3 {
		if round == 1 {
			if _, err := c.Leader().PlanNow(testContext(t)); err != nil {
				t.Log(err) // it may have lost the leadership by itself
			}
		}
		times := h.timesOf(c.Leader())
		for _, m := range c.Running() {
			if err := m.WaitSeq(testContext(t), uint64(len(h.all))); err != nil {
				t.Fatal(err)
			}
			h.starts(m, times)
		}
		restarted := c.Followers()[0]
		c.Crash(restarted)
		h.publish(20)
		c.Restart(restarted)
		c.Leader()
	}
}

// starts opens readers at random places of a node, and holds the first seq against all messages' times.
func (h *chronicle) starts(m *clustertest.Member, times []int64) {
	h.t.Helper()
	last := uint64(len(times))
	newest := times[last-1]
	firstFrom := func(at int64) uint64 {
		for i, time := range times {
			if time >= at {
				return uint64(i) + 1
			}
		}
		return last + 1
	}
	for range 40 {
		seq := 1 + rand.Uint64N(last)
		at := times[seq-1] + rand.Int64N(3) - 1
		for _, start := range []struct {
			kind  wire.StartKind
			value uint64
			want  uint64
		}{
			{wire.StartFirst, 0, 1}, {wire.StartSeq, seq, seq}, {wire.StartNow, 0, last + 1}, {wire.StartTime, uint64(at), firstFrom(at)},
			{wire.StartAgo, uint64(max(0, newest-at)), firstFrom(min(at, newest))},
		} {
			fs, err := topic.ParseFilters([]string{"**"})
			if err != nil {
				h.t.Fatal(err)
			}
			r, err := m.Stream().OpenReader(cluster.ReaderOptions{Filters: fs, Start: start.kind, Value: start.value})
			if err != nil {
				h.t.Fatal(err)
			}
			if r.Next() != start.want {
				h.t.Errorf("node %d, start %v %d: seq %d, want %d", m.Index, start.kind, start.value, r.Next(), start.want)
			}
			want := h.all[min(start.want, last)-1:]
			if start.want <= last { // and what comes is that
				got := readTo(h.t, m.Stream(), r, start.want, h.rnd)
				if len(got) == 0 || got[0] != want[0] {
					h.t.Errorf("node %d, start %v %d: got %+v, want %+v", m.Index, start.kind, start.value, got, want[0])
				}
			}
			r.Close()
		}
	}
}
