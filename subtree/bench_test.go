package subtree

import (
	"context"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// benchStream makes messages of 128 bytes of JSON on partitions x topics topics, without keeping them.
type benchStream struct {
	table  *topic.Table
	ids    []topic.ID
	rand   *rand.Rand
	rare   topic.ID // gets one message in rareEvery
	every  uint64
	time   int64
	random []byte
	same   []byte // if set, the payload of all
}

func newBenchStream(b *testing.B, partitions, topics int) *benchStream {
	s := &benchStream{table: topic.NewTable(0), rand: rand.New(rand.NewSource(1)), time: 1_700_000_000_000_000_000}
	for p := range partitions {
		for t := range topics {
			s.ids = append(s.ids, s.intern(b, fmt.Sprintf("bench/p%d/t%d", p, t)))
		}
	}
	return s
}

func (s *benchStream) intern(b *testing.B, name string) topic.ID {
	id, _, err := s.table.Intern([]byte(name))
	if err != nil {
		b.Fatal(err)
	}
	return id
}

// payload is 128 bytes of JSON.
func (s *benchStream) payload() []byte {
	if s.same != nil {
		return s.same
	}
	p := fmt.Appendf(s.random[:0], `{"user":"user-%06d","action":"move","score":%d,"level":%d,"ts":%d,"session":"%08x"}`,
		s.rand.Intn(1_000_000), s.rand.Intn(100_000), s.rand.Intn(50), s.time/1_000_000, s.rand.Uint32())
	for len(p) < 128 {
		p = append(p, ' ')
	}
	s.random = p
	return p[:128]
}

// window makes the records of a range of seqs.
func (s *benchStream) window(first, last uint64) [][]byte {
	var runs [][]byte
	var run []byte
	for seq := first; seq <= last; seq++ {
		id := s.ids[s.rand.Intn(len(s.ids))]
		if s.every > 0 && seq%s.every == 0 {
			id = s.rare
		}
		if seq%100 == 0 {
			s.time += 1_000_000
		}
		start := len(run)
		run, _ = record.AppendRecord(run, uint32(id), nil, s.payload())
		record.Stamp(run[start:], uint32(id), seq, s.time)
		if len(run) > 200_000 || seq == last {
			runs = append(runs, run)
			run = nil
		}
	}
	return runs
}

func feed(runs [][]byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		if len(runs) == 0 {
			return nil, io.EOF
		}
		run := runs[0]
		runs = runs[1:]
		return run, nil
	}
}

const benchWindow = 400_000 // messages: 61 MB

// benchHistory seals windows in a folder of the disk.
func benchHistory(b *testing.B, s *benchStream, windows int) *Store {
	b.Helper()
	return benchHistoryOf(b, s, windows, benchWindow)
}

// benchHistoryOf seals windows of n messages.
func benchHistoryOf(b *testing.B, s *benchStream, windows int, n uint64) *Store {
	b.Helper()
	st, err := Open(vfs.OS(), filepath.Join(b.TempDir(), "history"), s.table, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = st.Close() })
	for i := range uint64(windows) {
		w := Window{Number: i + 1, FirstSeq: i*n + 1, LastSeq: (i + 1) * n}
		if err := st.Seal(w, feed(s.window(w.FirstSeq, w.LastSeq))); err != nil {
			b.Fatal(err)
		}
	}
	return st
}

func (s *benchStream) plans(stores int) (list []PartitionPlan) {
	for p := range topic.PartitionID(s.table.Partitions()) {
		list = append(list, PartitionPlan{s.table.PartitionNode(p), hashPlan{stores, 0}})
	}
	return list
}

// perCore reports what was done in a second, and in a second of one core: the machine may be busy with other work.
func perCore(b *testing.B, cpu time.Duration, n float64, unit string) {
	b.ReportMetric(n/b.Elapsed().Seconds(), unit+"/s")
	b.ReportMetric(n/(cpuTime()-cpu).Seconds(), unit+"/core-s")
}

