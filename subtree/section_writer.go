package subtree

// sectionWriter cuts the records of one section into blocks.
//
// Invariant: raw holds the count records of the open block, which will be number len(rows) of the section.
type sectionWriter struct {
	raw         []byte
	count       uint32
	first, last uint64 // seqs of raw
	rows        []blockRow
	messages    uint64
	bytes       uint64
}

func (s *sectionWriter) reset() {
	*s = sectionWriter{raw: s.raw[:0], rows: s.rows[:0]}
}

// fits tells whether a record of a size goes into the open block.
func (s *sectionWriter) fits(size int) bool { return s.count == 0 || len(s.raw)+size <= blockBytes }

func (s *sectionWriter) add(rec []byte, seq uint64) {
	if s.count == 0 {
		s.first = seq
	}
	s.raw = append(s.raw, rec...)
	s.count++
	s.last = seq
	s.messages++
	s.bytes += uint64(len(rec))
}

// cut ends the open block: it notes its row, without offset, and returns its stored form. drop follows when that was used.
func (s *sectionWriter) cut(codec *blockCodec) (stored []byte) {
	stored = codec.encode(s.raw)
	s.rows = append(s.rows, blockRow{
		stored: uint32(len(stored)), raw: uint32(len(s.raw)), count: s.count, crc: checksum(stored), first: s.first, last: s.last,
	})
	s.count = 0
	return stored
}

// drop forgets the bytes of a block that was cut; memory for a large record is not kept.
func (s *sectionWriter) drop() {
	if cap(s.raw) > 2*blockBytes {
		s.raw = nil
	}
	s.raw = s.raw[:0]
}

// row is the finished section's, without its places in the file.
func (s *sectionWriter) row(store uint32) section {
	return section{
		store: store, blocks: uint32(len(s.rows)), messages: s.messages, bytes: s.bytes,
		first: s.rows[0].first, last: s.rows[len(s.rows)-1].last,
	}
}
