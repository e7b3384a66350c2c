package subtree

import (
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// maxCandidates is up to how many topics a filter's are looked up one by one in a directory; beyond, the directory is
// walked and each of its topics shown to the matcher.
const maxCandidates = 1024

// fileCost is what entering a file counts for Limit.Scan, in bytes.
const fileCost = 32 << 10

// Cursor reads, in seq order, what a matcher accepts. It belongs to one goroutine. Between reads it holds no file: what a
// rewrite replaces is removed at once, and the cursor goes on in the new file.
//
// Invariant: every match at or below scanned has been returned; while merge.f is not nil, merge reads that file's matches
// from scanned+1 on.
type Cursor struct {
	s       *Store
	m       *topic.Matcher
	scanned uint64
	told    uint64 // Scanned of the last read
	merge   merge

	candidates []topic.ID // ascending: all topics that match, if known; see many
	many       bool       // there are more than maxCandidates
	known      int        // nodes of the table that candidates and many speak of
}

// NewCursor returns a cursor whose first record will be the first match with seq >= next. The matcher is the cursor's from
// now on.
func (s *Store) NewCursor(m *topic.Matcher, next uint64) *Cursor {
	next = max(next, 1)
	c := &Cursor{s: s, m: m, scanned: next - 1, told: next - 1}
	c.merge.reader = reader{op: "read", cache: s.cache, total: &s.read}
	c.merge.budget = s.o.CursorBytes
	return c
}

// Position is the last seq looked at: Scanned of the last read.
func (c *Cursor) Position() uint64 { return c.told }

// Stats are the cursor's figures so far.
func (c *Cursor) Stats() ReadStats { return c.merge.stats }

// Rest lets go of the memory that the cursor holds but keeps its position: for readers that pause.
func (c *Cursor) Rest() { c.merge.free() }

// Close is Rest for good. Views stay valid.
func (c *Cursor) Close() { c.Rest() }

// Read fills v, reusing its buffer, with the next matches. Count 0 with Scanned at UpTo or at the last of Bounds means that
// there is nothing more now; Count 0 with a lower Scanned: call again. Errors: *GoneError, *CorruptError, ErrTableBehind;
// nothing was read then, and the position is as before.
func (c *Cursor) Read(v *View, l Limit) error {
	v.reset(&c.s.views)
	l.normalise()
	r := read{c: c, v: v, l: l, scan: l.Scan}
	err := r.run()
	if err != nil {
		c.merge.reset()
		_ = c.s.noteDamage(err)
		if v.Count == 0 {
			return err
		}
		// What was read before the fault is good; the next read meets it again.
	}
	c.told = max(c.told, min(c.scanned, l.UpTo))
	v.finish(c.told)
	c.merge.stats.Messages += uint64(v.Count)
	c.merge.stats.Bytes += uint64(v.Bytes)
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
			return err
		}
		err = r.file(f, upTo)
		left := c.s.hasLeft(f)
		c.s.release(f)
		if err != nil {
			c.merge.reset()
			if left {
				continue // what was replaced may have been damaged: look into the new file
			}
			return err
		}
	}
	return nil
}

// file reads from one file until its end or a limit.
func (r *read) file(f *file, upTo uint64) error {
	c := r.c
	before := c.merge.stats
	if c.merge.f != f {
		if err := c.enter(f); err != nil {
			return err
		}
	}
	used := int(c.merge.stats.cost(&before)) // a file without a match costs its entering
	var err error
	for err == nil && !r.full && used < r.scan && c.merge.low() <= upTo {
		var records []byte
		var bound uint64
		if records, bound, err = c.merge.head(); len(records) > 0 {
			err = r.deliver(f, records, min(bound, upTo))
		}
		used = int(c.merge.stats.cost(&before))
	}
	r.scan -= used
	// Nothing that matches is left below low.
	c.scanned = max(c.scanned, min(c.merge.low()-1, f.meta.LastSeq, upTo))
	if c.scanned == f.meta.LastSeq {
		c.merge.reset()
	}
	return err
}

// cost is what was looked at since before, in bytes.
func (s *ReadStats) cost(before *ReadStats) uint64 {
	return s.DecodedBytes - before.DecodedBytes + (s.StoredBytes - before.StoredBytes) + (s.Files-before.Files)*fileCost
}