func BenchmarkSeal(b *testing.B) {
	s := newBenchStream(b, 100, 10)
	runs := s.window(1, benchWindow)
	var bytes, stored uint64
	cpu := cpuTime()
	for b.Loop() {
		st, err := Open(vfs.OS(), filepath.Join(b.TempDir(), "history"), s.table, Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := st.Seal(Window{1, 1, benchWindow}, feed(runs)); err != nil {
			b.Fatal(err)
		}
		bytes += st.Files()[0].Bytes
		stored += uint64(st.Files()[0].Size)
		_ = st.Close()
	}
	perCore(b, cpu, float64(bytes)/1e6, "MB")
	b.ReportMetric(float64(bytes)/float64(stored), "ratio")
}

func BenchmarkRewrite(b *testing.B) {
	for _, stores := range []int{1, 16} {
		b.Run(fmt.Sprintf("stores=%d", stores), func(b *testing.B) {
			s := newBenchStream(b, 100, 50)
			st := benchHistory(b, s, 4)
			g := Generation{FirstWindow: 1, LastWindow: 4, Plans: s.plans(stores)}
			var bytes uint64
			cpu := cpuTime()
			for b.Loop() {
				g.Number++
				if err := st.Rewrite(context.Background(), g, nil); err != nil {
					b.Fatal(err)
				}
				bytes += st.Files()[0].Bytes
			}
			perCore(b, cpu, float64(bytes)/1e6, "MB")
		})
	}
}

// scan reads all matches and returns the cursor's figures.
func scan(b *testing.B, st *Store, filter string) ReadStats {
	_, last := st.Bounds()
	return scanRange(b, st, filter, 1, last)
}

func scanRange(b *testing.B, st *Store, filter string, from, upTo uint64) ReadStats {
	c := st.NewCursor(topic.NewMatcher(st.table, mustFilters(b, filter)), from)
	defer c.Close()
	var v View
	defer v.Release()
	for v.Scanned < upTo {
		if err := c.Read(&v, Limit{UpTo: upTo}); err != nil {
			b.Fatal(err)
		}
	}
	return c.Stats()
}

// BenchmarkCursor reads everything, a hundredth, and a hundredth by a filter over everything, from windows and from stores.
func BenchmarkCursor(b *testing.B) {
	s := newBenchStream(b, 100, 50)
	st := benchHistory(b, s, 4)
	b.Run("windows", func(b *testing.B) { benchReads(b, st) })
	if err := st.Rewrite(context.Background(), Generation{Number: 1, FirstWindow: 1, LastWindow: 4, Plans: s.plans(16)}, nil); err != nil {
		b.Fatal(err)
	}
	b.Run("stores=1600", func(b *testing.B) { benchReads(b, st) })
}

func benchReads(b *testing.B, st *Store) {
	for _, filter := range []string{"**", "bench/p7/**", "bench/p7/t7"} {
		for _, cold := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/cold=%t", filter, cold), func(b *testing.B) { benchScan(b, st, filter, cold) })
		}
	}
	b.Run("linear/bench/p7/**/cold=true", func(b *testing.B) { benchLinear(b, st, "bench/p7/**") })
}

func benchScan(b *testing.B, st *Store, filter string, cold bool) {
	var x ReadStats
	cpu := cpuTime()
	for b.Loop() {
		if cold {
			b.StopTimer()
			forget(b, st)
			b.StartTimer()
		}
		one := scan(b, st, filter)
		x.Messages += one.Messages
		x.Bytes += one.Bytes
		x.StoredBytes += one.StoredBytes
		x.DecodedBytes += one.DecodedBytes
	}
	perCore(b, cpu, float64(x.Messages), "msg")
	b.ReportMetric(float64(x.DecodedBytes)/float64(x.Bytes), "decoded/wanted")
	b.ReportMetric(float64(x.StoredBytes)/float64(x.Bytes), "disk/wanted")
}

