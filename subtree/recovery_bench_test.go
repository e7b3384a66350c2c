package subtree

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
)

// benchMessages is how many messages the large benchmarks make: few, unless CANTUS_BENCH_MESSAGES asks for more.
func benchMessages(b *testing.B) uint64 {
	n, err := strconv.ParseUint(os.Getenv("CANTUS_BENCH_MESSAGES"), 10, 64)
	if err != nil {
		n = 2 * benchWindow
	}
	return max(benchWindow, n/benchWindow*benchWindow)
}

// BenchmarkRecover reads back a large stream from a cold page cache: everything, a hundredth, and that by a linear filter; by
// one reader and by twenty at once; a topic with 10 messages. From windows, and from a generation with 4 stores a partition.
func BenchmarkRecover(b *testing.B) {
	s := newBenchStream(b, 100, 50)
	n := benchMessages(b)
	s.rare, s.every = s.intern(b, "bench/p3/rare"), n/10
	st := benchHistory(b, s, int(n/benchWindow))
	b.Run("windows", func(b *testing.B) { benchRecovery(b, st) })
	_, last := st.Windows()
	begin, cpu := time.Now(), cpuTime()
	if err := st.Rewrite(context.Background(), Generation{Number: 1, FirstWindow: 1, LastWindow: last, Plans: s.plans(4)}, nil); err != nil {
		b.Fatal(err)
	}
	mb := float64(st.Files()[0].Bytes) / 1e6
	b.Logf("rewritten: %.0f MB, %.0f MB/s, %.0f MB/s a core", mb, mb/time.Since(begin).Seconds(), mb/(cpuTime()-cpu).Seconds())
	b.Run("stores", func(b *testing.B) { benchRecovery(b, st) })
}

func benchRecovery(b *testing.B, st *Store) {
	disk := diskRate(b, st)
	b.Logf("the disk alone reads %.0f MB/s", disk/1e6)
	for _, filter := range []string{"**", "bench/p7/**"} {
		b.Run(filter, func(b *testing.B) { benchScan(b, st, filter, true) })
	}
	b.Run("linear/bench/p7/**", func(b *testing.B) { benchLinear(b, st, "bench/p7/**") })
	for _, x := range twenties {
		b.Run(x.name, func(b *testing.B) { benchTogether(b, st, disk, x) })
	}
	b.Run("10 of a topic", func(b *testing.B) {
		var first, whole time.Duration
		for b.Loop() {
			b.StopTimer()
			forget(b, st)
			b.StartTimer()
			begin := time.Now()
			first = max(first, firstByte(b, st, "bench/p3/rare", 10))
			whole = max(whole, time.Since(begin))
		}
		b.ReportMetric(float64(first.Microseconds())/1000, "worst_first_ms")
		b.ReportMetric(float64(whole.Microseconds())/1000, "worst_whole_ms")
	})
}

// diskRate reads the files from end to end, cold, in bytes a second.
func diskRate(b *testing.B, st *Store) float64 {
	forget(b, st)
	begin, total := time.Now(), int64(0)
	for _, f := range st.snapshot() {
		h, err := os.Open(f.path())
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{h}, make([]byte, 1<<20))
		if err != nil {
			b.Fatal(err)
		}
		total += n
		_ = h.Close()
	}
	return float64(total) / time.Since(begin).Seconds()
}

// twenty says what each of twenty readers reads, and where the i-th begins in a stream, in twentieths.
type twenty struct {
	name   string
	filter func(i int) string
	from   func(i int) int
}

// twenties are readers of the same, who can share; of different parts; and of everything, far from each other.
var twenties = []twenty{
	{"20x**", func(int) string { return "**" }, func(int) int { return 0 }},
	{"20xbench/pN/**", func(i int) string { return fmt.Sprintf("bench/p%d/**", i*5) }, func(int) int { return 0 }},
	{"20x** apart", func(int) string { return "**" }, func(i int) int { return i }},
}

// read reads the i-th reader's part and returns the cursor's figures: apart, a twentieth of the stream.
func (x twenty) read(b *testing.B, st *Store, i int) ReadStats {
	_, last := st.Bounds()
	from, upTo := uint64(1), last
	if x.from(1) > 0 {
		from, upTo = last*uint64(i)/20+1, last*uint64(i+1)/20
	}
	return scanRange(b, st, x.filter(i), from, upTo)
}

