package e2e

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/tipstore"
)

// restartSize is how much case 18 restarts with.
type restartSize struct {
	partitions, topics, rounds, tail int // the tail is published behind the snapshot
	payload                          int
	ring                             int64
	window                           uint64
}

func restartWith() restartSize {
	if long() {
		return restartSize{partitions: 100, topics: 1_000_000, rounds: 3, tail: 50_000, payload: 400, ring: 64 << 20, window: 8 << 20}
	}
	return restartSize{partitions: 8, topics: 20_000, rounds: 3, tail: 1000, payload: 500, ring: 4 << 20, window: 512 << 10}
}

const storesPerPartition = 4

// name is the topic of message i.
func (s *restartSize) name(i int) string {
	return fmt.Sprintf("app%d/service/object %d", i%s.partitions, i%s.topics)
}

// TestCase18RestartWithALargeHistory: elsewhere, a restart took half an hour, since indexes were made from all of the history. Here a
// node that was killed replays what came after its snapshot, whatever stands in its log, and reads of history what warms the tip and
// what the first reader needs, by counts; then every message is there, and publishing goes on.
func TestCase18RestartWithALargeHistory(t *testing.T) {
	t.Parallel()
	size, disk, registry := restartWith(), &countingFS{FS: vfs.OS()}, prometheus.NewRegistry()
	w := start(t, 1, func(w *world) {
		w.tip = tipstore.Options{SizeBytes: size.ring, ChunkBytes: int(size.ring / 4)}
		w.change = func(o *cluster.Options) {
			o.Stream.History = &cluster.HistoryOptions{FS: disk}
			o.History = cluster.HistoryPolicy{WindowBytes: size.window, PlanWindows: -1, StoresPerPartition: storesPerPartition}
			o.SnapshotBytes, o.Registry = 1<<40, registry
		}
	})
	n := size.topics * size.rounds
	w.publishNumbered(size, 0, n)
	m := w.cluster.Leader()
	_, err := m.PlanNow(w.ctx)
	w.must(err)
	w.eventually("the plan to be carried out", func() bool { return m.Stream().HistoryStatus().PendingGenerations == 0 })
	whole := metric(t, registry, "cantus_log_since_snapshot_bytes")
	snap, err := m.TakeSnapshot(w.ctx)
	w.must(err)
	before := metric(t, registry, "cantus_raft_entries_applied_total")
	w.publishNumbered(size, n, n+size.tail)
	n += size.tail
	tail := metric(t, registry, "cantus_log_since_snapshot_bytes")
	entries := metric(t, registry, "cantus_raft_entries_applied_total") - before
	if st := m.Status(w.ctx); st.LogFirstIndex > 1 || snap.Seq != uint64(n-size.tail) || entries == 0 || 10*tail > whole {
		t.Fatalf("%v of %v bytes come after the snapshot %+v, the log begins with entry %d: the test shows nothing", tail, whole, snap, st.LogFirstIndex)
	}
	w.kill(m)

	disk.read.Store(0)
	began := time.Now()
	w.restart(m)
	w.eventually("the node to lead and have applied its log", func() bool { return m.Ready() == nil && m.Stream().Machine().LastSeq() == uint64(n) })
	replayed, bytes := metric(t, registry, "cantus_raft_entries_applied_total"), metric(t, registry, "cantus_log_since_snapshot_bytes")
	const own = 5 // entries that a new leader may add, small ones
	if replayed > entries+own || bytes > tail+own*1024 || replayed < entries {
		t.Errorf("%v entries of %.0f bytes were applied at the start, %v of %.0f come after the snapshot", replayed, bytes, entries, tail)
	}
	w.wantServed(size, n)
	served := time.Since(began)
	st := m.Stream().HistoryStatus()
	t.Logf("%d messages on %d topics, %d MB in %d files: %v entries of %v KB replayed, %d KB of history read until a message was read and one published, in %v",
		n, size.topics, st.Bytes>>20, st.Files, replayed, int(bytes)>>10, disk.read.Load()>>10, served.Round(time.Millisecond))
	// What warms the tip is half a ring of records at most, from blocks of 32 KiB that may hold older messages too; then there are indexes,
	// and what one read takes ahead.
	sections := int64(size.partitions * storesPerPartition)
	if read, bound := disk.read.Load(), size.ring/2+sections*64<<10+1<<20; read > bound || 3*read > st.Bytes {
		t.Errorf("%d of %d bytes of history were read, the bound is %d", read, st.Bytes, bound)
	}
	w.wantNumbered(size, n)
}

// metric is the value of a counter or gauge.
func metric(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && len(f.GetMetric()) == 1 {
			return f.GetMetric()[0].GetGauge().GetValue() + f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}

// numbered is message i's payload.
func (s *restartSize) numbered(b []byte, i int) []byte {
	for j := range b {
		b[j] = byte(i * (j + 3) >> (j % 5))
	}
	binary.LittleEndian.PutUint64(b, uint64(i))
	return b
}

// publishNumbered publishes the messages from one number up to another by one producer, so that message i gets seq i+1.
func (w *world) publishNumbered(size restartSize, from, to int) {
	w.Helper()
	c := w.connect()
	defer c.Close()
	p, err := c.Producer(w.ctx, client.ProducerOptions{})
	w.must(err)
	b := make([]byte, size.payload)
	for i := from; i < to; i++ {
		w.must(p.Publish(w.ctx, size.name(i), size.numbered(b, i)))
	}
	w.must(p.Close(w.ctx))
}

// wantServed reads the first message of the stream and one of a topic, and publishes one.
func (w *world) wantServed(size restartSize, n int) {
	w.Helper()
	c := w.connect()
	for _, filter := range []string{"**", size.name(7)} {
		s, err := c.Subscribe(w.ctx, client.SubscribeOptions{Filters: []string{filter}, MinSeq: uint64(n), MinSeqWait: patience, BufferBytes: 4 << 10})
		w.must(err)
		for m, err := range s.Messages(w.ctx) {
			w.must(err)
			if want := map[string]uint64{"**": 1}[filter]; want != 0 && m.Seq != want || want == 0 && m.Seq != 8 {
				w.Errorf("the first message of %s is %d", filter, m.Seq)
			}
			break
		}
		w.must(s.Close())
	}
	p, err := c.Producer(w.ctx, client.ProducerOptions{})
	w.must(err)
	a, err := p.PublishSync(w.ctx, fmt.Sprint("after/", n), nil)
	w.must(err)
	if a.Seq != uint64(n+1) {
		w.Errorf("published as seq %d behind %d messages", a.Seq, n)
	}
}

// wantNumbered reads everything.
func (w *world) wantNumbered(size restartSize, n int) {
	w.Helper()
	s, err := w.connect().Subscribe(w.ctx, client.SubscribeOptions{Filters: []string{"**"}, MinSeq: uint64(n + 1), MinSeqWait: patience})
	w.must(err)
	defer s.Close()
	want, i := make([]byte, size.payload), 0
	for m, err := range s.ToCaughtUp(w.ctx) {
		w.must(err)
		if i < n && (m.Seq != uint64(i+1) || m.Topic != size.name(i) || hashOf(m.Payload) != hashOf(size.numbered(want, i))) {
			w.Fatalf("message %d is seq %d of %s, or its payload is another", i+1, m.Seq, m.Topic)
		}
		i++
	}
	if i != n+1 {
		w.Errorf("%d messages were read, want %d", i, n+1)
	}
}