// benchLinear finds the same messages by reading everything.
func benchLinear(b *testing.B, st *Store, filter string) {
	m := topic.NewMatcher(st.table, mustFilters(b, filter))
	n := 0
	cpu := cpuTime()
	for b.Loop() {
		b.StopTimer()
		forget(b, st)
		b.StartTimer()
		c := st.NewCursor(topic.NewMatcher(st.table, everything()), 1)
		var v View
		for _, last := st.Bounds(); v.Scanned < last; {
			if err := c.Read(&v, Limit{}); err != nil {
				b.Fatal(err)
			}
			for _, p := range v.Parts {
				for ; len(p) > 0; p = p[sizeOf(p):] {
					if m.Match(topicOf(p)) {
						n++
					}
				}
			}
		}
		c.Close()
	}
	perCore(b, cpu, float64(n), "msg")
}

// forget drops what the Store and the system have cached of the files.
func forget(b *testing.B, st *Store) {
	for _, f := range st.snapshot() {
		st.cache.drop(f)
		h, err := os.Open(f.path())
		if err != nil {
			b.Fatal(err)
		}
		dropPageCache(h)
		_ = h.Close()
	}
}

// BenchmarkSeqAtTime looks for times, as opening a reader at a time does: memory tells the sample of 1024 messages, the disk has
// the message.
func BenchmarkSeqAtTime(b *testing.B) {
	s := newBenchStream(b, 100, 50)
	from := s.time
	st := benchHistory(b, s, 4)
	b.Run("windows", func(b *testing.B) { benchTimes(b, st, from, s.time) })
	if err := st.Rewrite(context.Background(), Generation{Number: 1, FirstWindow: 1, LastWindow: 4, Plans: s.plans(4)}, nil); err != nil {
		b.Fatal(err)
	}
	b.Run("stores=400", func(b *testing.B) { benchTimes(b, st, from, s.time) })
}

func benchTimes(b *testing.B, st *Store, from, to int64) {
	for _, cold := range []bool{false, true} {
		b.Run(fmt.Sprintf("cold=%t", cold), func(b *testing.B) {
			r := rand.New(rand.NewSource(1))
			before, _ := st.ReadStats()
			for b.Loop() {
				b.StopTimer()
				if cold {
					forget(b, st)
				}
				b.StartTimer()
				if _, err := st.SeqAtTime(from + r.Int63n(to-from)); err != nil {
					b.Fatal(err)
				}
			}
			after, _ := st.ReadStats()
			b.ReportMetric(float64(b.Elapsed().Microseconds())/1000/float64(b.N), "ms")
			b.ReportMetric(float64(after-before)/1e6/float64(b.N), "disk_MB")
		})
	}
}

// BenchmarkFirstByte reads a topic with few messages among many.
func BenchmarkFirstByte(b *testing.B) {
	s := newBenchStream(b, 10, 100)
	s.rare, s.every = s.intern(b, "bench/p3/rare"), 160_000
	st := benchHistory(b, s, 4)
	if err := st.Rewrite(context.Background(), Generation{Number: 1, FirstWindow: 1, LastWindow: 4, Plans: s.plans(16)}, nil); err != nil {
		b.Fatal(err)
	}
	for _, cold := range []bool{false, true} {
		b.Run(fmt.Sprintf("cold=%t", cold), func(b *testing.B) {
			var first time.Duration
			for b.Loop() {
				b.StopTimer()
				if cold {
					forget(b, st)
				}
				b.StartTimer()
				first += firstByte(b, st, "bench/p3/rare", 10)
			}
			b.ReportMetric(float64(first.Microseconds())/1000/float64(b.N), "ttfb_ms")
		})
	}
}

func firstByte(b *testing.B, st *Store, filter string, want int) (first time.Duration) {
	begin, count := time.Now(), 0
	c := st.NewCursor(topic.NewMatcher(st.table, mustFilters(b, filter)), 1)
	defer c.Close()
	var v View
	defer v.Release()
	for _, last := st.Bounds(); v.Scanned < last; {
		if err := c.Read(&v, Limit{}); err != nil {
			b.Fatal(err)
		}
		if count == 0 && v.Count > 0 {
			first = time.Since(begin)
		}
		count += v.Count
	}
	if count != want {
		b.Fatalf("%d messages, want %d", count, want)
	}
	return first
}
