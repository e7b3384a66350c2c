package tipstore

import (
	"github.com/cantus-bus/cantus/internal/record"
)

// Bounds are the oldest and the newest visible seq; last is first-1 if nothing is visible, (1, 0) in the beginning.
func (s *Store) Bounds() (first, last uint64) {
	first, _ = s.ring.tail.load()
	last, _ = s.fence.load()
	if last+1 < first {
		return first, first - 1 // the stream went on beyond a hole and nothing is published there yet
	}
	return first, last
}

// locate finds the position of a seq between the tail and the fence; false if the ring moved on meanwhile.
func (s *Store) locate(seq, fencePos uint64) (pos uint64, ok bool) {
	number, chunk := s.lastChunk(fencePos, func(c *chunk) bool { return c.firstSeq.Load() <= seq })
	if chunk == nil {
		return 0, false
	}
	defer s.ring.unpin(chunk)
	m := chunk.markBefore(func(m mark) bool { return m.seq <= seq })
	off, end := int(m.off), int(chunk.end.Load())
	for at := m.seq; at < seq; at++ {
		if off >= end {
			return 0, false
		}
		off += record.Scan(chunk.mem[off:end])
	}
	return number<<s.ring.shift + uint64(off), true
}

// lastChunk pins the last chunk below the fence for which holds is true; it must be true up to some chunk and false from
// there. nil if it is true for none, or if the ring moved on meanwhile.
func (s *Store) lastChunk(fencePos uint64, holds func(*chunk) bool) (uint64, *chunk) {
	_, tailPos := s.ring.tail.load()
	if fencePos <= tailPos {
		return 0, nil
	}
	lo, hi := tailPos>>s.ring.shift, (fencePos-1)>>s.ring.shift
	for lo < hi {
		mid := lo + (hi-lo+1)/2
		c := s.ring.pin(mid)
		if c == nil {
			return 0, nil
		}
		if holds(c) {
			lo = mid
		} else {
			hi = mid - 1
		}
		s.ring.unpin(c)
	}
	c := s.ring.pin(lo)
	if c != nil && !holds(c) {
		s.ring.unpin(c)
		return lo, nil
	}
	return lo, c
}

// SeqAtTime is the first visible seq with a time at or after t, unix nanoseconds; one above the last if there is none.
func (s *Store) SeqAtTime(t int64) uint64 {
	for {
		fenceSeq, fencePos := s.fence.load()
		tailSeq, _ := s.ring.tail.load()
		_, chunk := s.lastChunk(fencePos, func(c *chunk) bool { return c.firstTime.Load() < t })
		if chunk == nil {
			if now, _ := s.ring.tail.load(); now != tailSeq {
				continue // the ring moved on: what was not found may only have been lost
			}
			first, _ := s.Bounds()
			return first
		}
		seq := chunk.seqAtTime(t, fenceSeq)
		s.ring.unpin(chunk)
		return seq
	}
}

// seqAtTime walks a pinned chunk to the first record at or after t, or to that after its last visible one.
func (c *chunk) seqAtTime(t int64, fenceSeq uint64) uint64 {
	m := c.markBefore(func(m mark) bool { return m.time < t })
	seq := m.seq
	for off, end := int(m.off), int(c.end.Load()); off < end && seq <= fenceSeq; seq++ {
		rec := record.Record(c.mem[off:end])
		if rec.Time() >= t {
			break
		}
		off += record.Scan(rec)
	}
	return seq
}
