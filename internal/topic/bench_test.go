package topic

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"
)

// realisticNames makes n topics as teams of a company would: region, team, service, then an entity of its own. Every
// 40 topics share a service.
func realisticNames(n int) [][]byte {
	regions := []string{"eu-west", "us-east", "ap-south"}
	kinds := []string{"orders", "payments", "codestore", "leaderboard", "telemetry"}
	names := make([][]byte, n)
	for i := range names {
		service := i / 40
		names[i] = fmt.Appendf(nil, "%s/%s-%d/service-%d/entity-%08x",
			regions[service%len(regions)], kinds[service%len(kinds)], service%997, service, uint32(i)*2654435761)
	}
	return names
}

func filledTable(b testing.TB, names [][]byte) *Table {
	t := NewTable(0)
	for i, name := range names {
		id, _, err := t.Intern(name)
		if err != nil {
			b.Fatal(err)
		}
		t.Add(id, 1, uint64(uint32(i)*2654435761), uint64(i+1))
	}
	return t
}

const million = 1_000_000

func heapBytes() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestMemoryPerTopic holds the promise of 200 bytes a topic beyond its name.
func TestMemoryPerTopic(t *testing.T) {
	const limit = 200
	for _, c := range []struct {
		kind string
		name func(i int) []byte
	}{
		{"40 topics a service", nil},
		{"a node above each topic", func(i int) []byte { return fmt.Appendf(nil, "game/player-%07d/score", i) }},
	} {
		names := realisticNames(million)
		for i := range names {
			if c.name != nil {
				names[i] = c.name(i)
			}
		}
		nameBytes := 0
		for _, name := range names {
			nameBytes += len(name)
		}
		before := heapBytes()
		table := filledTable(t, names)
		grown := float64(heapBytes() - before)
		perTopic := (grown - float64(nameBytes)) / million
		own := float64(table.MemoryBytes())
		t.Logf("%s: %.1f B a topic beyond its name (%.1f B), %d nodes", c.kind, perTopic, float64(nameBytes)/million, table.Nodes())
		if perTopic > limit {
			t.Errorf("%s: %.1f B a topic, want at most %d", c.kind, perTopic, limit)
		}
		if own < grown*0.95 || own > grown*1.05 {
			t.Errorf("%s: MemoryBytes says %.0f, the heap grew by %.0f", c.kind, own, grown)
		}
		runtime.KeepAlive(names)
	}
}

