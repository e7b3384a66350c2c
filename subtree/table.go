package subtree

// A section's block table: pages of tablePage rows (the last one may be shorter), each page followed by its CRC-32C. Row i
// is in page i/tablePage, so that any row is found without reading others. A row:
//
//	 0 u64 offset    of the block
//	 8 u32 stored    size on disk
//	12 u32 raw       size of its records
//	16 u32 count     of records, at least 1
//	20 u32 crc       CRC-32C of the stored bytes
//	24 u64 first seq
//	32 u64 last seq
const (
	tablePage     = 64
	blockRowSize  = 40
	tablePageSize = tablePage*blockRowSize + 4
)

type blockRow struct {
	offset             uint64
	stored, raw, count uint32
	crc                uint32
	first, last        uint64
}

func (r *blockRow) append(b []byte) []byte {
	b = le.AppendUint64(b, r.offset)
	b = le.AppendUint32(b, r.stored)
	b = le.AppendUint32(b, r.raw)
	b = le.AppendUint32(b, r.count)
	b = le.AppendUint32(b, r.crc)
	b = le.AppendUint64(b, r.first)
	return le.AppendUint64(b, r.last)
}

// appendTable adds the table of a section.
func appendTable(b []byte, rows []blockRow) []byte {
	for len(rows) > 0 {
		n, start := min(tablePage, len(rows)), len(b)
		for i := range rows[:n] {
			b = rows[i].append(b)
		}
		b = le.AppendUint32(b, checksum(b[start:]))
		rows = rows[n:]
	}
	return b
}

// tableSize is the size of the table of that many blocks.
func tableSize(blocks uint32) uint64 {
	return uint64(blocks)*blockRowSize + (uint64(blocks)+tablePage-1)/tablePage*4
}

// tablePageAt is where a page of a section's table stands, and how many rows it has.
func (s *section) tablePageAt(page uint32) (offset uint64, rows int) {
	return s.table + uint64(page)*tablePageSize, int(min(tablePage, s.blocks-page*tablePage))
}

// decodeTablePage checks a page of a section's table.
func decodeTablePage(b []byte, sec *section) ([]blockRow, *fault) {
	n := (len(b) - 4) / blockRowSize
	if n < 1 || len(b) != n*blockRowSize+4 {
		return nil, &fault{0, "a block table's page has a wrong size"}
	}
	if end := len(b) - 4; le.Uint32(b[end:]) != checksum(b[:end]) {
		return nil, &fault{int64(end), "wrong checksum of a block table's page"}
	}
	rows := make([]blockRow, n)
	for i := range rows {
		r := b[i*blockRowSize:]
		rows[i] = blockRow{
			offset: le.Uint64(r), stored: le.Uint32(r[8:]), raw: le.Uint32(r[12:]), count: le.Uint32(r[16:]),
			crc: le.Uint32(r[20:]), first: le.Uint64(r[24:]), last: le.Uint64(r[32:]),
		}
		if rule := rows[i].validate(sec); rule != "" {
			return nil, &fault{int64(i * blockRowSize), rule}
		}
		if i > 0 && (rows[i].first <= rows[i-1].last || rows[i].offset != rows[i-1].offset+uint64(rows[i-1].stored)) {
			return nil, &fault{int64(i * blockRowSize), "a block does not follow on the one before"}
		}
	}
	return rows, nil
}

func (r *blockRow) validate(sec *section) string {
	switch {
	case r.count == 0 || r.raw == 0 || r.stored == 0:
		return "an empty block"
	case r.raw > maxRawBlock || r.stored > r.raw:
		return "a block's size is over the limit"
	case r.first > r.last || r.first < sec.first || r.last > sec.last:
		return "a block's seqs are not its section's"
	case r.offset < sec.data || r.offset-sec.data > sec.dataSize || uint64(r.stored) > sec.dataSize-(r.offset-sec.data):
		return "a block lies outside its section"
	}
	return ""
}
