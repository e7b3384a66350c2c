package fsm

import (
	"fmt"
	"slices"
)

// model is the slow obvious state machine: it keeps what became of every number of every producer and works everything else out
// from that when asked.
type model struct {
	maxTopics, maxProducers int

	seq       uint64
	floor     uint32
	names     []string // topics in order of creation
	topics    map[string]*modelTopic
	producers map[byte]*modelProducer
	log       []modelMessage
}

type modelTopic struct{ messages, bytes, lastSeq uint64 }

type modelMessage struct {
	topic, payload string
	time           int64
}

type modelProducer struct {
	epoch    uint32
	lastUsed int64
	numbers  []modelNumber // of number i+1
}

// modelNumber is what became of one number.
type modelNumber struct {
	code  Code
	seq   uint64 // OK
	batch Result // a refusal: the whole answer
	start uint64 // a refusal: number of the batch's first
}

func newModel(maxTopics, maxProducers int) *model {
	return &model{maxTopics: maxTopics, maxProducers: maxProducers, topics: map[string]*modelTopic{},
		producers: map[byte]*modelProducer{}}
}

func (m *model) open(p byte, now int64) Result {
	known := m.producers[p]
	if known == nil {
		if len(m.producers) == m.maxProducers {
			return Result{Code: TooManyProducers, Detail: uint64(m.maxProducers)}
		}
		known = &modelProducer{epoch: m.floor}
		m.producers[p] = known
	}
	known.epoch++
	known.lastUsed = now
	r := Result{Epoch: known.epoch, LastNumber: uint64(len(known.numbers))}
	if n := len(known.numbers); n > 0 {
		r.LastSeq = known.numbers[n-1].seq
	}
	return r
}

func (m *model) expire(cutoff int64) Result {
	var r Result
	for name, p := range m.producers {
		if p.lastUsed < cutoff {
			m.floor = max(m.floor, p.epoch)
			delete(m.producers, name)
			r.Detail++
		}
	}
	return r
}

func (m *model) batch(s batchSpec, now int64) Result {
	r := Result{Count: uint32(len(s.topics))}
	p := m.producers[s.producer]
	if s.producer != 0 && !p.admits(s, &r) {
		if p != nil && r.Code != Fenced && r.Code != OutOfOrder && r.Code != UnknownProducer {
			p.lastUsed = now
		}
		return r
	}
	m.decide(s, now, &r)
	if p == nil {
		return r
	}
	p.lastUsed = now
	for i := range s.topics {
		n := modelNumber{code: r.Code, batch: r, start: s.number}
		if r.Code == OK {
			n.seq = r.FirstSeq + uint64(i)
		}
		p.numbers = append(p.numbers, n)
	}
	return r
}

// admits says whether the batch is the producer's next; if not, r is the answer.
func (p *modelProducer) admits(s batchSpec, r *Result) bool {
	if p == nil || s.epoch > p.epoch {
		r.Code = UnknownProducer
		return false
	}
	if s.epoch < p.epoch {
		r.Code, r.Detail = Fenced, uint64(p.epoch)
		return false
	}
	settled := uint64(len(p.numbers))
	last := s.number + uint64(len(s.topics)) - 1
	switch {
	case s.number == settled+1:
		return true
	case last > settled:
		r.Code, r.Detail = OutOfOrder, settled+1
	default:
		p.answer(s.number, last, r)
	}
	return false
}

// starts returns the number that begins each run.
func (p *modelProducer) starts() (starts []uint64) {
	for i, n := range p.numbers {
		if i > 0 {
			before := p.numbers[i-1]
			if n.code == OK && before.code == OK && n.seq == before.seq+1 || n.code != OK && n.start == before.start {
				continue
			}
		}
		starts = append(starts, uint64(i)+1)
	}
	return starts
}

// answer is what a retry of settled numbers hears.
func (p *modelProducer) answer(first, last uint64, r *Result) {
	starts := p.starts()
	kept := starts[max(0, len(starts)-maxRuns)]
	begins := func(number uint64) bool { return slices.Contains(starts, number) }
	oneRun := first >= kept
	refused := false
	for n := first; n <= last; n++ {
		oneRun = oneRun && (n == first || !begins(n))
		refused = refused || p.numbers[n-1].code != OK
	}
	for n := first; n < kept; n++ { // of what is forgotten, the last refusal is known, no more
		refused = refused || p.numbers[n-1].code != OK
	}
	f := p.numbers[first-1]
	switch {
	case oneRun && f.code == OK:
		r.Code, r.FirstSeq = Duplicate, f.seq
	case oneRun:
		r.Code, r.Index, r.Detail = f.code, f.batch.Index, f.batch.Detail
	case refused:
		r.Code = Settled
	default:
		r.Code = Duplicate
	}
}

// decide publishes a batch or refuses it.
func (m *model) decide(s batchSpec, now int64, r *Result) {
	for i, c := range s.pre {
		var actual uint64
		if t := m.topics[c.topic]; t != nil {
			actual = t.lastSeq
		}
		if actual != c.lastSeq {
			r.Code, r.Index, r.Detail = PreconditionFailed, uint16(i), actual
			return
		}
	}
	for _, name := range s.topics {
		if m.topics[name] != nil {
			continue
		}
		if len(m.topics) == m.maxTopics {
			r.Code = TooManyTopics
			return
		}
		m.topics[name] = &modelTopic{}
		m.names = append(m.names, name)
	}
	r.FirstSeq, r.Time = m.seq+1, now
	for i, name := range s.topics {
		m.seq++
		p := payloadOf(s, i)
		t := m.topics[name]
		t.messages++
		t.bytes += uint64(len(p))
		t.lastSeq = m.seq
		m.log = append(m.log, modelMessage{name, string(p), now})
	}
}

// checkAgainst says where a machine differs from the model.
func (m *model) checkAgainst(t *machineTest) error {
	table := t.m.table
	if got := table.Topics(); got != len(m.names) {
		return fmt.Errorf("%d topics, want %d", got, len(m.names))
	}
	for _, name := range m.names {
		id, ok := table.Lookup(name)
		if !ok || !table.IsTopic(id) {
			return fmt.Errorf("topic %q is missing", name)
		}
		messages, bytes, last := table.Stats(id)
		if got := (modelTopic{messages, bytes, last}); got != *m.topics[name] {
			return fmt.Errorf("topic %q: %+v, want %+v", name, got, *m.topics[name])
		}
	}
	if got := t.m.Producers(); got != len(m.producers) {
		return fmt.Errorf("%d producers, want %d", got, len(m.producers))
	}
	for _, p := range sortedProducers(t.m) {
		want := m.producers[p.name]
		if p.epoch != want.epoch || p.lastUsed != want.lastUsed || p.lastNumber() != uint64(len(want.numbers)) {
			return fmt.Errorf("producer %c: epoch %d, used %d, last number %d, want %+v", p.name, p.epoch, p.lastUsed, p.lastNumber(), *want)
		}
	}
	return nil
}
