package tipstore

import (
	"sort"
	"sync/atomic"
)

const (
	pinBits   = 24
	pinMask   = 1<<pinBits - 1
	noChunk   = 1<<(64-pinBits) - 1 // number of a chunk that holds no part of the stream
	markEvery = 16 << 10            // bytes of ring between two marks
)

// chunk is a piece of the ring's memory, and which part of the stream it holds just now.
//
//	state:  bits 24-63 number of the chunk in the stream (position >> shift), noChunk while it is not readable
//	        bits  0-23 pins
//
// Invariant: number only changes by the writer, from noChunk to a number and from the number to noChunk; the latter with
// any count of pins, the former only when it saw none. So whoever adds a pin and reads the expected number in the same
// operation may use mem until the unpin: see DESIGN.md.
type chunk struct {
	state atomic.Uint64
	end   atomic.Uint32 // bytes in use; moves only while this is the newest chunk
	mem   []byte

	firstSeq  atomic.Uint64 // of the records in it; valid while number is
	firstTime atomic.Int64

	// marks[:marked] are places of records in ascending order, one per Append and markEvery bytes; elements below marked do
	// not change while the number is valid.
	marks  []mark
	marked atomic.Uint32

	touched []uint32 // partitions that have records in it, each once. Writer only.
}

// mark is a place from where a walk finds a seq or a time.
type mark struct {
	off  uint32
	seq  uint64
	time int64
}

func newChunk(mem []byte) *chunk {
	c := &chunk{mem: mem, marks: make([]mark, len(mem)/markEvery+2)}
	c.state.Store(noChunk << pinBits)
	return c
}

// pin adds a pin; first says that there was none before, and ok that the chunk is part number of the stream. If it is not,
// the caller must unpin at once.
func (c *chunk) pin(number uint64) (first, ok bool) {
	state := c.state.Add(1)
	return state&pinMask == 1, state>>pinBits == number
}

// unpin gives up a pin; last says that it was the only one.
func (c *chunk) unpin() (last bool) {
	return c.state.Add(^uint64(0))&pinMask == 0
}

// renumber changes the number and leaves the pins. Writer only.
func (c *chunk) renumber(from, to uint64) { c.state.Add((to - from) << pinBits) }

func (c *chunk) pinned() bool { return c.state.Load()&pinMask != 0 }

// begin makes the chunk the part number of the stream. Only for a chunk without a number and without pins. Writer only.
func (c *chunk) begin(number, seq uint64, time int64) {
	c.end.Store(0)
	c.marked.Store(0)
	c.firstSeq.Store(seq)
	c.firstTime.Store(time)
	c.renumber(noChunk, number)
}

// addMark notes a record's place if the last mark is far enough behind. Writer only.
func (c *chunk) addMark(off uint32, seq uint64, time int64) {
	n := c.marked.Load()
	if n > 0 && off-c.marks[n-1].off < markEvery {
		return
	}
	c.marks[n] = mark{off, seq, time}
	c.marked.Store(n + 1)
}

// markBefore is the last mark for which before holds, or the first of all. The chunk must be pinned and hold a record.
func (c *chunk) markBefore(before func(mark) bool) mark {
	marks := c.marks[:c.marked.Load()]
	i := sort.Search(len(marks), func(i int) bool { return !before(marks[i]) })
	return marks[max(i-1, 0)]
}
