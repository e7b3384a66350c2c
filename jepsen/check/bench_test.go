package check

import (
	"iter"
	"runtime"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// long is a good history that is made while it is read: messages of a few topics, each read by three readers.
type long struct{ messages uint64 }

func (long) Header() history.Header { return history.Header{} }

func (l long) Events() iter.Seq2[history.Event, error] {
	topics := []string{"app/a", "app/b", "other/c"}
	return func(yield func(history.Event, error) bool) {
		for r := range 3 {
			yield(&history.ReaderOpened{Reader: r, Filters: []string{"**"}}, nil)
		}
		var at time.Duration
		for seq := uint64(1); seq <= l.messages; seq++ {
			at += time.Microsecond
			yield(&history.Publish{Producer: "p", Number: seq, Messages: []history.Sent{{ID: seq, Topic: topics[seq%3]}}, Invoke: at, Return: at, Outcome: history.OK, FirstSeq: seq}, nil)
			for r := range 3 {
				yield(&history.Delivery{At: at, Reader: r, Seq: seq, Prev: seq - 1, ID: seq, Topic: topics[seq%3]}, nil)
			}
		}
		yield(&history.End{At: at}, nil)
	}
}

func BenchmarkAll(b *testing.B) {
	const messages = 300_000
	var before, after runtime.MemStats
	held := uint64(0)
	for range b.N {
		runtime.GC()
		runtime.ReadMemStats(&before)
		l := newLedger(newFindings(), history.Header{})
		if err := pass(long{messages}, l.observe); err != nil {
			b.Fatal(err)
		}
		l.seal()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(l)
		held = after.HeapAlloc - before.HeapAlloc
	}
	b.ResetTimer()
	for range b.N {
		r, err := All(long{messages})
		if err != nil || !r.OK() {
			b.Fatal(err, r.String())
		}
	}
	b.ReportMetric(float64(held)/messages, "B/message")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(4*messages), "ns/event")
}
