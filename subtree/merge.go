package subtree

import (
	"math/bits"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// minShare is the least that a source may hold of decoded records, in bytes, whatever the budget.
	minShare = 4 << 10
	// readAhead bounds what all sources of a merge together ask the system to read before it is needed, in stored bytes;
	// one asks for minAhead to maxAhead.
	readAhead = 16 << 20
	minAhead  = 32 << 10
	maxAhead  = 2 << 20
	// maxSpare bounds the buffers of blockBytes that wait for their next use.
	maxSpare = 16
)

// source is one section that a merge reads.
//
// Invariant: buf[pos:] are the source's next records, none left out but those in the calendar, which lie before pos. If it is
// empty the next record is the first that is wanted in the raw bytes of block from off on, or in a later block; the source's
// key in the queue is at or below its seq.
type source struct {
	sec    *section
	want   blockSet // nil: every block is wanted
	filter bool     // records are shown to the matcher
	placed bool     // block was looked up
	block  uint32
	off    uint32
	ahead  uint32 // blocks below were asked for
	table  []tableRows
	buf    []byte
	pos    int
}

// tableRows is a page of a section's block table.
type tableRows struct {
	page uint32
	rows []blockRow
}

// row returns a row of a source's block table. One that is read from end to end keeps the pages that it is at, one or two:
// the cache, which they would sweep through, is for those that look here and there.
func (g *merge) row(s *source, block uint32) (*blockRow, error) {
	if s.want != nil {
		return g.reader.row(g.f, s.sec, block)
	}
	page := block / tablePage
	for i := range s.table {
		if s.table[i].page == page {
			return &s.table[i].rows[block%tablePage], nil
		}
	}
	rows, err := g.readRows(g.f, s.sec, page)
	if err != nil {
		return nil, err
	}
	s.table = slices.DeleteFunc(s.table, func(t tableRows) bool { return t.page < s.block/tablePage })
	s.table = append(s.table, tableRows{page, rows})
	return &rows[block%tablePage], nil
}

// merge reads the wanted records of one file's sections in seq order.
//
// Invariant: held is the sum of the capacities of the sources' buffers; but for one large record, each is at most share.
type merge struct {
	reader
	f       *file
	m       *topic.Matcher // nil: every record is wanted
	next    uint64         // records below are not wanted
	scanned uint64         // every wanted record at or below was consumed
	sources []source
	queue   queue // of the sources, by the next record that is not in the calendar
	calendar
	budget int
	held   int
	share  int
	raw    []byte
	spare  [][]byte // buffers of blockBytes
	brief  bool     // few records will be read: none are asked for ahead
}

// begin prepares to read from next on; sources were added.
func (g *merge) begin(f *file, m *topic.Matcher, next uint64) {
	g.f, g.m, g.next, g.scanned = f, m, next, max(next, 1)-1
	g.queue.items = g.queue.items[:0]
	g.share = g.fairShare()
	for i := range g.sources {
		s := g.sources[i].sec
		g.queue.items = append(g.queue.items, queued{max(s.first, next), uint32(i)})
	}
	g.queue.init()
	g.calendar.begin(g.interleaved())
	g.stats.Files++
	g.announce()
}

// fairShare is how much a source may hold so that all together stay within the budget, when those that are small need not
// hold as much.
func (g *merge) fairShare() int {
	n := len(g.sources)
	if n*blockBytes <= g.budget {
		return blockBytes
	}
	sizes := make([]int, n)
	for i := range g.sources {
		sizes[i] = int(min(g.sources[i].sec.bytes, blockBytes))
	}
	slices.Sort(sizes)
	left := g.budget
	for i, size := range sizes {
		if share := left / (n - i); size > share {
			return max(minShare, share)
		}
		left -= size
	}
	return blockBytes
}

// announce asks the system for what each source reads first.
func (g *merge) announce() {
	for i := range g.sources {
		s := &g.sources[i]
		g.f.handle.Prefetch(int64(s.sec.table), int64(min(tableSize(s.sec.blocks), tablePageSize)))
		if s.want == nil && s.sec.first >= g.next {
			g.f.handle.Prefetch(int64(s.sec.data), int64(min(s.sec.dataSize, blockBytes)))
		}
	}
}