// benchTogether lets twenty readers start at once, cold. share is what one gets, compared with a twentieth of what the disk
// could feed to one alone: as if nothing that one has read were of use to another.
func benchTogether(b *testing.B, st *Store, disk float64, x twenty) {
	const readers = 20
	lone := x.read(b, st, 0)
	var messages, bytes atomic.Uint64
	var heap uint64
	var used time.Duration
	for b.Loop() {
		b.StopTimer()
		forget(b, st)
		runtime.GC()
		before := heapInUse()
		cpu0 := cpuTime()
		b.StartTimer()
		var wg sync.WaitGroup
		for i := range readers {
			wg.Go(func() {
				one := x.read(b, st, i)
				messages.Add(one.Messages)
				bytes.Add(one.Bytes)
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		heap = max(heap, peakHeap(done)-before)
		used += cpuTime() - cpu0
	}
	b.ReportMetric(float64(messages.Load())/b.Elapsed().Seconds(), "msg/s")
	b.ReportMetric(float64(messages.Load())/used.Seconds(), "msg/core-s")
	perReader := float64(bytes.Load()) / readers / b.Elapsed().Seconds()
	b.ReportMetric(perReader/(disk*float64(lone.Bytes)/float64(lone.StoredBytes)/readers), "share")
	b.ReportMetric(float64(heap)/readers/1e6, "heap_MB/reader")
}

func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

// peakHeap samples the heap until done.
func peakHeap(done <-chan struct{}) (peak uint64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		peak = max(peak, heapInUse())
		select {
		case <-done:
			return peak
		case <-tick.C:
		}
	}
}

// BenchmarkHeavyNeighbour reads a topic of 1 MB beside one of a thousandfold, cold: alone in a history, in stores of their own,
// in one store for the partition, and as a store by the topic's first three segments must be read, whole.
func BenchmarkHeavyNeighbour(b *testing.B) {
	n := benchMessages(b)
	const light, heavy = "plant/hall/line/small", "plant/hall/line/large"
	s := newBenchStream(b, 0, 0)
	s.ids = []topic.ID{s.intern(b, heavy)}
	s.rare, s.every = s.intern(b, light), n/7000
	alone := newBenchStream(b, 0, 0)
	alone.ids = []topic.ID{alone.intern(b, light)}
	single := benchHistoryOf(b, alone, 1, n/s.every)
	b.Run("alone", func(b *testing.B) { benchScan(b, single, light, true) })
	st := benchHistory(b, s, int(n/benchWindow))
	b.Run("windows", func(b *testing.B) { benchScan(b, st, light, true) })
	_, last := st.Windows()
	node := s.table.PartitionNode(s.table.Partition(s.rare))
	for i, stores := range []int{1, 2} {
		g := Generation{Number: uint64(i + 1), FirstWindow: 1, LastWindow: last, Plans: []PartitionPlan{{node, apart{stores, light}}}}
		if err := st.Rewrite(context.Background(), g, nil); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("stores=%d", stores), func(b *testing.B) { benchScan(b, st, light, true) })
	}
	b.Run("three segments", func(b *testing.B) { benchLinear(b, st, light) })
}

// apart puts one topic into the last of its stores, all others into the first.
type apart struct {
	n     int
	topic string
}

func (p apart) Stores() int { return p.n }

func (p apart) StoreOf(name string) int {
	if name == p.topic {
		return p.n - 1
	}
	return 0
}

// BenchmarkMemory reads parts of a history in all ways, and of one ten times as long: what is in use must not grow with it. The
// payloads are all the same, so that the disk needs little; files, sections, blocks and topics are as many as with others.
func BenchmarkMemory(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is in use, not what waits for the collector
	for _, times := range []uint64{1, 10} {
		n := benchMessages(b) / 10 * times
		b.Run(fmt.Sprintf("messages=%d", n), func(b *testing.B) {
			s := newBenchStream(b, 100, 50)
			s.same = make([]byte, 1000)
			windows := max(1, n/benchWindow)
			st := benchHistoryOf(b, s, int(windows), n/windows)
			for i := uint64(0); i < windows; i += 5 {
				g := Generation{Number: i + 1, FirstWindow: i + 1, LastWindow: min(i+5, windows), Plans: s.plans(4)}
				if err := st.Rewrite(context.Background(), g, nil); err != nil {
					b.Fatal(err)
				}
			}
			runtime.GC()
			runtime.GC() // pools keep what they have over one
			idle := heapInUse()
			var peak uint64
			for b.Loop() {
				done := make(chan struct{})
				go func() {
					defer close(done)
					scan(b, st, "bench/p7/**")
					scan(b, st, "bench/p8/t7")
					scan(b, st, "**")
				}()
				peak = max(peak, peakHeap(done))
			}
			b.ReportMetric(float64(idle)/1e6, "idle_MB")
			b.ReportMetric(float64(peak)/1e6, "peak_MB")
			b.ReportMetric(float64(len(st.Files())), "files")
			var raw uint64
			for _, m := range st.Files() {
				raw += m.Bytes
			}
			b.ReportMetric(float64(raw)/1e9, "GB")
		})
	}
}
