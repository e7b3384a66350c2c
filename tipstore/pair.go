package tipstore

import "sync/atomic"

const pairSlots = 64

// pair is a seq and its position, stored by one writer and loaded as one by any number of readers without a lock.
//
// The writer fills the slot after the current one and then moves the index. A reader's slot is overwritten only after
// pairSlots-1 more stores, which it notices by the index and loads again; so it waits for nobody, and a writer that loses
// the processor in the middle leaves the current slot whole.
type pair struct {
	index atomic.Uint64
	slots [pairSlots]struct{ seq, pos atomic.Uint64 }
}

func (p *pair) store(seq, pos uint64) {
	next := p.index.Load() + 1
	slot := &p.slots[next%pairSlots]
	slot.seq.Store(seq)
	slot.pos.Store(pos)
	p.index.Store(next)
}

func (p *pair) load() (seq, pos uint64) {
	for {
		index := p.index.Load()
		slot := &p.slots[index%pairSlots]
		seq, pos = slot.seq.Load(), slot.pos.Load()
		if p.index.Load()-index < pairSlots-1 {
			return seq, pos
		}
	}
}
