package heapbench

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	benchMessages = 1 << 19
	benchBatch    = 256 // as the tip's merge
)

// BenchmarkMerge merges 2^19 keys from n lists.
func BenchmarkMerge(b *testing.B) {
	for _, n := range []int{2, 10, 100, 1000, 10000} {
		for _, pattern := range Patterns() {
			lists, err := Spread(pattern, n, benchMessages)
			if err != nil {
				b.Fatal(err)
			}
			for _, name := range Names() {
				b.Run(fmt.Sprintf("n=%d/%s/%s", n, pattern, name), func(b *testing.B) { benchMerge(b, name, lists) })
			}
		}
	}
}

func benchMerge(b *testing.B, name string, lists *Lists) {
	m, err := New(name)
	if err != nil {
		b.Fatal(err)
	}
	dst := make([]uint64, benchBatch)
	messages, began := 0, cpuTime(b)
	b.ReportAllocs()
	for b.Loop() {
		m.Reset(lists)
		for n := len(dst); n == len(dst); messages += n {
			n = m.Fill(dst)
		}
	}
	b.ReportMetric(float64(cpuTime(b)-began)/float64(messages), "ns/message")
}

// cpuTime is what this process has used of the processors: unlike the clock it does not run while others have them.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
