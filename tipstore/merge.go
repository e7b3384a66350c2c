package tipstore

import (
	"github.com/cantus-bus/cantus/internal/bugs"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/tipstore/losertree"
)

const (
	mergeBatch = 256 // positions found before the first record is touched, so that the misses of the cache overlap
	skipCost   = 64  // bytes of the scan limit that a record costs which the index offered but the matcher refused
)

// merge is a cursor's n-way merge over posting lists. It works in rounds: a round takes the fence as it is, finds the
// lists with something below, and merges them until they are drained, over as many reads as that takes. Lists without
// news are asked once per round.
//
// Invariant: while active, the units in the queue and in batch[next:n] are those of all records of the sources' lists
// between the cursor's position and end.
type merge struct {
	active  bool
	endUnit uint64 // end of the round: unit, position and last seq of the fence it took
	endPos  uint64
	endSeq  uint64

	sources []source
	known   int // partitions of the table that were looked at
	fresh   []topic.PartitionID
	share   share

	queue   losertree.Tree
	next, n int
	batch   [mergeBatch]uint64 // keys: see key
	sizes   [mergeBatch]uint32 // bytes of the records
}

// key orders records by unit and carries along whether the record must be shown to the matcher.
func key(unit uint64, some bool) uint64 {
	if some {
		return unit<<1 | 1
	}
	return unit << 1
}

// beginMerge begins a round if that is cheaper than a linear pass.
func (r *read) beginMerge() bool {
	c := r.c
	if !c.s.index || c.m.Everything() {
		return false
	}
	c.addPartitions()
	if !c.s.merge && !r.mergeIsCheaper() {
		return false
	}
	m := &c.merge
	m.active, m.next, m.n = true, 0, 0
	m.endUnit, m.endPos, m.endSeq = unitOf(r.fencePos), r.fencePos, r.fenceSeq
	from := unitOf(c.pos)
	m.queue.Reset(len(m.sources), key(from, false), key(m.endUnit, false))
	for i := range m.sources {
		src := &m.sources[i]
		if unit, ok := src.seek(&c.s.lists, from); ok && unit < m.endUnit {
			m.queue.Add(key(unit, src.some), uint32(i))
		}
	}
	m.queue.Build()
	return true
}

// addPartitions makes sources of partitions that came into being. The fence was loaded before: all records below it belong
// to partitions that are seen here.
func (c *Cursor) addPartitions() {
	m := &c.merge
	if c.s.table.Partitions() == m.known {
		return
	}
	m.fresh, m.known = c.m.Partitions(m.fresh[:0], m.known)
	for _, p := range m.fresh {
		m.sources = append(m.sources, source{part: p, some: c.m.Coverage(p) == topic.CoverSome})
	}
	if len(m.fresh) > 0 {
		m.share.stale()
	}
}

// merge goes on with the round until it is drained or a limit is reached.
func (r *read) merge() {
	c, m := r.c, &r.c.merge
	c.s.indexReads.Add(1)
	for !r.full && r.scan > 0 {
		if m.next < m.n {
			if !r.deliver() {
				m.active = false
				return
			}
			continue
		}
		drained := m.queue.Empty()
		m.fill(&c.s.lists)
		// If the tail is still at or below the cursor, no block with a record above the cursor was freed before now: what was
		// found is right, and so is what was not found.
		if c.place(r.fencePos) != nil || !r.touch() {
			m.active, m.n = false, 0
			return
		}
		if drained {
			m.active = false
			c.pos, c.at = m.endPos, m.endSeq+1
			c.scanned = max(c.scanned, m.endSeq)
			return
		}
	}
}

// fill takes the next units from the queue. A list that wins twice in a row is likely to go on: it is asked how far it leads,
// and up to there no games are played.
func (m *merge) fill(x *lists) {
	m.next, m.n = 0, 0
	last, lead := ^uint32(0), uint64(0)
	for m.n < mergeBatch && !m.queue.Empty() {
		key, i := m.queue.Top()
		m.batch[m.n] = key
		m.n++
		if i == last {
			lead = m.queue.Lead()
		} else {
			last, lead = i, 0
		}
		for {
			next, ok := m.advance(x, i, key)
			if !ok {
				m.queue.Pop()
				break
			}
			if next >= lead && !bugs.Merge || m.n == mergeBatch {
				m.queue.Replace(next)
				break
			}
			key = next
			m.batch[m.n] = key
			m.n++
		}
	}
}

// advance takes a source past key and returns its next key below the end of the round. A list that was freed under the
// source may offer anything; only what ascends is taken, because the queue relies on it.
func (m *merge) advance(x *lists, i uint32, key uint64) (next uint64, ok bool) {
	unit, ok := m.sources[i].advance(x, key>>1)
	return unit<<1 | key&1, ok && unit > key>>1 && unit < m.endUnit
}

// touch loads the first word of every record of the batch, one directly after the other. False: a chunk has left the ring.
func (r *read) touch() bool {
	m, shift := &r.c.merge, r.c.s.ring.shift
	var mem []byte
	number := ^uint64(0)
	for i, key := range m.batch[:m.n] {
		pos := positionOf(key >> 1)
		if pos>>shift != number {
			number = pos >> shift
			chunk := r.v.pin(number)
			if chunk == nil {
				return false
			}
			mem = chunk.mem
		}
		m.sizes[i] = uint32(record.Scan(mem[pos-number<<shift:]))
	}
	return true
}

// deliver takes records of the batch until it is used up or a limit is reached. False: a chunk has left the ring.
func (r *read) deliver() bool {
	c, m, v := r.c, &r.c.merge, r.v
	shift, last := c.s.ring.shift, min(r.fenceSeq, r.l.UpTo)
	var chunk *chunk
	number := ^uint64(0)
	for ; m.next < m.n; m.next++ {
		key, size := m.batch[m.next], int(m.sizes[m.next])
		pos := positionOf(key >> 1)
		if pos>>shift != number {
			number = pos >> shift
			if chunk = v.pin(number); chunk == nil {
				return false
			}
		}
		off := int(pos - number<<shift)
		rec := record.Record(chunk.mem[off : off+size])
		seq := rec.Seq()
		if seq > last {
			c.scanned, r.full = last, true
			return true
		}
		if key&1 != 0 && !c.m.Match(topic.ID(rec.Topic())) {
			if r.scan -= skipCost; r.scan <= 0 {
				m.next++
				c.passed(pos, size, seq)
				return true
			}
		} else {
			if v.Count > 0 && (v.Bytes+size > r.l.Bytes || v.Count >= r.l.Count) || !v.hasRoom(chunk, off) {
				r.full = true
				return true
			}
			v.add(chunk, off, off+size, 1, seq, seq)
		}
		c.passed(pos, size, seq)
	}
	return true
}

// passed moves the cursor behind a record.
func (c *Cursor) passed(pos uint64, size int, seq uint64) {
	c.pos, c.at, c.scanned = pos+uint64(size), seq+1, seq
}
