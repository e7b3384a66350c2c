package cluster

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// longStream is a stream of many topics whose windows hold all of them, archived.
func longStream(tb testing.TB, fs vfs.FS, topics, rounds int) *feeder {
	tb.Helper()
	s, err := NewStream(StreamOptions{Tip: smallTip, MaxTopics: 2*topics + 100, MaxProducers: 1, History: &HistoryOptions{
		Dir: "history", FS: fs, Subtree: subtree.Options{CacheBytes: 1}}})
	if err != nil {
		tb.Fatal(err)
	}
	f := &feeder{s: s}
	if err := f.windows(256 << 10); err != nil {
		tb.Fatal(err)
	}
	for round := range rounds {
		for i := 0; i < topics; i += 50 {
			names := make([]string, 0, 50)
			for j := range min(50, topics-i) {
				names = append(names, fmt.Sprintf("app%d/part%d/topic%d", (i+j)%3, (i+j)%7, i+j))
			}
			if err := f.publish(int64(round), nil, names...); err != nil {
				tb.Fatal(err)
			}
		}
	}
	eventually(tb, "the windows to be archived", func() bool { return s.HistoryStatus().PendingWindows == 0 })
	return f
}

// TestOpeningCostsNoScan: what a reader is told when it opens, and how much there is to come, is known without a look at the disk; the
// first message of a topic takes a few reads, however long the stream is.
func TestOpeningCostsNoScan(t *testing.T) {
	const topics = 1000
	reads := map[int]int64{}
	for _, rounds := range []int{20, 200} {
		fs := vfs.NewMem()
		f := longStream(t, fs, topics, rounds)
		var looks atomic.Int64
		failing := errors.New("the disk was looked at")
		fs.SetHook(func(op vfs.Op, _ string) error {
			looks.Add(1)
			return failing
		})
		o := ReaderOptions{Filters: mustFilters(t, "app1/part3/topic10"), Start: wire.StartFirst}
		r, err := f.s.OpenReader(o)
		if err != nil || looks.Load() > 0 {
			t.Fatalf("opening took %d looks at the disk: %v", looks.Load(), err)
		}
		id, _ := f.s.table.Lookup("app1/part3/topic10")
		if messages, _, _ := f.s.table.Stats(id); messages != uint64(rounds) {
			t.Errorf("%d messages are pending, want %d", messages, rounds)
		}
		fs.SetHook(func(vfs.Op, string) error { looks.Add(1); return nil })
		var v tipstore.View
		for v.Count == 0 {
			if err := r.Read(&v, tipstore.Limit{Count: 1}); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.s.table.Name(topic.ID(record.First(v.Parts[0]).Topic())); got != "app1/part3/topic10" {
			t.Errorf("got %s", got)
		}
		v.Release()
		r.Close()
		reads[rounds] = looks.Load()
		f.close(t)
	}
	if reads[200] > reads[20]+4 || reads[20] > 20 {
		t.Errorf("looks at the disk until the first message, by length of the stream: %v", reads)
	}
}

// retained is a stream of so many topics that keeps few windows, and what a leader does for it after an entry.
func retained(tb testing.TB, topics int) (f *feeder, names []string, after func()) {
	tb.Helper()
	s, err := NewStream(StreamOptions{Tip: tipstore.Options{ChunkBytes: 1 << 20, SizeBytes: 16 << 20}, MaxTopics: topics + 100, MaxProducers: 1})
	if err != nil {
		tb.Fatal(err)
	}
	f = &feeder{s: s}
	c := fsm.StreamConfig{ProducerLease: 1, WindowBytes: 64 << 10, RetainCount: 10_000}
	if err := f.command(1, record.KindConfig, fsm.ConfigBody(c)); err != nil {
		tb.Fatal(err)
	}
	for i := range topics {
		names = append(names, fmt.Sprintf("app%d/x%d/topic%d", i%20, i%1000, i))
	}
	for i := 0; i < topics; i += 100 {
		if err := f.publish(1, nil, names[i:min(i+100, topics)]...); err != nil {
			tb.Fatal(err)
		}
	}
	after = func() {
		m := s.Machine()
		if through := retainable(m.Windows(), m.Generations(), m.Config(), m.LastTime()); through > 0 {
			if err := f.command(1, record.KindRetain, fsm.RetainBody(through)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return f, names, after
}

// TestPublishingUnderRetentionTouchesNoOtherTopic: entries of one topic, with windows dropped as they come, allocate the same whether there
// are few other topics or very many.
func TestPublishingUnderRetentionTouchesNoOtherTopic(t *testing.T) {
	allocs := map[int]float64{}
	for _, topics := range []int{1, 100_000} {
		f, names, after := retained(t, topics)
		batch := make([]string, 100)
		for i := range batch {
			batch[i] = names[0]
		}
		first := f.s.Machine().FirstSeq()
		allocs[topics] = testing.AllocsPerRun(2000, func() {
			if err := f.publish(2, make([]byte, 100), batch...); err != nil {
				t.Fatal(err)
			}
			after()
		})
		if f.s.Machine().FirstSeq() == first {
			t.Error("nothing was dropped: the test shows nothing")
		}
		f.close(t)
	}
	if allocs[100_000] > allocs[1]+1 {
		t.Errorf("allocations of an entry by number of topics: %v", allocs)
	}
}

// BenchmarkPublishUnderRetention applies entries of 100 messages on topics all over, with windows dropped as they come.
func BenchmarkPublishUnderRetention(b *testing.B) {
	for _, topics := range []int{1, 256, 1024, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("topics=%d", topics), func(b *testing.B) {
			f, names, after := retained(b, topics)
			batch := make([]string, 100)
			payload := make([]byte, 100)
			at := 0
			for b.Loop() {
				for i := range batch {
					at = (at + 7919) % topics
					batch[i] = names[at]
				}
				if err := f.publish(2, payload, batch...); err != nil {
					b.Fatal(err)
				}
				after()
			}
			b.ReportMetric(float64(b.N*len(batch))/b.Elapsed().Seconds(), "messages/s")
			if err := f.s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
