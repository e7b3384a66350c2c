package fsm

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// TestBadEntries: each is an error that names entry and cause, and changes nothing.
func TestBadEntries(t *testing.T) {
	seal := func(k record.Kind, body []byte) []byte {
		return record.EncodeEntry(record.EntryHeader{Kind: k, Time: 99}, body)
	}
	publish := func(number uint32) []byte {
		var b record.BatchBuilder
		b.Reset(nil, nil)
		_ = b.Add(number, nil, []byte("payload"))
		var e record.EntryBuilder
		e.Reset()
		e.AddBatch(b.Finish(record.ProducerID{}, 0, 0, false))
		return e.Finish(record.CodecNone, record.EntryHeader{Time: 99})
	}
	good := seal(record.KindCheckpoint, CheckpointBody(1))
	for _, c := range []struct {
		name  string
		data  []byte
		index uint64
		want  error
	}{
		{"empty", nil, 10, record.ErrCorrupt},
		{"cut short", good[:len(good)-1], 10, record.ErrCorrupt},
		{"applied before", good, 2, ErrInvariant},
		{"body too short", seal(record.KindOpenProducer, make([]byte, 15)), 10, record.ErrCorrupt},
		{"body too long", seal(record.KindConfig, make([]byte, 56)), 10, record.ErrCorrupt},
		{"plan cut short", seal(record.KindPlan, PlanBody(Generation{Number: 1})[:24]), 10, record.ErrCorrupt},
		{"plan without its partitions", seal(record.KindPlan, append(make([]byte, 24), 2, 0, 0, 0, 0, 0, 0, 0)), 10, record.ErrCorrupt},
		{"plan cut within a partition", seal(record.KindPlan, cutPlan(1)), 10, record.ErrCorrupt},
		{"plan with bytes behind it", seal(record.KindPlan, append(cutPlan(0), 0)), 10, record.ErrCorrupt},
		{"body empty", seal(record.KindExpireProducers, nil), 10, record.ErrCorrupt},
		{"unknown kind", seal(99, nil), 10, record.ErrCorrupt},
		{"no batches", seal(record.KindPublish, make([]byte, 8)), 10, record.ErrCorrupt},
		{"topic that is not there", publish(77), 10, ErrInvariant},
		{"node that is no topic", publish(1), 10, ErrInvariant},
		{"the root", publish(0), 10, ErrInvariant},
		{"new name that is not there", publish(record.NewTopic), 10, record.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMachineTest(t, 100, 100)
			m.command(record.KindOpenProducer, 1, OpenProducerBody(producerID('p')))
			m.publish(2, neverFresh, batchSpec{producer: 'p', epoch: 1, number: 1, topics: []string{"a/b"}})
			before := fmt.Sprint(m.m.Digest(), m.m.LastSeq(), m.m.LastTime(), m.m.AppliedIndex(), m.mem.stored)
			_, results, err := m.m.Apply(c.index, c.data, nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), fmt.Sprintf("apply entry %d: ", c.index)) || len(results) != 0 {
				t.Errorf("%d results, error %v, want %v", len(results), err, c.want)
			}
			after := fmt.Sprint(m.m.Digest(), m.m.LastSeq(), m.m.LastTime(), m.m.AppliedIndex(), m.mem.stored)
			if before != after {
				t.Errorf("state changed:\n%s\n%s", before, after)
			}
			m.publish(3, neverFresh, batchSpec{producer: 'p', epoch: 1, number: 2, topics: []string{"a/b"}})
		})
	}
}

// TestIndexGaps: raft's own entries take indexes too.
func TestIndexGaps(t *testing.T) {
	m := newMachineTest(t, 10, 10)
	m.index = 41
	m.publish(1, neverFresh, batchSpec{topics: []string{"a/b"}})
	if m.m.AppliedIndex() != 42 || m.m.LastSeq() != 1 {
		t.Errorf("index %d, seq %d", m.m.AppliedIndex(), m.m.LastSeq())
	}
	m.command(record.KindCheckpoint, 5, CheckpointBody(1))
	if m.m.LastTime() != 5 || m.m.LastMessageTime() != 1 {
		t.Errorf("time %d, of the last message %d", m.m.LastTime(), m.m.LastMessageTime())
	}
}

// TestZeroProducer: the id that stands for "no producer" cannot be opened.
func TestZeroProducer(t *testing.T) {
	m := newMachineTest(t, 10, 10)
	if r := m.command(record.KindOpenProducer, 1, OpenProducerBody(record.ProducerID{})); r.Code != Invalid || m.m.Producers() != 0 {
		t.Errorf("%v, %d producers", r.Code, m.m.Producers())
	}
}

