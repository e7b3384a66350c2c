package fsm

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// memLog is the slow obvious Log: all stored bytes, for ever.
type memLog struct {
	stored  []byte
	visible int // bytes of stored that were published
}

func (l *memLog) Append(run []byte, count int, newTopics []topic.ID, firstSeq uint64, time int64) []byte {
	start := len(l.stored)
	l.stored = append(l.stored, run...)
	for rest := l.stored[start:]; len(rest) > 0; rest = rest[record.Scan(rest):] {
		t := record.First(rest).Topic()
		if t >= record.NewTopic {
			t = uint32(newTopics[t-record.NewTopic])
		}
		record.Stamp(rest, t, firstSeq, time)
		firstSeq++
		count--
	}
	if count != 0 {
		panic("Append was told another count than the run has")
	}
	return l.stored[start:]
}

func (l *memLog) Publish() { l.visible = len(l.stored) }

// nullLog stores nothing: for benchmarks of the machine by itself, with batches that name ids only.
type nullLog struct{}

func (nullLog) Append(run []byte, _ int, _ []topic.ID, _ uint64, _ int64) []byte { return run }
func (nullLog) Publish()                                                         {}

// batchSpec is a batch by name of topics.
type batchSpec struct {
	producer byte // 0: none
	epoch    uint32
	number   uint64
	atomic   bool
	pre      []preSpec
	topics   []string // one message each
}

type preSpec struct {
	topic   string
	lastSeq uint64
}

func producerID(p byte) (id record.ProducerID) {
	if p != 0 {
		copy(id[:], fmt.Sprintf("producer %c......", p))
	}
	return id
}

// machineTest is a machine with the log that it was fed and what it stored.
type machineTest struct {
	tb                      testing.TB
	m                       *Machine
	mem                     *memLog
	index                   uint64
	entries                 [][]byte
	results                 [][]Result
	maxTopics, maxProducers int

	builder record.EntryBuilder

	sealed  []Window // told by the machine
	planned []uint64
}

// checkPlan stands for the plans' decoder.
func checkPlan(partition string, plan []byte) error {
	if of, ok := strings.CutPrefix(string(plan), "of "); string(plan) == "bad" || ok && of != partition {
		return record.ErrCorrupt
	}
	return nil
}

func newMachineTest(tb testing.TB, maxTopics, maxProducers int) *machineTest {
	t := &machineTest{tb: tb, mem: &memLog{}, maxTopics: maxTopics, maxProducers: maxProducers}
	t.m = New(Options{Table: topic.NewTable(maxTopics), Log: t.mem, MaxProducers: maxProducers, CheckPlan: checkPlan,
		Sealed:  func(w Window) { t.sealed = append(t.sealed, w) },
		Planned: func(g Generation) { t.planned = append(t.planned, g.Number) },
	})
	return t
}

// apply feeds an entry that must be good.
func (t *machineTest) apply(data []byte) []Result {
	t.tb.Helper()
	t.index++
	_, results, err := t.m.Apply(t.index, data, nil)
	if err != nil {
		t.tb.Fatalf("apply entry %d: %v", t.index, err)
	}
	t.entries = append(t.entries, data)
	t.results = append(t.results, results)
	return results
}

// command makes and applies an entry of a small kind.
func (t *machineTest) command(k record.Kind, time int64, body []byte) Result {
	t.tb.Helper()
	return t.apply(record.EncodeEntry(record.EntryHeader{Kind: k, Time: time}, body))[0]
}

// publish makes and applies one entry. fresh says for each topic name whether it travels as a new name though the table knows it.
func (t *machineTest) publish(time int64, fresh func(string) bool, specs ...batchSpec) []Result {
	t.tb.Helper()
	return t.apply(t.entry(time, fresh, specs...))
}

func (t *machineTest) entry(time int64, fresh func(string) bool, specs ...batchSpec) []byte {
	t.tb.Helper()
	t.builder.Reset()
	number := func(name string) uint32 {
		if id, ok := t.m.table.Lookup(name); ok && t.m.table.IsTopic(id) && !fresh(name) {
			return uint32(id)
		}
		return t.builder.NewTopicRef(name)
	}
	for _, s := range specs {
		t.builder.AddBatch(buildBatch(t.tb, s, number))
	}
	return t.builder.Finish(record.CodecNone, record.EntryHeader{Time: time})
}

// buildBatch lays out a batch; payloads differ by number and place.
func buildBatch(tb testing.TB, s batchSpec, number func(string) uint32) record.Batch {
	tb.Helper()
	var b record.BatchBuilder
	var pre []record.Precondition
	for _, p := range s.pre {
		pre = append(pre, record.Precondition{Topic: number(p.topic), LastSeq: p.lastSeq})
	}
	b.Reset(nil, pre)
	for i, name := range s.topics {
		if err := b.Add(number(name), nil, payloadOf(s, i)); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Finish(producerID(s.producer), s.epoch, s.number, s.atomic)
}

// payloadOf is 1 to 32 bytes that say whose message it is.
func payloadOf(s batchSpec, i int) []byte {
	n := s.number + uint64(i)
	p := append([]byte{s.producer}, binary.LittleEndian.AppendUint64(nil, n)...)
	return append(p, make([]byte, n%24)...)
}

// replay feeds the same entries to a fresh machine.
func (t *machineTest) replay() *machineTest {
	t.tb.Helper()
	again := newMachineTest(t.tb, t.maxTopics, t.maxProducers)
	for _, e := range t.entries {
		again.apply(e)
	}
	return again
}

func neverFresh(string) bool { return false }
