package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/tipstore"
)

const (
	benchPayload  = 128
	benchPerBatch = 100
)

// BenchmarkApply applies entries of 256 KiB full of 128-byte messages, each on a topic drawn at random: the worst order for the
// caches. "null" is the machine by itself, "tip" with the real tip behind it.
func BenchmarkApply(b *testing.B) {
	logs := map[string]func(*testing.B, *topic.Table) Log{
		"null": func(*testing.B, *topic.Table) Log { return nullLog{} },
		"tip":  openTip,
	}
	for _, log := range []string{"null", "tip"} {
		for _, topics := range []int{1, 1000, 1_000_000} {
			for _, idempotent := range []bool{false, true} {
				b.Run(fmt.Sprintf("log=%s/topics=%d/idempotent=%v", log, topics, idempotent), func(b *testing.B) {
					benchApply(b, topics, idempotent, logs[log])
				})
			}
		}
	}
}

func openTip(b *testing.B, t *topic.Table) Log {
	s, err := tipstore.Open(tipstore.Options{SizeBytes: 256 << 20}, t)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

func benchApply(b *testing.B, topics int, idempotent bool, open func(*testing.B, *topic.Table) Log) {
	table := topic.NewTable(topics)
	ids := make([]topic.ID, topics)
	for i := range ids {
		ids[i], _, _ = table.Intern(fmt.Appendf(nil, "bench/%d/topic/%d", i%1000, i))
	}
	m := New(Options{Table: table, Log: open(b, table), MaxProducers: 1})
	id := record.ProducerID{}
	if idempotent {
		id = producerID('p')
		m.producers.open(id, 1, new(Result))
	}
	entries := benchEntries(ids, id)
	var results []Result
	messages := 0
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%len(entries) == 0 && idempotent { // the numbers begin again
			m.producers.byID[id].history = history{ring: m.producers.byID[id].ring[:0]}
		}
		_, rs, err := m.Apply(uint64(i)+1, entries[i%len(entries)], results[:0])
		if err != nil {
			b.Fatal(err)
		}
		results = rs
		messages += len(rs) * benchPerBatch
	}
	b.SetBytes(int64(len(entries[0])))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(messages), "ns/message")
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds()/1e6, "Mmessages/s")
	if m.LastSeq() != uint64(messages) {
		b.Fatalf("%d messages published of %d", m.LastSeq(), messages)
	}
}

// benchEntries are enough different entries that all of a million topics come up.
func benchEntries(ids []topic.ID, id record.ProducerID) (entries [][]byte) {
	random := rand.New(rand.NewPCG(1, 2))
	payload := make([]byte, benchPayload)
	var number uint64 = 1
	var e record.EntryBuilder
	var bb record.BatchBuilder
	for range 200 {
		e.Reset()
		for e.Size() < record.MaxEntryBody-benchPerBatch*(record.HeaderSize+benchPayload) {
			bb.Reset(nil, nil)
			for range benchPerBatch {
				_ = bb.Add(uint32(ids[random.IntN(len(ids))]), nil, payload)
			}
			e.AddBatch(bb.Finish(id, 1, number, false))
			number += benchPerBatch
		}
		entries = append(entries, e.Finish(record.CodecNone, record.EntryHeader{Time: 1}))
	}
	return entries
}

// BenchmarkDigest is what a checkpoint costs the goroutine that applies.
func BenchmarkDigest(b *testing.B) {
	for _, n := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("producers=%d", n), func(b *testing.B) {
			m := New(Options{Table: topic.NewTable(1), Log: nullLog{}, MaxProducers: n})
			for i := range n {
				id := record.ProducerID(fmt.Appendf(nil, "%016d", i))
				m.producers.open(id, 1, new(Result))
				m.producers.byID[id].add(run{first: 1, count: 1, place: uint64(i)})
			}
			b.ResetTimer()
			for range b.N {
				_ = m.Digest()
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/digest")
		})
	}
}

// BenchmarkExpire looks at every producer and forgets none.
func BenchmarkExpire(b *testing.B) {
	var p producers
	p.init(1_000_000)
	for i := range 1_000_000 {
		p.open(record.ProducerID(fmt.Appendf(nil, "%016d", i)), 1, new(Result))
	}
	b.ResetTimer()
	for range b.N {
		p.expire(0)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/entry")
}
