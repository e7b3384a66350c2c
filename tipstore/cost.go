package tipstore

import "math/bits"

// Nanoseconds, measured on one core of a server (DESIGN.md): only their ratios matter.
const (
	costRecord  = 9  // linear: step to the next record and ask the matcher
	costKiB     = 40 // linear: bring a KiB of ring to the processor
	costPiece   = 10 // linear: begin a piece of the view, because what is before does not match
	costPoll    = 14 // merge: ask a list for news at the beginning of a round
	costPosting = 30 // merge: a record found, touched and delivered
	costLevel   = 3  // merge: a level of the queue for each
)

// MergeAlways makes cursors merge whatever it costs, or lets them choose again: for comparison. Not while a cursor reads.
func (s *Store) MergeAlways(on bool) { s.merge = on }

// mergeIsCheaper compares what is ahead of the cursor by both ways.
func (r *read) mergeIsCheaper() bool {
	c := r.c
	records := r.fenceSeq - c.at + 1
	linear := costRecord*records + (r.fencePos-c.pos)*costKiB/1024
	lists := uint64(len(c.merge.sources))
	merge := costPoll * lists
	if merge >= linear+costPiece*records {
		return false // whatever matches: do not even count
	}
	postings := r.share(records)
	linear += costPiece * min(postings, records-postings)
	levels := uint64(bits.Len64(min(lists, postings)))
	return merge+postings*(costPosting+costLevel*levels) < linear
}

// share is the part of all records that the cursor's lists hold, in 1/65536. It is counted over the whole ring and again
// when the ring has moved on by an eighth.
type share struct {
	value uint64
	until uint64 // seq from which it is counted again
}

const shareOne = 1 << 16

func (s *share) stale() { s.until = 0 }

// share estimates how many of the next records are in the cursor's lists.
func (r *read) share(records uint64) uint64 {
	m := &r.c.merge
	if r.fenceSeq >= m.share.until {
		tailSeq, _ := r.c.s.ring.tail.load()
		total := r.fenceSeq - min(tailSeq, r.fenceSeq) + 1
		m.share.value = min(m.count(&r.c.s.lists)*shareOne/total, shareOne)
		m.share.until = r.fenceSeq + total/8 + 1
	}
	return records * m.share.value / shareOne
}

// count adds up the records in the sources' lists; for the newest block of each it takes half.
func (m *merge) count(x *lists) uint64 {
	n := uint64(0)
	for i := range m.sources {
		if l := x.get(m.sources[i].part); l != nil && l.tail.Load() != 0 {
			closed := l.closed.Load()
			n += uint64(closed + classEntries[classFor(closed)]/2)
		}
	}
	return n
}