// reset drops the sources.
func (g *merge) reset() {
	for i := range g.sources {
		g.giveBack(&g.sources[i])
	}
	g.calendar.begin(false)
	clear(g.sources)
	g.sources = g.sources[:0]
	g.queue.items = g.queue.items[:0]
	g.f = nil
}

// head returns records that come next, all of one source, and a seq: those at or below it may be consumed before head is
// asked again. No records: there are none any more.
func (g *merge) head() (records []byte, bound uint64, err error) {
	for {
		key, slot := g.key(), g.calendar.low()
		if slot < key {
			return g.slotted(slot), slot, nil
		}
		if key == end {
			return nil, 0, nil
		}
		s := &g.sources[g.queue.items[0].src]
		switch {
		case s.pos == len(s.buf):
			// What the calendar has of the source is below its key, so it was consumed.
			if err := g.load(s); err != nil {
				return nil, 0, err
			}
		case g.calendar.slots == nil || cap(s.buf) > blockBytes:
			// The key of the second may be too low, but a record that has it as its seq is this source's: seqs are unique.
			return s.buf[s.pos:], min(g.queue.second(), slot), nil
		default:
			if err := g.enroll(s); err != nil {
				return nil, 0, err
			}
		}
	}
}

// key is the first source's; end if there is none.
func (g *merge) key() uint64 {
	if g.queue.empty() {
		return end
	}
	return g.queue.items[0].key
}

// low is a seq that no record to come is below; end if none comes.
func (g *merge) low() uint64 { return min(g.key(), g.calendar.low()) }

// consume takes n bytes of what head returned: whole records, at least one, the last with a seq.
func (g *merge) consume(n int, last uint64) {
	if g.calendar.low() < g.key() {
		g.calendar.take()
		return
	}
	s := &g.sources[g.queue.items[0].src]
	s.pos += n
	if s.pos < len(s.buf) {
		g.queue.replace(seqOf(s.buf[s.pos:]))
		return
	}
	if cap(s.buf) > blockBytes {
		g.giveBack(s) // a large record's
	}
	g.queue.replace(last + 1)
}

// load fills the buffer of the first source, or moves its key up, or removes it when nothing is left.
func (g *merge) load(s *source) error {
	row, err := g.locate(s)
	if err != nil {
		return err
	}
	if row == nil {
		g.giveBack(s)
		s.table = nil
		g.queue.pop()
		return nil
	}
	if row.first > g.queue.second() {
		g.giveBack(s)
		g.queue.replace(row.first)
		return nil
	}
	if err := g.lookAhead(s); err != nil {
		return err
	}
	return g.fill(s, row)
}

// locate finds the block that the source reads next; nil: there is none.
func (g *merge) locate(s *source) (*blockRow, error) {
	if !s.placed {
		if s.sec.first < g.next {
			block, err := g.seek(g.f, s.sec, g.next)
			if err != nil {
				return nil, err
			}
			s.block = block
		}
		s.placed = true
	}
	if s.want != nil {
		next := s.want.next(s.block)
		g.stats.BlocksSkipped += uint64(min(next, s.sec.blocks) - min(s.block, s.sec.blocks))
		s.block = next
	}
	if s.block >= s.sec.blocks {
		return nil, nil
	}
	return g.row(s, s.block)
}

// fill decodes a block and keeps what is wanted of it.
func (g *merge) fill(s *source, row *blockRow) error {
	if !s.filter && s.off == 0 && row.first >= g.next && int(row.raw) <= g.share {
		return g.fillWhole(s, row)
	}
	raw, err := g.reader.block(g.f, row, g.raw, s.off > 0)
	if err != nil {
		return err
	}
	g.raw = raw
	g.take(s, g.share)
	if cap(g.raw) > 2*blockBytes {
		g.raw = nil
	}
	return nil
}

func (g *merge) fillWhole(s *source, row *blockRow) error {
	g.need(s, int(row.raw))
	raw, err := g.reader.block(g.f, row, s.buf, false)
	if err != nil {
		s.buf = s.buf[:0]
		return err
	}
	s.buf, s.pos = raw, 0
	s.block++
	g.queue.replace(row.first)
	return nil
}

