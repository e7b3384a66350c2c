package subtree

import (
	"encoding/binary"
	"sort"

	"github.com/cantus-bus/cantus/internal/topic"
)

// A partition's directory lists its topics in order of their ids and which blocks hold each, so that a reader finds the
// blocks of one topic without looking at those of others. It is cut into pages of about directoryPage bytes:
//
//	pages          entries back to back
//	page table     a row per page
//
// Page row:
//
//	 0 u32 first topic
//	 4 u32 entries
//	 8 u64 offset
//	16 u32 size
//	20 u32 crc     CRC-32C of the page
//
// Entry, unsigned varints:
//
//	topic          id less the entry's before in the page; the first one's is 0
//	section        index among the partition's sections
//	messages
//	bytes          of records with padding
//	last seq       less the section's first seq
//	runs           how many
//	run...         {gap<<1 | more, [more: blocks - 2]}: a run of adjacent blocks that each hold the topic. gap is the
//	               number of blocks left out since the run before (from the first block on); without more it is one block
const (
	directoryPage = 16 << 10
	pageRowSize   = 24
	// wholeDirectory is up to which size a directory is read in one piece.
	wholeDirectory = 64 << 10
)

type pageRow struct {
	first   topic.ID
	entries uint32
	offset  uint64
	size    uint32
	crc     uint32
}

func (r *pageRow) append(b []byte) []byte {
	b = le.AppendUint32(b, uint32(r.first))
	b = le.AppendUint32(b, r.entries)
	b = le.AppendUint64(b, r.offset)
	b = le.AppendUint32(b, r.size)
	return le.AppendUint32(b, r.crc)
}

// decodePageTable checks the page table of a partition.
func decodePageTable(b []byte, p *partition) ([]pageRow, *fault) {
	if uint64(len(b)) != uint64(p.pages)*pageRowSize {
		return nil, &fault{0, "a directory's page table has a wrong size"}
	}
	if checksum(b) != p.tableCRC {
		return nil, &fault{0, "wrong checksum of a directory's page table"}
	}
	rows := make([]pageRow, p.pages)
	offset, topics := p.directory, uint64(0)
	for i := range rows {
		r := b[i*pageRowSize:]
		row := pageRow{topic.ID(le.Uint32(r)), le.Uint32(r[4:]), le.Uint64(r[8:]), le.Uint32(r[16:]), le.Uint32(r[20:])}
		at := int64(i * pageRowSize)
		switch {
		case row.offset != offset || uint64(row.size) > p.size-(offset-p.directory):
			return nil, &fault{at, "a directory's page is not where its table says"}
		case i > 0 && row.first <= rows[i-1].first, row.entries == 0:
			return nil, &fault{at, "a directory's pages are not in order"}
		}
		offset += uint64(row.size)
		topics += uint64(row.entries)
		rows[i] = row
	}
	if offset != p.directory+p.size || topics != uint64(p.topics) {
		return nil, &fault{0, "a directory's pages do not add up"}
	}
	return rows, nil
}

// pageOf is the index of the page that would hold a topic; -1: none.
func pageOf(rows []pageRow, id topic.ID) int {
	return sort.Search(len(rows), func(i int) bool { return rows[i].first > id }) - 1
}

// entry is a topic of a directory.
type entry struct {
	topic           topic.ID
	section         int
	messages, bytes uint64
	last            uint64 // seq
	runs            []byte // encoded, for runsOf; validated
	runCount        int
}

// entries walks the entries of a page whose checksum was verified, checking each.
//
// Invariant: rest begins with an entry or is empty.
type entries struct {
	part    *partition
	rest    []byte
	topic   topic.ID
	started bool
	fault   *fault
	size    int
}

func newEntries(page []byte, row *pageRow, p *partition) *entries {
	return &entries{part: p, rest: page, topic: row.first, size: len(page)}
}

// next returns the next entry, or false at the end or at a fault.
func (e *entries) next() (entry, bool) {
	if len(e.rest) == 0 || e.fault != nil {
		return entry{}, false
	}
	at := int64(e.size - len(e.rest))
	var x entry
	delta, sec, lastDelta, runs := e.varint(), e.varint(), uint64(0), uint64(0)
	x.messages, x.bytes, lastDelta, runs = e.varint(), e.varint(), e.varint(), e.varint()
	id := uint64(e.topic) + delta
	switch {
	case e.fault != nil:
	case e.started == (delta == 0) || id > uint64(e.part.maxTopic):
		e.fail(at, "a directory's topics are not in order")
	case sec >= uint64(len(e.part.sections)):
		e.fail(at, "a directory names a section that is not there")
	case x.messages == 0 || runs == 0 || runs > uint64(len(e.rest)):
		e.fail(at, "a directory's counts contradict each other")
	case lastDelta > e.part.sections[sec].last-e.part.sections[sec].first:
		e.fail(at, "a directory names a seq beyond its section")
	default:
		x.runCount = int(runs)
		x.runs = e.skipRuns(x.runCount, uint64(e.part.sections[sec].blocks))
	}
	if e.fault != nil {
		if e.fault.at < 0 {
			e.fault.at = at
		}
		return entry{}, false
	}
	e.topic, e.started = topic.ID(id), true
	x.topic, x.section, x.last = e.topic, int(sec), e.part.sections[sec].first+lastDelta
	return x, true
}

func (e *entries) fail(at int64, rule string) { e.fault = &fault{at, rule} }

func (e *entries) varint() uint64 {
	v, n := binary.Uvarint(e.rest)
	if n <= 0 {
		if e.fault == nil {
			e.fail(-1, "a directory's entry is cut")
		}
		return 0
	}
	e.rest = e.rest[n:]
	return v
}

// skipRuns returns the bytes of the runs after checking that they stay below the number of blocks.
func (e *entries) skipRuns(count int, blocks uint64) []byte {
	start, next := e.rest, uint64(0)
	for range count {
		word := e.varint()
		length := uint64(1)
		if word&1 != 0 {
			length = e.varint() + 2
		}
		if e.fault != nil || word>>1 >= blocks || length > blocks || next+word>>1+length > blocks {
			if e.fault == nil {
				e.fail(-1, "a directory names a block that is not there")
			}
			return nil
		}
		next += word>>1 + length
	}
	return start[:len(start)-len(e.rest)]
}

// eachRun calls fn with the first and the last block of each run.
func (x *entry) eachRun(fn func(first, last uint32)) {
	b, next := x.runs, uint32(0)
	for range x.runCount {
		word, n := binary.Uvarint(b)
		b = b[n:]
		length := uint32(1)
		if word&1 != 0 {
			more, n := binary.Uvarint(b)
			b = b[n:]
			length = uint32(more) + 2
		}
		first := next + uint32(word>>1)
		next = first + length
		fn(first, next-1)
	}
}
