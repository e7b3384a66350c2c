package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// withHistory keeps history in windows of a few batches, under a ring of a few windows.
func withHistory(_ int, o *cluster.Options) {
	o.Stream.Tip = tipstore.Options{SizeBytes: 128 << 10, ChunkBytes: 32 << 10}
	o.Stream.History = &cluster.HistoryOptions{}
	o.History = cluster.HistoryPolicy{WindowBytes: 8 << 10, PlanWindows: 3, StoresPerPartition: 3, MinStoreBytes: 1}
}

// chronicle is what was published, by seq, and the one who publishes it: one batch at a time, repeated until it is settled.
type chronicle struct {
	t   *testing.T
	c   *clustertest.Cluster
	rnd *rand.Rand
	p   publisher
	all []clustertest.Message
}

func newChronicle(t *testing.T, c *clustertest.Cluster, seed uint64) *chronicle {
	h := &chronicle{t: t, c: c, rnd: rand.New(rand.NewPCG(seed, 1))}
	h.p = publisher{t: t, nodes: c.Running, id: record.ProducerID{9}}
	if err := h.p.open(testContext(t)); err != nil {
		t.Fatal(err)
	}
	return h
}

// publish publishes batches of random messages to any nodes.
func (h *chronicle) publish(batches int) {
	h.t.Helper()
	ctx := testContext(h.t)
	for range batches {
		msgs := make([]clustertest.Message, 1+h.rnd.IntN(40))
		for i := range msgs {
			msgs[i].Topic = fmt.Sprintf("app%d/part%d/x%d/y%d", h.rnd.IntN(2), h.rnd.IntN(3), h.rnd.IntN(5), h.rnd.IntN(1+h.rnd.IntN(20)))
			msgs[i].Payload = strings.Repeat(string(rune('a'+len(h.all)%26)), h.rnd.IntN(200))
		}
		r, err := h.p.settle(ctx, func(b cluster.Broker) (fsm.Result, error) {
			return clustertest.PublishAs(ctx, b, h.p.id, h.p.epoch, h.p.next, msgs...)
		})
		if err != nil {
			h.t.Fatal(err)
		}
		if want := uint64(len(h.all)) + 1; r.FirstSeq != want {
			h.t.Fatalf("%+v, want first seq %d", r, want)
		}
		for i, m := range msgs {
			m.Seq = r.FirstSeq + uint64(i)
			h.all = append(h.all, m)
		}
		h.p.next += uint64(len(msgs))
	}
}

var chronicleFilters = []string{"**", "app0/**", "app1/part2/**", "app0/part1/x3/**", "app1/part0/x1/y0", "app0/part2/x2/y7", "none/**"}

// check reads random filters from random starts on a node and compares with what was published.
func (h *chronicle) check(m *clustertest.Member, reads int) (past uint64) {
	h.t.Helper()
	if err := m.WaitSeq(testContext(h.t), uint64(len(h.all))); err != nil {
		h.t.Fatal(err)
	}
	for range reads {
		var names []string
		for range 1 + h.rnd.IntN(3) {
			names = append(names, chronicleFilters[h.rnd.IntN(len(chronicleFilters))])
		}
		fs, err := topic.ParseFilters(names)
		if err != nil {
			h.t.Fatal(err)
		}
		start := uint64(1 + h.rnd.IntN(len(h.all)+1))
		r, err := m.Stream().OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartSeq, Value: start})
		if err != nil {
			h.t.Fatal(err)
		}
		want := slices.DeleteFunc(slices.Clone(h.all[start-1:]), func(m clustertest.Message) bool { return !fs.Match(m.Topic) })
		got := readTo(h.t, m.Stream(), r, uint64(len(h.all)), h.rnd)
		past += r.Sources().History
		r.Close()
		if !slices.Equal(got, want) {
			h.t.Fatalf("node %d, filters %v from %d: got %d messages, want %d, first difference at %d", m.Index, names, start, len(got), len(want), firstDifference(got, want))
		}
	}
	return past
}

func firstDifference(a, b []clustertest.Message) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// readTo reads until the position reaches last, in bites of random size.
func readTo(t *testing.T, s *cluster.Stream, r *cluster.Reader, last uint64, rnd *rand.Rand) (out []clustertest.Message) {
	t.Helper()
	var v tipstore.View
	for r.Position() < last {
		if err := r.Read(&v, tipstore.Limit{Bytes: 1 << rnd.IntN(18)}); err != nil {
			t.Fatal(err)
		}
		for _, part := range v.Parts {
			for ; len(part) > 0; part = part[record.Scan(part):] {
				rec := record.First(part)
				out = append(out, clustertest.Message{Topic: s.Table().Name(topic.ID(rec.Topic())), Payload: string(rec.Payload()), Seq: rec.Seq()})
			}
		}
		v.Release()
	}
	return out
}

