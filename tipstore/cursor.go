package tipstore

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// DefaultReadBytes bounds a read whose Limit leaves Bytes open.
	DefaultReadBytes = 256 << 10
	// DefaultScanBytes bounds the part of the ring that a read looks at if its Limit leaves Scan open.
	DefaultScanBytes = 1 << 20
	// MaxParts bounds the pieces of a View: what one vectored write takes.
	MaxParts = 1024
)

// GoneError says that a position has left the ring: what comes next must be read elsewhere, up to Oldest. errors.As.
type GoneError struct {
	Wanted uint64 // first seq not read yet
	Oldest uint64 // oldest seq in the ring
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("tipstore: read: seq %d has left the tip; its oldest is %d", e.Wanted, e.Oldest)
}

// Limit of one read. Whatever it says, a read returns one record if there is one, looks at MaxParts pieces at most and
// may return less.
type Limit struct {
	Bytes int    // stop before exceeding it; 0: DefaultReadBytes
	Count int    // records; 0: no limit
	UpTo  uint64 // stop after this seq; 0: at the fence
	Scan  int    // bytes of ring to look at before the read returns with Scanned advanced and Count maybe 0; 0: DefaultScanBytes
}

func (l *Limit) normalise() {
	if l.Bytes <= 0 {
		l.Bytes = DefaultReadBytes
	}
	if l.Count <= 0 {
		l.Count = int(^uint(0) >> 1)
	}
	if l.UpTo == 0 {
		l.UpTo = ^uint64(0)
	}
	if l.Scan <= 0 {
		l.Scan = DefaultScanBytes
	}
}

// Cursor reads, in seq order, what a matcher accepts. It belongs to one goroutine.
//
// Invariant: pos is the position of the record with seq at, or would be if there were one (placed); every match at or
// below scanned has been returned, scanned+1 >= at.
type Cursor struct {
	s       *Store
	m       *topic.Matcher
	placed  bool
	pos     uint64
	at      uint64
	scanned uint64
	told    uint64 // Scanned of the last read

	merge merge
}

// NewCursor returns a cursor whose first record will be the first match with seq >= next. The matcher is the cursor's from
// now on.
func (s *Store) NewCursor(m *topic.Matcher, next uint64) *Cursor {
	next = max(next, 1)
	return &Cursor{s: s, m: m, at: next, scanned: next - 1, told: next - 1}
}

// Position is the last seq looked at: Scanned of the last read.
func (c *Cursor) Position() uint64 { return c.told }

// Close lets go of what the cursor holds. Views stay valid.
func (c *Cursor) Close() { c.merge = merge{} }

// Read fills v, reusing its slices and releasing what it held, with the next matches. Count 0 with Scanned at the fence or
// at UpTo means that there is nothing more now; Count 0 with a lower Scanned: call again. The error is a *GoneError, and
// nothing was read then.
func (c *Cursor) Read(v *View, l Limit) error {
	v.reset(&c.s.ring)
	l.normalise()
	r := read{c: c, v: v, l: l, scan: l.Scan}
	r.fenceSeq, r.fencePos = c.s.fence.load()
	err := r.run()
	if err != nil {
		v.Release()
		c.s.fallen.Add(1)
		return err
	}
	c.told = max(c.told, min(c.scanned, l.UpTo))
	v.Scanned = c.told
	if v.finish() {
		c.s.copied.Add(1)
	}
	return nil
}

// read is one call of Read.
type read struct {
	c        *Cursor
	v        *View
	l        Limit
	scan     int // bytes that may still be looked at
	fenceSeq uint64
	fencePos uint64
	full     bool // a limit was reached
}

func (r *read) run() error {
	if err := r.c.lost(r.c.s.ring.tail.load()); err != nil {
		return err
	}
	for !r.full && r.scan > 0 && r.c.scanned < min(r.fenceSeq, r.l.UpTo) {
		// If the last turn met a chunk that had left the ring, this is where it shows whether the cursor still stands.
		if err := r.c.place(r.fencePos); err != nil {
			if r.v.Count > 0 {
				return nil // the next read meets it again
			}
			return err
		}
		if r.c.merge.active || r.beginMerge() {
			r.merge()
		} else {
			r.linear()
		}
	}
	return nil
}

// lost returns a *GoneError if records after scanned have left the ring, whose tail is given.
func (c *Cursor) lost(tailSeq, _ uint64) error {
	if c.scanned+1 < tailSeq {
		return &GoneError{Wanted: c.scanned + 1, Oldest: tailSeq}
	}
	return nil
}

// place makes pos valid: at the tail or above. *GoneError if it was lost.
func (c *Cursor) place(fencePos uint64) error {
	for {
		tailSeq, tailPos := c.s.ring.tail.load()
		if err := c.lost(tailSeq, tailPos); err != nil {
			return err
		}
		if c.placed {
			if c.pos < tailPos {
				c.pos, c.at = tailPos, tailSeq
			}
			return nil
		}
		if pos, ok := c.s.locate(c.scanned+1, fencePos); ok {
			c.pos, c.at, c.placed = pos, c.scanned+1, true
		}
	}
}

// visible is the end of the visible bytes of a pinned chunk.
func (r *read) visible(c *chunk, number uint64) int {
	if shift := r.c.s.ring.shift; r.fencePos>>shift == number {
		return int(r.fencePos - number<<shift)
	}
	return int(c.end.Load()) // the fence is in a later chunk: the end does not move any more
}