func BenchmarkInternNew(b *testing.B) {
	names := realisticNames(million)
	b.ReportAllocs()
	var t *Table
	for i := 0; b.Loop(); i++ {
		if i%million == 0 {
			b.StopTimer()
			t = NewTable(0)
			b.StartTimer()
		}
		if _, _, err := t.Intern(names[i%million]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "topics/s")
}

// BenchmarkInternTail gives the slow end of single Interns, growth included, over a million of them.
func BenchmarkInternTail(b *testing.B) {
	names := realisticNames(million)
	took := make([]time.Duration, 0, million)
	for b.Loop() {
		t := NewTable(0)
		took = took[:0]
		for _, name := range names {
			start := time.Now()
			if _, _, err := t.Intern(name); err != nil {
				b.Fatal(err)
			}
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	for metric, q := range map[string]int{"p50-ns": million / 2, "p99-ns": million / 100 * 99, "p9999-ns": million / 10_000 * 9999, "max-ns": million - 1} {
		b.ReportMetric(float64(took[q].Nanoseconds()), metric)
	}
}

func BenchmarkLookupBytesHit(b *testing.B) {
	names := realisticNames(million)
	t := filledTable(b, names)
	b.ReportAllocs()
	i := uint32(0)
	for b.Loop() {
		i = (i*1664525 + 1013904223)
		if _, ok := t.LookupBytes(names[i%million]); !ok {
			b.Fatal("missing")
		}
	}
}

// BenchmarkApply is what the state machine does with a known id: its partition, and the counts.
func BenchmarkApply(b *testing.B) {
	t := filledTable(b, realisticNames(million))
	nodes := uint32(t.Nodes())
	for _, hot := range []struct {
		name string
		ids  uint32
	}{{"hot100", 100}, {"uniform1M", nodes}} {
		b.Run(hot.name, func(b *testing.B) {
			b.ReportAllocs()
			i, seq := uint32(0), uint64(0)
			var sink PartitionID
			for b.Loop() {
				i = (i*1664525 + 1013904223)
				seq++
				id := ID(i>>8) % ID(hot.ids)
				sink += t.Partition(id)
				t.Add(id, 1, 128, seq)
			}
			runtime.KeepAlive(sink)
		})
	}
}

func BenchmarkMatch(b *testing.B) {
	names := realisticNames(million)
	t := filledTable(b, names)
	nodes := uint32(t.Nodes())
	var thousand []string
	for i := 0; i < MaxFilters; i++ {
		thousand = append(thousand, string(names[i*900]))
	}
	for _, c := range []struct {
		name string
		fs   Filters
	}{{"subtree", mustFilters(b, "eu-west/orders-0/**")}, {"1024topics", mustFilters(b, thousand...)}} {
		b.Run("cached/"+c.name, func(b *testing.B) {
			m := NewMatcher(t, c.fs)
			for id := range ID(nodes) {
				m.Match(id)
			}
			b.ReportAllocs()
			i, hits := uint32(0), 0
			for b.Loop() {
				i = (i*1664525 + 1013904223)
				if m.Match(ID(i>>8) % ID(nodes)) {
					hits++
				}
			}
			runtime.KeepAlive(hits)
		})
		b.Run("first/"+c.name, func(b *testing.B) {
			for b.Loop() {
				m := NewMatcher(t, c.fs)
				for id := range ID(nodes) {
					m.Match(id)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/id")
		})
	}
}

// BenchmarkPartitions opens a matcher and finds its partitions among those of a million topics.
func BenchmarkPartitions(b *testing.B) {
	names := make([][]byte, million)
	for i := range names {
		names[i] = fmt.Appendf(nil, "group-%d/p%d", i%1000, i)
	}
	t := filledTable(b, names)
	for _, filter := range []string{"group-7/p7", "group-7/**", "**"} {
		fs := mustFilters(b, filter)
		b.Run(filter, func(b *testing.B) {
			var dst []PartitionID
			for b.Loop() {
				dst, _ = NewMatcher(t, fs).Partitions(dst[:0], 0)
			}
			b.ReportMetric(float64(len(dst)), "partitions")
		})
	}
}

func BenchmarkList(b *testing.B) {
	t := filledTable(b, realisticNames(million))
	all, _ := ParseFilter("**")
	region, _ := ParseFilter("eu-west/**")
	team, _ := ParseFilter("eu-west/orders-0/**")
	for _, c := range []struct {
		name string
		o    ListOptions
	}{
		{"name", ListOptions{Filter: all, Limit: 100}},
		{"name/offset900k", ListOptions{Filter: all, Offset: 900_000, Limit: 100}},
		{"bytes", ListOptions{Filter: all, Sort: SortBytes, Limit: 100}},
		{"bytes/offset500k", ListOptions{Filter: all, Sort: SortBytes, Offset: 500_000, Limit: 100}},
		{"depth1", ListOptions{Filter: all, Depth: 1, Limit: 100}},
		{"depth3/bytes", ListOptions{Filter: all, Depth: 3, Sort: SortBytes, Limit: 100}},
		{"third/name", ListOptions{Filter: region, Limit: 100}},
		{"small/name", ListOptions{Filter: team, Limit: 100}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			total := 0
			for b.Loop() {
				_, total = t.List(c.o)
			}
			b.ReportMetric(float64(total), "rows")
		})
	}
}

func BenchmarkDigest(b *testing.B) {
	t := filledTable(b, realisticNames(million))
	t.Digest()
	for b.Loop() {
		t.Digest()
	}
}

func BenchmarkValidate(b *testing.B) {
	for _, name := range []string{"app/codestore/commits/main", "straße/größe/überfällig"} {
		b.Run(name[:3], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if Validate(name) != nil {
					b.Fatal("refused")
				}
			}
		})
	}
}
