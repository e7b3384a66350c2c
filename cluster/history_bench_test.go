package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree/plan"
	"github.com/cantus-bus/cantus/tipstore"
)

// BenchmarkReadHistory reads a stream of which the tip holds a twentieth, from its beginning: all, a partition (one in 20), and a
// topic (one in 2000), from windows and from stores.
func BenchmarkReadHistory(b *testing.B) {
	const messages, perEntry = 1_000_000, 500
	s, err := NewStream(StreamOptions{Tip: tipstore.Options{ChunkBytes: 2 << 20, SizeBytes: 8 << 20}, MaxTopics: 10_000, MaxProducers: 10,
		History: &HistoryOptions{Dir: b.TempDir()}})
	if err != nil {
		b.Fatal(err)
	}
	f := &feeder{s: s}
	defer f.close(b)
	if err := f.windows(16 << 20); err != nil {
		b.Fatal(err)
	}
	payload := []byte(fmt.Sprintf("%-100s", `{"id":"a1b2c3","value":12345,"unit":"ms","from":"web-1"}`))
	topics := make([]string, perEntry)
	start := time.Now()
	for i := 0; i < messages; i += perEntry {
		for j := range topics {
			n := (i + j) * 7919
			topics[j] = fmt.Sprintf("app/part%d/t%d", n%20, n/20%100)
		}
		if err := f.publish(int64(i), payload, topics...); err != nil {
			b.Fatal(err)
		}
	}
	applied := time.Since(start)
	f.settled(b)
	st := s.HistoryStatus()
	b.Logf("applied in %v, archived in %v; %d windows, %d MB of files", applied, time.Since(start), st.Windows, st.Bytes>>20)
	readHistory(b, s, "windows")
	start = time.Now()
	p := planner{store: s.history.store, table: s.table, opts: plan.Options{}}
	plans, err := p.plan(windowRange{1, st.Windows}, nil)
	if err != nil {
		b.Fatal(err)
	}
	planned := time.Since(start)
	if err := f.command(messages, record.KindPlan, fsm.PlanBody(fsm.Generation{Number: 1, FirstWindow: 1, LastWindow: st.Windows, Plans: plans})); err != nil {
		b.Fatal(err)
	}
	f.settled(b)
	b.Logf("planned in %v, rewritten in %v", planned, time.Since(start)-planned)
	readHistory(b, s, "stores")
}

func readHistory(b *testing.B, s *Stream, from string) {
	for _, filter := range []string{"**", "app/part7/**", "app/part7/t41"} {
		b.Run(from+"/"+filter, func(b *testing.B) {
			read := uint64(0)
			for range b.N {
				r, err := s.OpenReader(ReaderOptions{Filters: mustFilters(b, filter), Start: wire.StartFirst})
				if err != nil {
					b.Fatal(err)
				}
				var v tipstore.View
				for r.Position() < r.Head() {
					if err := r.Read(&v, tipstore.Limit{}); err != nil {
						b.Fatal(err)
					}
					read += uint64(v.Count)
				}
				v.Release()
				r.Close()
			}
			b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "msg/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}
