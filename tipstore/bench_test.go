package tipstore

import (
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
)

// BenchmarkAppend prices writing: runs of 100 messages over so many partitions, the ring full and turning over.
func BenchmarkAppend(b *testing.B) {
	for _, indexOff := range []bool{false, true} {
		for _, partitions := range []int{1, 100, 10_000} {
			for _, size := range []int{8, 128} {
				b.Run(fmt.Sprintf("indexOff=%v/partitions=%d/size=%d", indexOff, partitions, size), func(b *testing.B) {
					w := newWriter(b, Options{SizeBytes: 64 << 20, ChunkBytes: 4 << 20, IndexOff: indexOff})
					var runs [][]byte
					for range max(1, partitions/100) {
						runs = append(runs, benchRun(w, 100, partitions, size))
					}
					seq := uint64(1)
					write := func() {
						w.store.Append(runs[seq/100%uint64(len(runs))], 100, nil, seq, 1)
						w.store.Publish()
						seq += 100
					}
					for w.store.Stats().FirstSeq == 1 {
						write()
					}
					b.ReportAllocs()
					for b.Loop() {
						write()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/message")
				})
			}
		}
	}
}

// BenchmarkLiveEdge prices a read of a cursor over so many lists that was at the fence when so many messages came, by both
// ways and as chosen.
func BenchmarkLiveEdge(b *testing.B) {
	for _, lists := range []int{1, 100, 1000} {
		for _, news := range []int{1, 100, 1000} {
			for _, way := range []string{"merge", "linear", "chosen"} {
				b.Run(fmt.Sprintf("lists=%d/new=%d/%s", lists, news, way), func(b *testing.B) { benchLiveEdge(b, lists, news, way) })
			}
		}
	}
}

func benchLiveEdge(b *testing.B, lists, news int, way string) {
	w := newWriter(b, Options{SizeBytes: 64 << 20, ChunkBytes: 4 << 20, IndexOff: way == "linear"})
	w.store.MergeAlways(way == "merge")
	seq := uint64(1)
	write := func(run []byte, n int) {
		w.store.Append(run, n, nil, seq, 1)
		w.store.Publish()
		seq += uint64(n)
	}
	// The lists stand in a part of the tree of their own; one message in a hundred is for them.
	var filters []string
	for i := range lists {
		w.add(fmt.Sprintf("mine%d/p%d/t", i%1000, i), 32)
		filters = append(filters, fmt.Sprintf("mine%d/**", i%1000))
	}
	w.flush(lists, 1)
	w.publish()
	seq += uint64(lists)
	run := benchRun(w, news, 10_000, 32)
	fs, err := topic.ParseFilters(filters)
	if err != nil {
		b.Fatal(err)
	}
	c := w.store.NewCursor(topic.NewMatcher(w.table, fs), seq)
	var v View
	for b.Loop() {
		b.StopTimer()
		write(run, news)
		b.StartTimer()
		if err := c.Read(&v, Limit{}); err != nil || v.Scanned != seq-1 {
			b.Fatal(v.Scanned, seq, err)
		}
	}
	v.Release()
}
