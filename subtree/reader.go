package subtree

import (
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

// ReadStats count what a reader has read.
type ReadStats struct {
	Messages      uint64 // returned
	Bytes         uint64 // of the records returned, with padding
	StoredBytes   uint64 // read from files: blocks, block tables and directories; what the cache had is not counted
	DecodedBytes  uint64 // of blocks after decompression
	Blocks        uint64 // decoded, one that was decoded twice counted twice
	BlocksSkipped uint64 // in sections that were read: passed over because no topic in them matches
	Files         uint64 // entered
}

// add adds what was counted between before and after.
func (s *ReadStats) add(after, before *ReadStats) {
	s.Messages += after.Messages - before.Messages
	s.Bytes += after.Bytes - before.Bytes
	s.StoredBytes += after.StoredBytes - before.StoredBytes
	s.DecodedBytes += after.DecodedBytes - before.DecodedBytes
	s.Blocks += after.Blocks - before.Blocks
	s.BlocksSkipped += after.BlocksSkipped - before.BlocksSkipped
	s.Files += after.Files - before.Files
}

// reader reads the parts of files for one goroutine and counts. The file that is given to its methods is open and held.
type reader struct {
	op    string
	cache *cache
	total *readCounts // nil: not a reader's read
	stats ReadStats
	buf   []byte // stored bytes
}

// readCounts sum up what all readers of a Store have read.
type readCounts struct{ stored, decoded atomic.Uint64 }

// ReadStats are the bytes that readers made the Store read from its files since Open, and those of the records decompressed
// from them. Sealing, rewriting, scrubbing and Held files do not count.
func (s *Store) ReadStats() (diskBytes, recordBytes uint64) {
	return s.read.stored.Load(), s.read.decoded.Load()
}

// count notes bytes that were read, and decoded.
func (r *reader) count(stored, decoded uint64) {
	r.stats.StoredBytes += stored
	r.stats.DecodedBytes += decoded
	if r.total != nil {
		r.total.stored.Add(stored)
		r.total.decoded.Add(decoded)
	}
}

func (r *reader) corrupt(f *file, at uint64, fault *fault) *CorruptError {
	return f.corrupt(r.op, int64(at)+fault.at, fault.rule, nil)
}

// bytes reads into memory of its own.
func (r *reader) bytes(f *file, at uint64, size int) ([]byte, error) {
	b, err := f.read(f.handle, int64(at), size)
	if err != nil {
		return nil, err
	}
	r.count(uint64(size), 0)
	return b, nil
}

// row returns a row of a section's block table.
func (r *reader) row(f *file, sec *section, block uint32) (*blockRow, error) {
	rows, err := r.rows(f, sec, block/tablePage)
	if err != nil {
		return nil, err
	}
	return &rows[block%tablePage], nil
}

func (r *reader) rows(f *file, sec *section, page uint32) ([]blockRow, error) {
	at, n := sec.tablePageAt(page)
	if x, ok := r.cache.get(f, at); ok {
		return x.([]blockRow), nil
	}
	rows, err := r.readRows(f, sec, page)
	if err == nil {
		r.cache.put(f, at, rows, n*blockRowSize+4)
	}
	return rows, err
}

// readRows is rows without the cache.
func (r *reader) readRows(f *file, sec *section, page uint32) ([]blockRow, error) {
	at, n := sec.tablePageAt(page)
	b, err := r.bytes(f, at, n*blockRowSize+4)
	if err != nil {
		return nil, err
	}
	rows, fault := decodeTablePage(b, sec)
	if fault != nil {
		return nil, r.corrupt(f, at, fault)
	}
	return rows, nil
}

// seek is the first block of a section that ends at seq or later; the count of blocks if there is none.
func (r *reader) seek(f *file, sec *section, seq uint64) (uint32, error) {
	low, high := uint32(0), sec.blocks // blocks below low end before seq, those from high on do not
	for low < high {
		middle := low + (high-low)/2
		row, err := r.row(f, sec, middle)
		if err != nil {
			return 0, err
		}
		if row.last < seq {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// block decodes a block into raw, which grows if it must and is returned, and checks its records. again says that they were
// checked before: the checksum is enough then.
func (r *reader) block(f *file, row *blockRow, raw []byte, again bool) ([]byte, error) {
	if cap(r.buf) < int(row.stored) {
		r.buf = make([]byte, max(int(row.stored), blockBytes))
	}
	stored := r.buf[:row.stored]
	if err := f.readInto(f.handle, stored, int64(row.offset)); err != nil {
		err.Op = r.op
		return raw, err
	}
	if cap(raw) < int(row.raw) {
		raw = make([]byte, row.raw)
	}
	raw = raw[:row.raw]
	r.stats.Blocks++
	r.count(uint64(row.stored), uint64(row.raw))
	fault := decodeBlock(raw, stored, row)
	if fault == nil && !again {
		fault = checkRecords(raw, row, f.foot.maxTopic)
	}
	if fault != nil {
		return raw[:0], r.corrupt(f, row.offset, fault)
	}
	if cap(r.buf) > 2*blockBytes {
		r.buf = nil
	}
	return raw, nil
}

// directory is what is in memory of a partition's directory: its page table, and all pages if it is small.
type directory struct {
	rows  []pageRow
	pages []byte // nil: read page by page
}

func (r *reader) directory(f *file, p *partition) (*directory, error) {
	if x, ok := r.cache.get(f, p.directory); ok {
		return x.(*directory), nil
	}
	tableAt, tableSize := p.directory+p.size, int(p.pages)*pageRowSize
	at, size := tableAt, tableSize
	if p.size <= wholeDirectory {
		at, size = p.directory, size+int(p.size)
	}
	b, err := r.bytes(f, at, size)
	if err != nil {
		return nil, err
	}
	d := &directory{}
	if at == p.directory {
		d.pages, b = b[:p.size], b[p.size:]
	}
	rows, fault := decodePageTable(b, p)
	if fault != nil {
		return nil, r.corrupt(f, tableAt, fault)
	}
	d.rows = rows
	for i := range rows {
		if d.pages == nil {
			break
		}
		if row := &rows[i]; checksum(d.pages[row.offset-p.directory:][:row.size]) != row.crc {
			return nil, r.corrupt(f, row.offset, &pageFault)
		}
	}
	r.cache.put(f, p.directory, d, size)
	return d, nil
}

var pageFault = fault{0, "wrong checksum of a directory's page"}

// page returns a page of a directory.
func (r *reader) page(f *file, p *partition, d *directory, i int) ([]byte, error) {
	row := &d.rows[i]
	if d.pages != nil {
		return d.pages[row.offset-p.directory:][:row.size], nil
	}
	// A page's key is its table row: the directory's own key is where its first page begins.
	key := p.directory + p.size + uint64(i)*pageRowSize
	if x, ok := r.cache.get(f, key); ok {
		return x.([]byte), nil
	}
	b, err := r.bytes(f, row.offset, int(row.size))
	if err != nil {
		return nil, err
	}
	if checksum(b) != row.crc {
		return nil, r.corrupt(f, row.offset, &pageFault)
	}
	r.cache.put(f, key, b, len(b))
	return b, nil
}

// eachTopic calls fn with the entries of a partition in order of their topics, until it says false.
func (r *reader) eachTopic(f *file, p *partition, fn func(entry) bool) error {
	d, err := r.directory(f, p)
	if err != nil {
		return err
	}
	for i := range d.rows {
		more, err := r.eachInPage(f, p, d, i, fn)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func (r *reader) eachInPage(f *file, p *partition, d *directory, i int, fn func(entry) bool) (more bool, err error) {
	page, err := r.page(f, p, d, i)
	if err != nil {
		return false, err
	}
	row := &d.rows[i]
	es, n := newEntries(page, row, p), uint32(0)
	for e, ok := es.next(); ok; e, ok = es.next() {
		if !fn(e) {
			return false, nil
		}
		n++
	}
	if es.fault == nil && n != row.entries {
		es.fail(0, "a directory's page has another number of topics than its table says")
	}
	if es.fault != nil {
		return false, r.corrupt(f, row.offset, es.fault)
	}
	return true, nil
}

// eachOf calls fn with the entries of those of the ascending ids that the partition holds.
func (r *reader) eachOf(f *file, p *partition, ids []topic.ID, fn func(entry)) error {
	d, err := r.directory(f, p)
	if err != nil {
		return err
	}
	for len(ids) > 0 {
		i := pageOf(d.rows, ids[0])
		if i < 0 {
			ids = ids[1:]
			continue
		}
		here := 1
		for here < len(ids) && (i+1 == len(d.rows) || ids[here] < d.rows[i+1].first) {
			here++
		}
		wanted := ids[:here]
		ids = ids[here:]
		_, err := r.eachInPage(f, p, d, i, func(e entry) bool {
			for len(wanted) > 0 && wanted[0] < e.topic {
				wanted = wanted[1:]
			}
			if len(wanted) > 0 && wanted[0] == e.topic {
				fn(e)
			}
			return len(wanted) > 0
		})
		if err != nil {
			return err
		}
	}
	return nil
}
