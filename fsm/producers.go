package fsm

import (
	"math"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/record"
)

// producer is what is remembered of one idempotent publisher.
type producer struct {
	history
	epoch    uint32 // Invariant: >= 1; only grows
	lastUsed int64  // time of the entry that last opened it or used or repeated its numbers
}

// producers is the table of all that were opened and not yet expired.
type producers struct {
	byID map[record.ProducerID]*producer // Invariant: len <= max
	max  int
	// floor is the highest epoch of a producer that was forgotten. One that is opened under a forgotten id starts above it, so that a
	// session from before can never be taken for the new one.
	floor uint32
	count atomic.Int64 // len(byID), for other goroutines
}

func (t *producers) init(limit int) {
	t.byID = map[record.ProducerID]*producer{}
	t.max = limit
}

// open starts a session: the id's next epoch, which fences all earlier ones.
func (t *producers) open(id record.ProducerID, now int64, r *Result) {
	p := t.byID[id]
	switch {
	case p == nil && (len(t.byID) >= t.max || t.floor == math.MaxUint32),
		p != nil && p.epoch == math.MaxUint32:
		r.Code, r.Detail = TooManyProducers, uint64(t.max)
		return
	case p == nil:
		p = &producer{epoch: t.floor + 1}
		t.byID[id] = p
		t.count.Store(int64(len(t.byID)))
	default:
		p.epoch++
	}
	p.lastUsed = now
	r.Epoch, r.LastNumber, r.LastSeq = p.epoch, p.lastNumber(), p.lastSeq()
}

// expire forgets producers that were last used before cutoff and returns how many. The order of deletion changes nothing: what
// remains is a set, and floor a maximum.
func (t *producers) expire(cutoff int64) uint64 {
	before := len(t.byID)
	for id, p := range t.byID {
		if p.lastUsed < cutoff {
			t.floor = max(t.floor, p.epoch)
			delete(t.byID, id)
		}
	}
	t.count.Store(int64(len(t.byID)))
	return uint64(before - len(t.byID))
}

// admit decides by epoch and number whether a batch is the producer's next. If not, r holds the answer and nil is returned. See
// the table in DESIGN.md.
func (t *producers) admit(h *record.BatchHeader, now int64, r *Result) *producer {
	p := t.byID[h.Producer]
	switch {
	case p == nil || h.Epoch > p.epoch:
		r.Code = UnknownProducer
		return nil
	case h.Epoch < p.epoch:
		r.Code, r.Detail = Fenced, uint64(p.epoch)
		return nil
	}
	settled := p.lastNumber()
	last := h.Number + uint64(h.Count) - 1 // no overflow: the batch was validated
	switch {
	case h.Number == settled+1:
		p.lastUsed = now
		return p
	case last > settled:
		r.Code, r.Detail = OutOfOrder, settled+1
		return nil
	}
	p.lastUsed = now
	p.outcome(h.Number, last, r)
	return nil
}

// settle records what became of the batch's numbers.
func (p *producer) settle(h *record.BatchHeader, r *Result) {
	n := run{first: h.Number, count: h.Count, code: r.Code, index: r.Index, place: r.Detail}
	if r.Code == OK {
		n.place = r.FirstSeq
	}
	p.add(n)
}