// TestManyTopicsInOneEntry passes the number of distinct topics that are gathered at once, several times over.
func TestManyTopicsInOneEntry(t *testing.T) {
	m := newMachineTest(t, 1<<20, 1)
	var names []string
	for i := range 3*maxVolumes + 7 {
		names = append(names, "many/"+strconv.Itoa(i))
	}
	m.publish(1, neverFresh, batchSpec{topics: append(names, names...)})
	for i, name := range names {
		id, _ := m.m.table.Lookup(name)
		if messages, _, last := m.m.table.Stats(id); messages != 2 || last != uint64(len(names)+i+1) {
			t.Fatalf("%s: %d messages, last seq %d", name, messages, last)
		}
	}
}

// TestCheckpointsKept: the newest maxCheckpoints, from any goroutine, the later of two with one id.
func TestCheckpointsKept(t *testing.T) {
	m := newMachineTest(t, 10, 10)
	for id := range uint64(maxCheckpoints + 3) {
		m.command(record.KindCheckpoint, 1, CheckpointBody(id))
	}
	m.command(record.KindCheckpoint, 1, CheckpointBody(9))
	for id := range uint64(maxCheckpoints + 3) {
		d, ok := m.m.Checkpoint(id)
		if want := id > 3; ok != want {
			t.Errorf("checkpoint %d: kept %v, want %v", id, ok, want)
		}
		want := id + 1
		if id == 9 {
			want = m.index
		}
		if ok && d.Index != want {
			t.Errorf("checkpoint %d: index %d, want %d", id, d.Index, want)
		}
	}
}

// TestDigestParts: each kind of change shows in its part, and only there.
func TestDigestParts(t *testing.T) {
	base := func() *machineTest {
		m := newMachineTest(t, 10, 10)
		m.command(record.KindOpenProducer, 1, OpenProducerBody(producerID('p')))
		m.publish(1, neverFresh, batchSpec{topics: []string{"a/b"}})
		return m
	}
	for part, change := range map[string]func(m *machineTest){
		"producers": func(m *machineTest) { m.command(record.KindOpenProducer, 1, OpenProducerBody(producerID('p'))) },
		"config":    func(m *machineTest) { m.command(record.KindConfig, 1, ConfigBody(StreamConfig{ProducerLease: 5})) },
		"topics":    func(m *machineTest) { m.m.table.Add(2, 1, 0, 0) },
		"stream":    func(m *machineTest) { _, _ = m.m.stored.Write([]byte{0}) },
	} {
		a, b := base(), base()
		change(b)
		da, db := a.m.Digest().Parts, b.m.Digest().Parts
		for name := range da {
			if differs := da[name] != db[name]; differs != (name == part) {
				t.Errorf("change of %s: part %s differs: %v", part, name, differs)
			}
		}
	}
}

func TestCodes(t *testing.T) {
	seen := map[string]Code{}
	for c := Code(0); c < 64; c++ {
		name := c.String()
		if other, ok := seen[name]; ok {
			t.Errorf("codes %d and %d are both %q", other, c, name)
		}
		seen[name] = c
		yes, known := c.Executed()
		unnamed := strings.HasPrefix(name, "code ")
		if want := c == OK || c == Duplicate; yes != want {
			t.Errorf("%v: executed %v", c, yes)
		}
		if want := c != Unknown && c != Settled && !unnamed; known != want {
			t.Errorf("%v: known %v, want %v", c, known, want)
		}
	}
}

// TestAllocations: none, neither per message nor per entry, once the buffers have grown.
func TestAllocations(t *testing.T) {
	const rounds = 50
	m := newMachineTest(t, 1000, 10)
	m.command(record.KindOpenProducer, 1, OpenProducerBody(producerID('p')))
	var topics []string
	for i := range 100 {
		topics = append(topics, "some/topic/"+strconv.Itoa(i))
	}
	m.publish(1, neverFresh, batchSpec{topics: topics})
	m.mem.stored = make([]byte, 0, 16<<20)
	var entries [][]byte
	for i := range rounds + 2 {
		entries = append(entries, m.entry(1, neverFresh,
			batchSpec{producer: 'p', epoch: 1, number: uint64(i*len(topics)) + 1, topics: topics},
			batchSpec{pre: []preSpec{{topics[5], 0}}, topics: topics[:1]}, // refused
			batchSpec{topics: topics[:50]}))
	}
	results := make([]Result, 0, 3)
	next := 0
	got := testing.AllocsPerRun(rounds, func() {
		m.index++
		_, rs, err := m.m.Apply(m.index, entries[next], results)
		if err != nil || rs[0].Code != OK || rs[1].Code != PreconditionFailed || rs[2].Code != OK {
			t.Fatal(rs, err)
		}
		next++
	})
	if got != 0 {
		t.Errorf("%v allocations per entry of 150 messages", got)
	}
}

