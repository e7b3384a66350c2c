package subtree

import "fmt"

const (
	// calendarSeqs is how many seqs a merge looks ahead: enough for a few records of each of hundreds of sources, few enough
	// for them to stay in the processor's cache.
	calendarSeqs = 4096
	// minEnrolled is from how many records of a source at a time on it is worth while.
	minEnrolled = 2
)

// calendar puts the records of a merge's sources in order without comparing them: each has a slot of its seq, within the
// calendarSeqs from base on. (After R. Brown, Calendar queues, CACM 31, 1988.) When many sources interleave finely, as partitions
// do that are read together, a heap would move a source down for each record and then find its next record out of the cache; with
// a calendar a source enters all it has in the range at once, and goes down the heap once for all of them.
//
// Invariant: used counts the slots in use; those from base+at on; their records lie in their sources' buffers, before pos.
type calendar struct {
	slots []slot // nil: not used
	base  uint64
	at    int
	used  int
}

// slot is where a record is; the zero slot is empty.
type slot struct{ source1, off uint32 } // the source's number plus 1; in its buffer

// begin empties the calendar, and says whether it will be used.
func (c *calendar) begin(use bool) {
	switch {
	case !use:
		c.slots = nil
	case c.slots == nil:
		c.slots = make([]slot, calendarSeqs)
	default:
		clear(c.slots)
	}
	c.at, c.used = 0, 0
}

// low is the lowest seq in the calendar; end if there is none.
func (c *calendar) low() uint64 {
	if c.used == 0 {
		return end
	}
	for c.slots[c.at].source1 == 0 {
		c.at++
	}
	return c.base + uint64(c.at)
}

// take removes the lowest.
func (c *calendar) take() {
	c.low()
	c.slots[c.at] = slot{}
	c.used--
}

// interleaved tells whether the sources are many and alternate so often that a calendar is worth while.
func (g *merge) interleaved() bool {
	messages := uint64(0)
	for i := range g.sources {
		messages += g.sources[i].sec.messages
	}
	n := uint64(len(g.sources))
	return n > 4 && messages*calendarSeqs/g.f.meta.Messages() >= n*minEnrolled
}

// slotted is the record of the calendar with the lowest seq, which is seq.
func (g *merge) slotted(seq uint64) []byte {
	x := g.slots[seq-g.base]
	rec := g.sources[x.source1-1].buf[x.off:]
	return rec[:sizeOf(rec)]
}

// enroll enters the records of the first source that are in range, at least one. An error: a seq is below one that was
// consumed, or another source's, too.
func (g *merge) enroll(s *source) error {
	c := &g.calendar
	if c.used == 0 {
		c.base, c.at = g.queue.items[0].key, 0
	}
	source1, seq := g.queue.items[0].src+1, uint64(0)
	for s.pos < len(s.buf) {
		rec := s.buf[s.pos:]
		seq = seqOf(rec)
		i := seq - c.base
		if seq >= c.base && i >= calendarSeqs {
			g.queue.replace(seq)
			return nil
		}
		if seq < c.base || c.slots[i].source1 != 0 {
			return g.f.corrupt(g.op, 0, fmt.Sprintf("seq %d is there twice, or out of order", seq), nil)
		}
		c.slots[i] = slot{source1, uint32(s.pos)}
		c.at = min(c.at, int(i))
		c.used++
		s.pos += sizeOf(rec)
	}
	g.queue.replace(seq + 1)
	return nil
}