// take moves wanted records from g.raw into the source's empty buffer, as many as go into room. A record that is larger
// goes in alone, if it is the merge's next.
func (g *merge) take(s *source, room int) {
	second := g.queue.second()
	s.buf, s.pos = s.buf[:0], 0
	off := int(s.off)
	for off < len(g.raw) {
		rec := g.raw[off:]
		size, seq := sizeOf(rec), seqOf(rec)
		if seq < g.next || s.filter && !g.m.Match(topicOf(rec)) {
			off += size
			continue
		}
		if len(s.buf)+size > room {
			if len(s.buf) > 0 {
				break
			}
			if seq > second {
				s.off = uint32(off)
				g.queue.replace(seq)
				return
			}
		}
		if len(s.buf)+size > cap(s.buf) {
			g.need(s, max(size, min(room, len(g.raw)-off)))
		}
		s.buf = append(s.buf, rec[:size]...)
		off += size
		if len(s.buf) > room {
			break
		}
	}
	s.off = uint32(off)
	if off == len(g.raw) {
		s.block, s.off = s.block+1, 0
	}
	if len(s.buf) > 0 {
		g.queue.replace(seqOf(s.buf))
	}
}

// need gives the source's buffer a capacity, keeping what is in it.
func (g *merge) need(s *source, size int) {
	if cap(s.buf) >= size {
		return
	}
	old := s.buf
	g.giveBack(s)
	if n := len(g.spare); size > blockBytes/2 && size <= blockBytes && n > 0 {
		s.buf, g.spare = g.spare[n-1], g.spare[:n-1]
	} else if size > blockBytes/2 && size <= blockBytes {
		s.buf = make([]byte, 0, blockBytes)
	} else {
		s.buf = make([]byte, 0, size)
	}
	s.buf = append(s.buf, old...)
	g.held += cap(s.buf)
}

// giveBack takes the buffer from a source.
func (g *merge) giveBack(s *source) {
	g.held -= cap(s.buf)
	if cap(s.buf) == blockBytes && len(g.spare) < maxSpare {
		g.spare = append(g.spare, s.buf[:0])
	}
	s.buf, s.pos = nil, 0
}

// lookAhead asks the system for the blocks that the source wants after this one.
func (g *merge) lookAhead(s *source) error {
	if g.brief {
		return nil
	}
	limit := min(maxAhead, max(minAhead, readAhead/len(g.sources)))
	if s.ahead > s.block+1 && s.ahead < s.sec.blocks {
		// Ask again only when half of what was asked for is used up.
		here, err := g.row(s, s.block)
		if err != nil {
			return err
		}
		there, err := g.row(s, s.ahead)
		if err != nil || there.offset-here.offset > uint64(limit/2) {
			return err
		}
	}
	asked, block := 0, max(s.ahead, s.block)
	var from, to uint64
	for asked < limit {
		if s.want != nil {
			block = s.want.next(block)
		}
		if block >= s.sec.blocks {
			break
		}
		row, err := g.row(s, block)
		if err != nil {
			return err
		}
		if row.offset != to {
			if to > from {
				g.f.handle.Prefetch(int64(from), int64(to-from))
			}
			from = row.offset
		}
		to = row.offset + uint64(row.stored)
		asked += int(row.stored)
		block++
	}
	if to > from {
		g.f.handle.Prefetch(int64(from), int64(to-from))
	}
	s.ahead = block
	return nil
}

// blockSet is a set of a section's blocks, a bit each.
type blockSet []uint64

func newBlockSet(blocks uint32) blockSet { return make(blockSet, (blocks+63)/64) }

// add puts the blocks from first to last in.
func (b blockSet) add(first, last uint32) {
	for w := first / 64; w <= last/64; w++ {
		mask := ^uint64(0)
		if w == first/64 {
			mask <<= first % 64
		}
		if w == last/64 {
			mask &= ^uint64(0) >> (63 - last%64)
		}
		b[w] |= mask
	}
}

// next is the first block of the set from one on; a number above all if there is none.
func (b blockSet) next(block uint32) uint32 {
	for w := block / 64; int(w) < len(b); w++ {
		word := b[w]
		if w == block/64 {
			word &= ^uint64(0) << (block % 64)
		}
		if word != 0 {
			return w*64 + uint32(bits.TrailingZeros64(word))
		}
	}
	return ^uint32(0)
}
