package fake

import (
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// producer is what the cluster remembers of one.
type producer struct {
	epoch   uint32
	settled uint64 // last number that is used up
	runs    []run  // outcomes of all numbers, in order, without a hole
}

// run is a batch's numbers and what became of them.
type run struct {
	first, last uint64
	ack         wire.Ack
}

// openLocked gives a producer its next epoch.
func (b *Broker) openLocked(id record.ProducerID) wire.ProducerOpened {
	if b.mu.leader < 0 {
		return wire.ProducerOpened{Code: wire.CodeUnavailable}
	}
	p := b.mu.producers[id]
	if p == nil {
		p = &producer{}
		b.mu.producers[id] = p
	}
	p.epoch++
	o := wire.ProducerOpened{Epoch: p.epoch, LastNumber: p.settled}
	if n := len(p.runs); n > 0 && p.runs[n-1].ack.FirstSeq > 0 {
		o.LastSeq = p.runs[n-1].ack.FirstSeq + uint64(p.runs[n-1].ack.Count) - 1
	}
	return o
}

// executeLocked publishes a batch whose topic numbers are indexes of names, or says why not.
func (b *Broker) executeLocked(batch record.Batch, names []string) wire.Ack {
	h := batch.Header()
	var p *producer
	if h.Producer != (record.ProducerID{}) {
		var a wire.Ack
		if p, a = b.admitLocked(&h); p == nil {
			return a
		}
	}
	b.mu.time = max(b.mu.time, time.Now().UnixNano())
	a := b.decideLocked(batch, &h, names)
	if a.Code == wire.CodeOK {
		a.FirstSeq, a.Time = b.lastSeqLocked()+1, b.mu.time
		for run := batch.Records(); len(run) > 0; {
			n := record.Scan(run)
			id := b.mu.topics[names[record.Record(run).Topic()]]
			b.storeLocked(id, append([]byte(nil), run[:n]...))
			run = run[n:]
		}
	}
	if p != nil {
		p.settled += uint64(h.Count)
		p.runs = append(p.runs, run{first: h.Number, last: p.settled, ack: a})
	}
	return a
}

// admitLocked decides by epoch and number whether a batch is the producer's next. If not, the answer is returned.
func (b *Broker) admitLocked(h *record.BatchHeader) (*producer, wire.Ack) {
	a := wire.Ack{Count: h.Count}
	p := b.mu.producers[h.Producer]
	switch {
	case p == nil || h.Epoch > p.epoch:
		a.Code = wire.CodeUnknownProducer
	case h.Epoch < p.epoch:
		a.Code, a.Detail = wire.CodeFenced, uint64(p.epoch)
	case h.Number == p.settled+1:
		return p, a
	case h.Number+uint64(h.Count)-1 > p.settled:
		a.Code, a.Detail = wire.CodeOutOfOrder, p.settled+1
	default:
		a = p.outcome(h)
	}
	return nil, a
}

// outcome is what became of numbers that are used up.
func (p *producer) outcome(h *record.BatchHeader) wire.Ack {
	last := h.Number + uint64(h.Count) - 1
	for _, r := range p.runs {
		if r.first > h.Number || r.last < last {
			continue
		}
		a := r.ack
		if a.Code == wire.CodeOK {
			a.Code, a.FirstSeq, a.Count = wire.CodeDuplicate, a.FirstSeq+h.Number-r.first, h.Count
		}
		return a
	}
	return wire.Ack{Code: settled, Count: h.Count}
}

// settled is the code for numbers whose outcomes differ.
const settled wire.Code = 9

// decideLocked checks names, preconditions and room for topics, in this order. With OK all topics have ids.
func (b *Broker) decideLocked(batch record.Batch, h *record.BatchHeader, names []string) wire.Ack {
	a := wire.Ack{Count: h.Count}
	for i := range h.Preconditions {
		c := batch.Precondition(i)
		var actual uint64
		if id, ok := b.mu.topics[names[c.Topic]]; ok {
			actual = b.mu.last[id]
		}
		if actual != c.LastSeq {
			a.Code, a.Index, a.Detail = wire.CodePreconditionFailed, uint16(i), actual
			return a
		}
	}
	for run := batch.Records(); len(run) > 0; run = run[record.Scan(run):] {
		if _, ok := b.internLocked(names[record.Record(run).Topic()]); !ok {
			a.Code = wire.CodeTooManyTopics
			return a
		}
	}
	return a
}

// internLocked returns the id of a topic, making it if there is room.
func (b *Broker) internLocked(name string) (uint32, bool) {
	if id, ok := b.mu.topics[name]; ok {
		return id, true
	}
	if len(b.mu.names) >= b.o.MaxTopics {
		return 0, false
	}
	id := uint32(len(b.mu.names))
	b.mu.topics[name] = id
	b.mu.names = append(b.mu.names, name)
	b.mu.last = append(b.mu.last, 0)
	return id, true
}

// storeLocked appends a record, which it keeps.
func (b *Broker) storeLocked(id uint32, rec []byte) {
	seq := b.lastSeqLocked() + 1
	record.Stamp(rec, id, seq, b.mu.time)
	b.mu.messages = append(b.mu.messages, stored{topic: id, rec: rec})
	b.mu.last[id] = seq
}
