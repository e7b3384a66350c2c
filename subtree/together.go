package subtree

import "slices"

// together reads from the chunks that the group's cursors share. upTo is in the file.
func (r *read) together(f *file, upTo uint64) error {
	c := r.c
	for !r.full && r.scan > 0 && c.scanned < upTo {
		ch, err := r.chunk(f)
		if err != nil {
			return err
		}
		if ch == nil {
			return nil // a limit, before there was anything
		}
		r.give(ch, upTo)
	}
	return nil
}

// chunk returns what comes after the cursor's position: what another made, or is making, or else what it makes itself.
func (r *read) chunk(f *file) (*chunk, error) {
	c := r.c
	if ch := c.at.chunk; ch != nil && ch.through > c.scanned {
		return ch, nil
	}
	for {
		ch, wait, g := c.s.groups.find(c.group, c.scanned)
		if ch != nil {
			c.merge = nil // behind by now
			return ch, nil
		}
		if wait == nil {
			return r.makeChunk(f, g)
		}
		<-wait
	}
}

// makeChunk merges the next chunk, by g or, if that is nil, by the cursor's own merge or a new one.
func (r *read) makeChunk(f *file, g *merge) (ch *chunk, err error) {
	c, after := r.c, r.c.scanned
	keep := false
	defer func() {
		if !keep {
			g = nil
		}
		c.s.groups.made(c.group, after, ch, g)
	}()
	if g == nil {
		g, c.merge = c.merge, nil
	}
	if g == nil {
		g = c.newMerge()
	}
	g.m, g.brief = c.m, c.brief
	var v View
	v.reset(&c.s.views)
	defer v.Release()
	in := read{c: c, v: &v, l: Limit{Bytes: chunkBytes}, scan: r.scan}
	in.l.normalise()
	err = in.pull(g, f, f.meta.LastSeq)
	r.scan = in.scan
	keep = err == nil && g.scanned < f.meta.LastSeq
	if g.f != f || g.scanned <= after {
		return nil, err
	}
	// What comes before a fault is good; the next chunk meets it again.
	ch = &chunk{group: c.group, after: after, through: g.scanned, count: v.Count, last: v.Last}
	if v.buf != nil {
		ch.records = slices.Clone(*v.buf)
	}
	return ch, nil
}

// give lets the view have what follows in a chunk, up to a seq and the limits, and moves the cursor.
func (r *read) give(ch *chunk, upTo uint64) {
	c, v := r.c, r.v
	if c.at.chunk != ch {
		c.at = ch.seek(c.scanned)
	}
	rest, left := ch.records[c.at.off:], ch.count-c.at.count
	if len(rest) > 0 && v.Count > 0 {
		r.full = true // a view is one piece
		return
	}
	n, count, last := len(rest), left, ch.last
	if n > r.l.Bytes || left > r.l.Count || last > upTo {
		n, count, last = r.cut(rest, upTo)
	}
	if n > 0 {
		v.share(rest[:n:n], count, seqOf(rest), last)
		c.at.off, c.at.count = c.at.off+n, c.at.count+count
		r.full = true
	}
	switch {
	case n == len(rest):
		c.scanned = min(ch.through, upTo)
	case seqOf(rest[n:]) > upTo:
		c.scanned = upTo
	default:
		c.scanned = last
	}
	if c.scanned == ch.through {
		c.at = place{}
		c.s.groups.passed(ch)
	}
}

// cut tells how much of records, which are not empty, goes into an empty view.
func (r *read) cut(records []byte, upTo uint64) (n, count int, last uint64) {
	for n < len(records) {
		seq, size := seqOf(records[n:]), sizeOf(records[n:])
		if seq > upTo || count > 0 && (n+size > r.l.Bytes || count >= r.l.Count) {
			break
		}
		n, count, last = n+size, count+1, seq
	}
	return n, count, last
}

// seek is the place of the first record above a seq.
func (c *chunk) seek(after uint64) place {
	p := place{chunk: c}
	for p.off < len(c.records) && seqOf(c.records[p.off:]) <= after {
		p.off += sizeOf(c.records[p.off:])
		p.count++
	}
	return p
}
