package tipstore

import (
	"fmt"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/record"
)

// Positions count bytes of the stream as laid out in chunks. The index counts in units of a record's alignment, from 1, so
// that 0 can mean none.
func unitOf(pos uint64) uint64      { return pos/record.Align + 1 }
func positionOf(unit uint64) uint64 { return (unit - 1) * record.Align }

// ring is the memory of the stream. The methods here are the writer's; readers come through find and pin.
//
//	position 0        1<<shift                                              head
//	         | retired |tail chunk| ... live, size chunks unless held ... |newest|
//
// Invariant: numbers of live chunks are consecutive and fewer than slots; chunk number n stands in slots[n % len(slots)];
// records do not cross chunks, so the last bytes of a chunk may stay unused.
type ring struct {
	mem   memory
	shift uint
	size  int // live chunks at most, if none is held
	floor floor

	// overflow is how many chunks beyond size may be held before the writer waits; only messages that nobody can archive yet take
	// more.
	overflow int
	slots    atomic.Pointer[[]atomic.Pointer[chunk]] // replaced by longer ones; a slice's length never changes

	newest  *chunk // where the writer appends; nil before the first record
	first   uint64 // number of the oldest live chunk. Invariant: live chunks are first..last
	last    uint64
	live    int
	head    uint64 // position of the next record
	nextSeq uint64 // seq of the next record; 0 before the first
	free    []*chunk
	parked  []*chunk // retired while pinned; reused when the pins are gone

	tail pair // seq and position of the oldest record of the ring

	mapped      atomic.Int64 // chunks there are; above size: spares
	pinnedCount atomic.Int64 // distinct chunks pinned just now
	maxPinned   int64
}

func (r *ring) open(chunks int, o Options) {
	r.mem.heap = o.heap || heapByDefault
	r.size = chunks
	r.maxPinned = int64(o.SpareChunks)
	for r.shift = 0; 1<<r.shift < o.ChunkBytes; r.shift++ {
	}
	r.floor.open()
	r.overflow = o.OverflowChunks
	count := 1
	for count < chunks+2 {
		count *= 2
	}
	slots := make([]atomic.Pointer[chunk], count)
	r.slots.Store(&slots)
	r.tail.store(1, 0)
}

func (r *ring) chunkBytes() int { return 1 << r.shift }

// find returns the chunk that held the number last, or nil; only a pin tells whether it still does.
func (r *ring) find(number uint64) *chunk {
	slots := *r.slots.Load()
	return slots[number%uint64(len(slots))].Load()
}

// pin keeps part number of the stream in memory until unpin; nil if it has left the ring or does not exist yet.
func (r *ring) pin(number uint64) *chunk {
	c := r.find(number)
	if c == nil {
		return nil
	}
	first, ok := c.pin(number)
	if first {
		r.pinnedCount.Add(1)
	}
	if !ok {
		r.unpin(c)
		return nil
	}
	return c
}

func (r *ring) unpin(c *chunk) {
	if c.unpin() {
		r.pinnedCount.Add(-1)
	}
}

// reserve makes room for n bytes in one chunk, retiring the oldest if the ring is full, and returns the chunk and the
// offset in it.
func (r *ring) reserve(n int, seq uint64, time int64, retired func(*chunk)) (*chunk, uint32) {
	if n > r.chunkBytes() {
		panic(fmt.Sprintf("tipstore: append: a run of %d bytes does not fit a chunk of %d; raise tip.chunk", n, r.chunkBytes()))
	}
	if r.nextSeq != 0 && seq != r.nextSeq {
		r.skip(seq, retired)
	}
	if r.newest != nil {
		if end := r.newest.end.Load(); int(end)+n <= r.chunkBytes() {
			return r.newest, end
		}
	}
	r.advance(seq, time, retired)
	return r.newest, 0
}

// skip drops all there is because the stream goes on at another seq: after a hole no reader may pass unnoticed.
func (r *ring) skip(seq uint64, retired func(*chunk)) {
	if seq < r.nextSeq {
		panic(fmt.Sprintf("tipstore: append: seq %d comes after seq %d", seq, r.nextSeq-1))
	}
	r.head = (r.last + 1) << r.shift
	r.tail.store(seq, r.head)
	for r.live > 0 {
		r.retireOldest(retired)
	}
	r.newest = nil
}

// advance begins the next chunk.
func (r *ring) advance(seq uint64, time int64, retired func(*chunk)) {
	number := uint64(0)
	if r.mapped.Load() > 0 {
		number = r.last + 1
	}
	r.makeRoom(retired)
	c := r.takeChunk(retired)
	if r.live == 0 {
		r.first = number
		r.tail.store(seq, number<<r.shift)
	}
	c.begin(number, seq, time)
	slots := *r.slots.Load()
	slots[number%uint64(len(slots))].Store(c)
	r.newest, r.last, r.head = c, number, number<<r.shift
	r.live++
}

// moveTail lets the tail pass the oldest chunk. This comes before everything else that retiring does: a reader that finds
// the tail at or below its position afterwards knows that what it read before was still there.
func (r *ring) moveTail() {
	next := r.find(r.first + 1)
	r.tail.store(next.firstSeq.Load(), (r.first+1)<<r.shift)
}

// retireOldest takes the oldest chunk out of the stream; the tail has passed it.
func (r *ring) retireOldest(retired func(*chunk)) {
	c := r.find(r.first)
	c.renumber(r.first, noChunk)
	retired(c)
	r.first++
	r.live--
	if c.pinned() {
		r.parked = append(r.parked, c)
		return
	}
	r.free = append(r.free, c)
}

// takeChunk finds memory: a free chunk, a parked one without pins, or new memory, none of which waits. If the system has none,
// the ring gives up its oldest chunks, once they are archived.
func (r *ring) takeChunk(retired func(*chunk)) *chunk {
	r.unpark()
	for len(r.free) == 0 {
		mem, err := r.mem.take(r.chunkBytes())
		if err == nil {
			r.mapped.Add(1)
			return newChunk(mem)
		}
		if r.live < 2 || !r.floor.await(r.lastOfOldest()) {
			panic(err)
		}
		r.moveTail()
		r.retireOldest(retired)
	}
	c := r.free[len(r.free)-1]
	r.free = r.free[:len(r.free)-1]
	return c
}

func (r *ring) unpark() {
	kept := r.parked[:0]
	for _, c := range r.parked {
		if c.pinned() {
			kept = append(kept, c)
		} else {
			r.free = append(r.free, c)
		}
	}
	clear(r.parked[len(kept):])
	r.parked = kept
}
