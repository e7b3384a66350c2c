package tipstore

import (
	"math"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// linear walks the ring from the cursor's position to the fence or a limit.
func (r *read) linear() {
	c := r.c
	c.s.linearReads.Add(1)
	shift := c.s.ring.shift
	for c.pos < r.fencePos && !r.full && r.scan > 0 {
		number := c.pos >> shift
		chunk := r.v.pin(number)
		if chunk == nil {
			return
		}
		off, end := int(c.pos-number<<shift), r.visible(chunk, number)
		if off >= end {
			c.pos = (number + 1) << shift
			continue
		}
		if c.m.Everything() {
			end = r.pass(chunk, off, end)
		} else {
			end = r.sift(chunk, off, end)
		}
		r.scan -= end - off
		c.pos += uint64(end - off)
		c.scanned = max(c.scanned, c.at-1)
	}
}

// sift looks at the records of [off, end) of a pinned chunk, takes those that match, and returns how far it came.
func (r *read) sift(chunk *chunk, off, end int) int {
	m, mem, at := r.c.m, chunk.mem, r.c.at
	last := min(r.fenceSeq, r.l.UpTo)
	stop := min(end, off+r.scan)
	bytes, count := r.l.Bytes-r.v.Bytes, r.l.Count-r.v.Count
	if r.v.Count == 0 {
		bytes = math.MaxInt // the first one always fits
	}
	start, first := -1, at // of the run of matches that is open
	for off < stop && at <= last {
		rec := mem[off:end]
		size := record.Scan(rec)
		if m.Match(topic.ID(record.Record(rec).Topic())) {
			if size > bytes || count <= 0 || start < 0 && !r.v.hasRoom(chunk, off) {
				r.full = true
				break
			}
			if start < 0 {
				start, first = off, at
			}
			if bytes == math.MaxInt {
				bytes = r.l.Bytes
			}
			bytes -= size
			count--
		} else if start >= 0 {
			r.v.add(chunk, start, off, int(at-first), first, at-1)
			start = -1
		}
		off += size
		at++
	}
	if start >= 0 {
		r.v.add(chunk, start, off, int(at-first), first, at-1)
	}
	r.full = r.full || at > last
	r.c.at = at
	return off
}

// pass takes the records of [off, end) of a pinned chunk without a look at each: it leaps to the last mark within the
// limits and walks from there.
func (r *read) pass(chunk *chunk, off, end int) int {
	at, last := r.c.at, min(r.fenceSeq, r.l.UpTo)
	if !r.v.hasRoom(chunk, off) {
		r.full = true
		return off
	}
	bytes, count := r.l.Bytes-r.v.Bytes, uint64(r.l.Count-r.v.Count)
	far := uint32(min(end, off+max(bytes, 0)))
	to, seq := off, at
	if m := chunk.markBefore(func(m mark) bool {
		return m.off <= far && m.seq <= last && (m.seq <= at || m.seq-at <= count)
	}); m.seq > at {
		to, seq = int(m.off), m.seq
	}
	for to < end && seq <= last {
		next := to + record.Scan(chunk.mem[to:end])
		if fits := next-off <= bytes && seq-at < count; !fits && (r.v.Count > 0 || seq > at) {
			r.full = true
			break
		}
		to, seq = next, seq+1
	}
	if seq > at {
		r.v.add(chunk, off, to, int(seq-at), at, seq-1)
	}
	r.full = r.full || seq > last
	r.c.at = seq
	return to
}
