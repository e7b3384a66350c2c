package tipstore

// View is one read's result: pieces of the ring in order, each whole padded records; adjacent matches form one piece. The
// bytes must not be changed and are valid until Release. A View may be used for one read after the other.
type View struct {
	Parts       [][]byte
	Count       int    // records in Parts
	Bytes       int    // sum of Parts
	First, Last uint64 // seqs of the first and last record; 0 if there is none
	Scanned     uint64 // every match at or below has now been returned

	ring *ring
	pins []pinned
	own  []byte // holds the bytes when they were copied
	open part   // last part, while it may grow
	held Holder // what keeps borrowed bytes valid
}

// Holder keeps bytes valid until it is released.
type Holder interface{ Release() }

// Records are what a view can show of another origin than the ring. The fields are as the View's.
type Records struct {
	Parts       [][]byte
	Count       int
	Bytes       int
	First, Last uint64
	Scanned     uint64
	Held        Holder // released with the view; nil: the bytes stay valid by themselves
}

// Borrow makes the view show what was read elsewhere, as if a read of the ring had returned it.
func (v *View) Borrow(r Records) {
	v.Release()
	v.Parts = append(v.Parts, r.Parts...)
	v.Count, v.Bytes, v.First, v.Last, v.Scanned = r.Count, r.Bytes, r.First, r.Last, r.Scanned
	v.held = r.Held
}

// pinned is a chunk that the view keeps, by its number. Invariant: numbers ascend.
type pinned struct {
	number uint64
	chunk  *chunk
}

// part is a stretch of a chunk that becomes an element of Parts.
type part struct {
	chunk    *chunk
	off, end int
}

// Release gives the bytes back to the ring, or to where they were borrowed. Calling it again, or on a View that was never filled, does nothing.
func (v *View) Release() {
	for _, p := range v.pins {
		v.ring.unpin(p.chunk)
	}
	clear(v.pins)
	v.pins = v.pins[:0]
	clear(v.Parts)
	v.Parts = v.Parts[:0]
	v.open = part{}
	if v.held != nil {
		v.held.Release()
		v.held = nil
	}
}

// reset begins a read.
func (v *View) reset(r *ring) {
	v.Release()
	v.ring = r
	v.Count, v.Bytes, v.First, v.Last = 0, 0, 0, 0
}

// pin keeps part number of the stream until Release; nil if it has left the ring.
func (v *View) pin(number uint64) *chunk {
	for i := len(v.pins) - 1; i >= 0; i-- {
		if v.pins[i].number == number {
			return v.pins[i].chunk
		}
	}
	c := v.ring.pin(number)
	if c != nil {
		v.pins = append(v.pins, pinned{number, c})
	}
	return c
}

// add appends count records from first to last, at [off, end) of a pinned chunk.
func (v *View) add(c *chunk, off, end, count int, first, last uint64) {
	if v.Count == 0 {
		v.First = first
	}
	v.Last = last
	v.Count += count
	v.Bytes += end - off
	if v.open.chunk == c && v.open.end == off {
		v.open.end = end
		v.Parts[len(v.Parts)-1] = c.mem[v.open.off:end:end]
		return
	}
	v.open = part{c, off, end}
	v.Parts = append(v.Parts, c.mem[off:end:end])
}

// hasRoom says whether what begins at off of a chunk can be added without exceeding MaxParts.
func (v *View) hasRoom(c *chunk, off int) bool {
	return len(v.Parts) < MaxParts || v.open.chunk == c && v.open.end == off
}

// finish ends a read. Pins are kept if there is something to protect and the ring can afford it; else the bytes are copied.
func (v *View) finish() (copied bool) {
	for n := len(v.pins); n > 0 && v.pins[n-1].chunk != v.open.chunk; n-- {
		v.ring.unpin(v.pins[n-1].chunk) // looked at, but nothing was taken from it
		v.pins = v.pins[:n-1]
	}
	if v.Count > 0 && v.ring.pinnedCount.Load() <= v.ring.maxPinned {
		return false
	}
	copied = v.Count > 0
	v.own = v.own[:0]
	for _, p := range v.Parts {
		v.own = append(v.own, p...)
	}
	bytes := len(v.own)
	v.Release()
	if copied {
		v.Parts = append(v.Parts, v.own[:bytes:bytes])
	}
	return copied
}
