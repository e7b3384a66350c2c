package subtree

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/topic"
)

// fileCost is what entering a file counts for Limit.Scan, in bytes.
const fileCost = 32 << 10

// Cursor reads, in seq order, what a matcher accepts. It belongs to one goroutine. Between reads it holds no file: what a
// rewrite replaces is removed at once, and the cursor goes on in the new file.
//
// Invariant: every match at or below scanned has been returned.
type Cursor struct {
	s       *Store
	m       *topic.Matcher
	scanned uint64
	told    uint64 // Scanned of the last read
	stats   ReadStats
	brief   bool // few records will be read

	group *group // the file that the cursor is in, and who else is; nil: in none
	merge *merge // reads group's file for this cursor alone; nil: the group's readers read together, or nothing was read yet
	at    place  // in what they have read

	candidates []topic.ID // ascending: all topics that match, if known; see many
	many       bool       // there are more than maxCandidates
	known      int        // nodes of the table that candidates and many speak of
}

// NewCursor returns a cursor whose first record will be the first match with seq >= next. The matcher is the cursor's from
// now on. The cursor must be closed.
func (s *Store) NewCursor(m *topic.Matcher, next uint64) *Cursor {
	next = max(next, 1)
	return &Cursor{s: s, m: m, scanned: next - 1, told: next - 1}
}

// newMerge returns an empty merge.
func (c *Cursor) newMerge() *merge {
	return &merge{reader: reader{op: "read", cache: c.s.cache, total: &c.s.read}, budget: c.s.o.CursorBytes, brief: c.brief}
}

// Position is the last seq looked at: Scanned of the last read.
func (c *Cursor) Position() uint64 { return c.told }

// Stats are the cursor's figures so far. What another cursor has read and this one was given is in Messages and Bytes only.
func (c *Cursor) Stats() ReadStats { return c.stats }

// Rest lets go of the memory that the cursor holds but keeps its position: for readers that pause.
func (c *Cursor) Rest() {
	c.leave()
	c.merge = nil
}

// Close is Rest for good. Views stay valid.
func (c *Cursor) Close() { c.Rest() }

// leave ends the cursor's stay in a file.
func (c *Cursor) leave() {
	if c.merge != nil {
		c.merge.reset()
	}
	c.at = place{}
	if c.group != nil {
		c.s.groups.leave(c.group)
		c.group = nil
	}
}

// Read fills v, reusing its buffer, with the next matches. Count 0 with Scanned at UpTo or at the last of Bounds means that
// there is nothing more now; Count 0 with a lower Scanned: call again. Errors: *GoneError, *CorruptError, ErrTableBehind;
// nothing was read then, and the position is as before.
func (c *Cursor) Read(v *View, l Limit) error {
	v.reset(&c.s.views)
	l.normalise()
	r := read{c: c, v: v, l: l, scan: l.Scan}
	err := r.run()
	if err != nil {
		_ = c.s.noteDamage(err)
		if v.Count == 0 {
			return err
		}
		// What was read before the fault is good; the next read meets it again.
	}
	c.told = max(c.told, min(c.scanned, l.UpTo))
	v.finish(c.told)
	c.stats.Messages += uint64(v.Count)
	c.stats.Bytes += uint64(v.Bytes)
	return nil
}

// read is one call of Read.
type read struct {
	c    *Cursor
	v    *View
	l    Limit
	scan int  // bytes that may still be looked at
	full bool // a limit was reached
}

func (r *read) run() error {
	c := r.c
	first, last := c.s.Bounds()
	if c.scanned+1 < first {
		return &GoneError{Wanted: c.scanned + 1, Oldest: first}
	}
	upTo := min(last, r.l.UpTo)
	for !r.full && r.scan > 0 && c.scanned < upTo {
		f, err := c.s.acquireAt(c.scanned + 1)
		if err == nil && f == nil {
			first, _ = c.s.Bounds()
			return &GoneError{Wanted: c.scanned + 1, Oldest: first}
		}
		if err != nil {
			c.leave()
			return err
		}
		err = r.file(f, upTo)
		left := c.s.hasLeft(f)
		c.s.release(f)
		if err != nil {
			c.leave()
			if left {
				continue // what was replaced may have been damaged: look into the new file
			}
			return err
		}
	}
	return nil
}

// file reads from one file until its end or a limit.
func (r *read) file(f *file, upTo uint64) (err error) {
	c := r.c
	if c.group == nil || c.group.f != f {
		c.leave()
		c.group = c.s.groups.join(f, c.m)
	}
	if c.group.together.Load() {
		err = r.together(f, min(upTo, f.meta.LastSeq))
	} else {
		err = r.alone(f, upTo)
	}
	if c.scanned == f.meta.LastSeq {
		c.leave()
	}
	return err
}

// alone reads by the cursor's own merge.
func (r *read) alone(f *file, upTo uint64) error {
	c := r.c
	if c.merge == nil {
		c.merge = c.newMerge()
	}
	err := r.pull(c.merge, f, upTo)
	if c.merge.f == f {
		c.scanned = max(c.scanned, min(c.merge.scanned, upTo))
	}
	return err
}

// pull moves matches from a merge, which enters the file first if it is not at scanned in it, to the view, up to a limit.
func (r *read) pull(g *merge, f *file, upTo uint64) (err error) {
	before := g.stats
	defer func() { r.c.stats.add(&g.stats, &before) }()
	if g.f != f || g.scanned != r.c.scanned {
		if err := r.c.enter(g, f); err != nil {
			return err
		}
	}
	used := int(g.stats.cost(&before)) // a file without a match costs its entering
	for err == nil && !r.full && used < r.scan && g.low() <= upTo {
		var records []byte
		var bound uint64
		if records, bound, err = g.head(); len(records) > 0 {
			err = r.deliver(g, records, min(bound, upTo))
		}
		used = int(g.stats.cost(&before))
	}
	r.scan -= used
	// Nothing that matches is left below low.
	g.scanned = max(g.scanned, min(g.low()-1, f.meta.LastSeq, upTo))
	return err
}

// cost is what was looked at since before, in bytes.
func (s *ReadStats) cost(before *ReadStats) uint64 {
	return s.DecodedBytes - before.DecodedBytes + (s.StoredBytes - before.StoredBytes) + (s.Files-before.Files)*fileCost
}

// deliver copies records to the view up to a seq and the limits.
func (r *read) deliver(g *merge, records []byte, stop uint64) (err error) {
	v := r.v
	dense := r.c.m.Everything()
	n, count, last := 0, 0, g.scanned
	for n < len(records) {
		rec := records[n:]
		seq, size := seqOf(rec), sizeOf(rec)
		if seq > stop {
			break
		}
		if v.Count+count > 0 && (v.Bytes+n+size > r.l.Bytes || v.Count+count >= r.l.Count) {
			r.full = true
			break
		}
		if seq <= last || dense && seq != last+1 {
			err = g.f.corrupt("read", 0, fmt.Sprintf("seq %d where one above %d is due", seq, last), nil)
			break
		}
		n, count, last = n+size, count+1, seq
	}
	if n > 0 {
		v.add(records[:n], count, seqOf(records), last)
		g.consume(n, last)
		g.scanned = last
	}
	return err
}