// wantEqualFiles compares the nodes' state at one seq, and waits until all running nodes have the same files by their hashes, and nothing more
// to write. The leader may plan meanwhile: a node that is done may have more to do when the next one is.
func (h *chronicle) wantEqualFiles() {
	h.t.Helper()
	ctx := testContext(h.t)
	id, err := h.c.Leader().Checkpoint(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	first := ""
	for i, m := range h.c.Running() {
		d, err := m.CheckpointDigest(ctx, id)
		if err != nil {
			h.t.Fatal(err)
		}
		if parts := fmt.Sprint(d.Parts); i == 0 {
			first = parts
		} else if parts != first {
			h.t.Fatalf("node %d has state\n%s\nand another has\n%s", m.Index, parts, first)
		}
	}
	lists := map[string]bool{}
	defer func() {
		if h.t.Failed() {
			h.t.Logf("the nodes' files: %s", slices.Collect(maps.Keys(lists)))
		}
	}()
	h.c.Eventually("history to be written, and be the same everywhere", func() bool {
		clear(lists)
		pending := uint64(0)
		for _, m := range h.c.Running() {
			st := m.Stream().HistoryStatus()
			pending += st.PendingWindows + uint64(st.PendingGenerations)
			lists[fmt.Sprintf("%+v", m.Stream().HistoryFiles())] = true
		}
		return pending == 0 && len(lists) == 1
	})
}

// TestHistoryOnOneNode: most of the stream is beyond the ring, and a restart finds it again.
func TestHistoryOnOneNode(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: withHistory})
	h := newChronicle(t, c, 1)
	for range 3 {
		h.publish(100)
		if h.check(c.Leader(), 10) == 0 {
			t.Error("nothing came from history")
		}
		if _, err := c.Leader().PlanNow(testContext(t)); err != nil {
			t.Fatal(err)
		}
		m := c.Leader()
		c.Close(m)
		c.Restart(m)
		c.Leader()
		h.check(m, 10)
	}
	h.wantEqualFiles()
	if st := c.Leader().Status(testContext(t)); st.FirstSeq != 1 || st.History == nil || st.History.Generations == 0 || !st.Healthy {
		t.Errorf("%+v, history %+v", st, st.History)
	}
	list, err := c.Leader().Stream().Plans("app0/part1")
	if err != nil || len(list) == 0 || len(list[0].Stores) < 2 || list[0].Stores[0].Messages == 0 || !list[0].Written {
		t.Errorf("plans: %+v, %v", list, err)
	}
}

// TestHistoryOnThreeNodes: leaders crash, hand over and come back while the stream is cut, archived and planned; every node reads
// back everything, from the same files.
func TestHistoryOnThreeNodes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: withHistory})
	h := newChronicle(t, c, 2)
	past := uint64(0)
	for round := range 6 {
		h.publish(40)
		m := c.Running()[h.rnd.IntN(3)]
		switch round % 3 {
		case 0:
			c.Crash(c.Leader())
		case 1:
			if err := c.Leader().TransferLeader(context.Background(), ""); err != nil {
				t.Log(err) // it may have lost the leadership by itself
			}
		case 2:
			c.Close(m)
		}
		h.publish(20)
		for _, m := range c.Running() {
			past += h.check(m, 3)
		}
		for _, m := range c.Members {
			if m.Node == nil {
				c.Restart(m)
			}
		}
		if _, err := c.Leader().PlanNow(testContext(t)); err != nil {
			t.Log(err)
		}
	}
	for _, m := range c.Running() {
		past += h.check(m, 10)
	}
	if past == 0 {
		t.Error("nothing came from history: the test shows nothing")
	}
	h.wantEqualFiles()
}

// TestSlowReaderComesBack: a reader that stops while the ring turns over many times goes on where it was, from history, and is back
// at the tip when it has caught up.
func TestSlowReaderComesBack(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: withHistory})
	h := newChronicle(t, c, 3)
	s := c.Leader().Stream()
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartFirst})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var got []clustertest.Message
	for range 3 {
		h.publish(2)
		got = append(got, readTo(t, s, r, uint64(len(h.all)), h.rnd)...)
		before := r.Sources()
		h.publish(200)
		got = append(got, readTo(t, s, r, uint64(len(h.all)), h.rnd)...)
		h.publish(1)
		got = append(got, readTo(t, s, r, uint64(len(h.all)), h.rnd)...)
		if now := r.Sources(); now.History == before.History || now.Tip == before.Tip {
			t.Errorf("%+v, before the pause %+v", now, before)
		}
	}
	if !slices.Equal(got, h.all) {
		t.Errorf("got %d messages, want %d", len(got), len(h.all))
	}
}

// TestLeaderThatCannotArchiveHandsOver: a leader whose history takes no writes says so and hands over; when it can write again it
// catches up from its tip.
func TestLeaderThatCannotArchiveHandsOver(t *testing.T) {
	var full [3]atomic.Bool
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		withHistory(i, o)
		fs := vfs.NewMem()
		fs.SetHook(func(op vfs.Op, _ string) error {
			if op == vfs.OpWrite && full[i].Load() {
				return errors.New("no space left on device, says the test")
			}
			return nil
		})
		o.Stream.History.FS = fs
	}})
	h := newChronicle(t, c, 4)
	h.publish(5)
	old := c.Leader()
	full[old.Index].Store(true)
	h.publish(10)
	c.Eventually("the problem to show", func() bool {
		st := old.Status(testContext(t))
		return !st.Healthy && st.History.Problem != ""
	})
	c.Eventually("another leader", func() bool { return c.Leader() != old })
	h.publish(100)
	full[old.Index].Store(false)
	h.check(old, 5)
	h.wantEqualFiles()
}