// TestProducerMemory prints what a producer costs, quiet and with the longest history, and holds it under the documented bounds.
func TestProducerMemory(t *testing.T) {
	const n = 50_000
	for _, c := range []struct {
		runs  int
		bound float64
	}{{1, 256}, {maxRuns, 2048}} {
		before := heapInUse()
		var p producers
		p.init(n)
		for i := range n {
			id := record.ProducerID([]byte(fmt.Sprintf("%016d", i)))
			var r Result
			p.open(id, 1, &r)
			for k := range c.runs {
				p.byID[id].add(run{first: uint64(k) + 1, count: 1, place: uint64(2 * k)})
			}
		}
		perProducer := float64(heapInUse()-before) / n
		runtime.KeepAlive(&p)
		t.Logf("%d runs: %.0f bytes per producer", c.runs, perProducer)
		if perProducer > c.bound {
			t.Errorf("%d runs: %.0f bytes per producer, documented as at most %.0f", c.runs, perProducer, c.bound)
		}
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}

// FuzzApply: arbitrary bytes, as an entry and as the body of a sealed one, never panic, and change nothing if they are refused.
// cutPlan is the body of a plan without its last n bytes.
func cutPlan(n int) []byte {
	b := PlanBody(Generation{Plans: []PartitionPlan{{2, []byte("x")}, {3, []byte("plan")}}})
	return b[:len(b)-n]
}

func FuzzApply(f *testing.F) {
	seed := newMachineTest(f, 100, 4)
	seed.command(record.KindOpenProducer, 1, OpenProducerBody(producerID('p')))
	seed.publish(2, neverFresh, batchSpec{topics: []string{"a/b", "c"}},
		batchSpec{producer: 'p', epoch: 1, number: 1, pre: []preSpec{{"a/b", 1}}, topics: []string{"a/b", "new/one"}})
	seed.command(record.KindConfig, 3, ConfigBody(StreamConfig{ProducerLease: 9}))
	seed.command(record.KindExpireProducers, 3, ExpireBody(1))
	seed.command(record.KindCheckpoint, 3, CheckpointBody(1))
	seed.command(record.KindConfig, 3, ConfigBody(StreamConfig{ProducerLease: 9, WindowCount: 1}))
	seed.command(record.KindPlan, 4, PlanBody(Generation{Number: 1, FirstWindow: 1, LastWindow: 1}))
	seed.command(record.KindRetain, 4, RetainBody(1))
	for _, e := range seed.entries {
		h, _ := record.PeekEntry(e)
		f.Add(uint8(0), e)
		f.Add(uint8(h.Kind), e[record.EntryHeaderSize:])
	}
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		m := newMachineTest(t, 6, 2)
		m.command(record.KindOpenProducer, 1, OpenProducerBody(producerID('p')))
		m.publish(2, neverFresh, batchSpec{producer: 'p', epoch: 1, number: 1, topics: []string{"a/b"}})
		if kind != 0 && len(data) <= record.MaxEntryBody {
			data = record.EncodeEntry(record.EntryHeader{Kind: record.Kind(kind), Time: 3}, data)
		}
		before := fmt.Sprint(m.m.Digest())
		_, results, err := m.m.Apply(10, data, nil)
		switch after := fmt.Sprint(m.m.Digest()); {
		case err != nil && (len(results) != 0 || before != after):
			t.Fatalf("refused (%v) with %d results; state\n%s, before\n%s", err, len(results), after, before)
		case err == nil && m.m.AppliedIndex() != 10:
			t.Fatalf("accepted, applied index %d", m.m.AppliedIndex())
		}
		checkStored(t, m)
	})
}

// checkStored holds what was stored against what the machine says.
func checkStored(t *testing.T, m *machineTest) {
	var seq uint64
	for run := m.mem.stored; len(run) > 0; run = run[record.Scan(run):] {
		seq++
		r := record.First(run)
		if r.Seq() != seq || !m.m.table.IsTopic(topic.ID(r.Topic())) {
			t.Fatalf("message %d has seq %d, topic %d", seq, r.Seq(), r.Topic())
		}
	}
	if seq != m.m.LastSeq() || m.mem.visible != len(m.mem.stored) {
		t.Fatalf("%d messages stored, last seq %d", seq, m.m.LastSeq())
	}
}
