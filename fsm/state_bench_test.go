package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// BenchmarkState copies, writes and restores a large state.
func BenchmarkState(b *testing.B) {
	for _, size := range []struct{ topics, producers int }{{1_000_000, 0}, {0, 1_000_000}} {
		b.Run(fmt.Sprintf("topics=%d/producers=%d", size.topics, size.producers), func(b *testing.B) {
			m := largeMachine(b, size.topics, size.producers)
			b.Run("capture", func(b *testing.B) {
				for b.Loop() {
					m.Capture()
				}
			})
			b.Run("write", func(b *testing.B) {
				var n int64
				for b.Loop() {
					b.StopTimer()
					s := m.Capture()
					runtime.GC()
					b.StartTimer()
					n, _ = s.WriteTo(io.Discard)
				}
				b.ReportMetric(float64(n)/1e6, "MB")
			})
			var data bytes.Buffer
			if _, err := m.Capture().WriteTo(&data); err != nil {
				b.Fatal(err)
			}
			b.Run("restore", func(b *testing.B) {
				for b.Loop() {
					again := New(Options{Table: topic.NewTable(0), Log: nullLog{}, MaxProducers: 1})
					if err := again.Restore(bytes.NewReader(data.Bytes())); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func largeMachine(b *testing.B, topics, producers int) *Machine {
	table := topic.NewTable(0)
	for i := range topics {
		id, _, err := table.Intern(fmt.Appendf(nil, "bench/%d/service-%d/topic-%d", i%1000, i%40_000, i))
		if err != nil {
			b.Fatal(err)
		}
		table.Add(id, uint64(i%100), uint64(i)*1000, uint64(i))
	}
	m := New(Options{Table: table, Log: nullLog{}, MaxProducers: 1_000_000})
	for i := range producers {
		var id record.ProducerID
		binary.BigEndian.PutUint64(id[:], uint64(i)*0x9E3779B97F4A7C15+1)
		var r Result
		m.producers.open(id, int64(i), &r)
		m.producers.byID[id].add(run{first: 1, count: 7, place: uint64(i)*7 + 1})
	}
	m.index = 1
	m.Digest() // as checkpoints and earlier snapshots do: names are hashed once
	return m
}