// deliver copies records to the view up to a seq and the limits.
func (r *read) deliver(f *file, records []byte, stop uint64) (err error) {
	c, v := r.c, r.v
	dense := c.m.Everything()
	n, count, last := 0, 0, c.scanned
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
			err = f.corrupt("read", 0, fmt.Sprintf("seq %d where one above %d is due", seq, last), nil)
			break
		}
		n, count, last = n+size, count+1, seq
	}
	if n > 0 {
		v.add(records[:n], count, seqOf(records), last)
		c.merge.consume(n, last)
		c.scanned = last
	}
	return err
}

// enter begins to read a file at scanned+1.
func (c *Cursor) enter(f *file) error {
	c.merge.reset()
	if int(f.meta.MaxTopic) >= c.s.table.Nodes() {
		return fmt.Errorf("subtree: read %s: topic %d: %w", f.name, f.meta.MaxTopic, ErrTableBehind)
	}
	next := c.scanned + 1
	all := c.m.Everything()
	if !all {
		c.findCandidates()
	}
	for i := range f.foot.partitions {
		p := &f.foot.partitions[i]
		part := c.s.table.Partition(p.node)
		if part == topic.NoPartition || c.s.table.PartitionNode(part) != p.node {
			return f.corrupt("read", 0, fmt.Sprintf("topic %d is not a partition of this stream", p.node), nil)
		}
		coverage := c.m.Coverage(part)
		if coverage == topic.CoverNone {
			continue
		}
		if err := c.addPartition(f, p, coverage, next); err != nil {
			return err
		}
	}
	c.merge.begin(f, c.m, next)
	return nil
}

// addPartition adds the sections of a partition that may hold matches.
func (c *Cursor) addPartition(f *file, p *partition, coverage topic.Coverage, next uint64) error {
	if coverage == topic.CoverAll {
		for i := range p.sections {
			if sec := &p.sections[i]; sec.last >= next {
				c.merge.sources = append(c.merge.sources, source{sec: sec})
			}
		}
		return nil
	}
	wants := make([]blockSet, len(p.sections))
	err := c.eachMatch(f, p, func(e entry) {
		sec := &p.sections[e.section]
		if e.last < next {
			return
		}
		if wants[e.section] == nil {
			wants[e.section] = newBlockSet(sec.blocks)
		}
		e.eachRun(wants[e.section].add)
	})
	if err != nil {
		return err
	}
	for i := range p.sections {
		if wants[i] != nil {
			c.merge.sources = append(c.merge.sources, source{sec: &p.sections[i], want: wants[i], filter: true})
		}
	}
	return nil
}

// eachMatch calls fn with the directory entries that match.
func (c *Cursor) eachMatch(f *file, p *partition, fn func(entry)) error {
	if !c.many {
		return c.merge.eachOf(f, p, c.candidatesIn(p), fn)
	}
	return c.merge.eachTopic(f, p, func(e entry) bool {
		if c.m.Match(e.topic) {
			fn(e)
		}
		return true
	})
}

// candidatesIn are the candidates of one partition.
func (c *Cursor) candidatesIn(p *partition) []topic.ID {
	part := c.s.table.Partition(p.node)
	return slices.DeleteFunc(slices.Clone(c.candidates), func(id topic.ID) bool { return c.s.table.Partition(id) != part })
}

// findCandidates lists the topics that match, if they are few. The table only grows, so the list holds for all files whose
// topics the table knew when it was made.
func (c *Cursor) findCandidates() {
	nodes := c.s.table.Nodes()
	if nodes == c.known {
		return
	}
	c.known, c.many, c.candidates = nodes, false, c.candidates[:0]
	for _, filter := range c.m.Filters() {
		id, ok := c.s.table.Lookup(filter.Path())
		if !ok {
			continue
		}
		if !filter.Subtree() {
			c.candidates = append(c.candidates, id)
		} else if !c.addBelow(id) {
			c.many, c.candidates = true, nil
			return
		}
	}
	slices.Sort(c.candidates)
}

// addBelow adds a node and all below it; false if they are too many.
func (c *Cursor) addBelow(id topic.ID) bool {
	c.candidates = append(c.candidates, id)
	for i := len(c.candidates) - 1; i < len(c.candidates); i++ {
		for child := range c.s.table.Children(c.candidates[i]) {
			if len(c.candidates) >= maxCandidates {
				return false
			}
			c.candidates = append(c.candidates, child)
		}
	}
	return true
}
