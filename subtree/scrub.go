package subtree

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"sort"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// Scrub reads every byte of every file and checks all checksums and the SHA-256. Damage is no error: it is noted, see
// Damaged, and the next file follows. When l or ctx end it, their error is returned, and the next call goes on with the file
// that was not finished; nil says that the round is complete. l, which may be nil, is asked for the bytes of files. One Scrub
// runs at a time.
func (s *Store) Scrub(ctx context.Context, l Limiter) error {
	s.scrubbing.Lock()
	defer s.scrubbing.Unlock()
	for {
		f, err := s.nextToScrub()
		if f == nil && err == nil {
			s.scrubbed = 0
			return nil
		}
		if err == nil {
			x := scrubber{ctx: ctx, l: l, f: f, hash: sha256.New()}
			x.reader = reader{op: "scrub", cache: s.cache}
			err = x.run()
			if err != nil && s.hasLeft(f) {
				err = nil // replaced or dropped meanwhile: it need not be there
			}
			s.release(f)
		}
		var damage *CorruptError
		if err != nil && !errors.As(s.noteDamage(err), &damage) {
			return err
		}
		if damage != nil {
			s.skipScrub(damage.File)
			continue
		}
		s.scrubbed = f.meta.LastSeq
	}
}

// nextToScrub returns the next file of the round with a reference; nil at the round's end.
func (s *Store) nextToScrub() (*file, error) {
	first, _ := s.Bounds()
	return s.acquireAt(max(s.scrubbed+1, first))
}

// skipScrub goes on after a damaged file.
func (s *Store) skipScrub(name string) {
	files := s.snapshot()
	i := sort.Search(len(files), func(i int) bool { return files[i].meta.LastSeq > s.scrubbed })
	if i < len(files) && files[i].name == name {
		s.scrubbed = files[i].meta.LastSeq
	}
}

// scrubber reads one file from its beginning to its end.
//
// Invariant: hash has seen the bytes below at.
type scrubber struct {
	reader
	ctx    context.Context
	l      Limiter
	f      *file
	handle vfs.File // of what has the file's name now
	at     uint64
	ahead  uint64
	spent  int
	hash   hash.Hash
	mem    []byte
}

// run opens the file anew: readers may have it open, and would not see that its name is gone, or another's. A restart would.
func (x *scrubber) run() error {
	h, err := x.f.s.fs.Open(x.f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return x.f.corrupt(x.op, 0, "the file is missing", err)
	}
	if err != nil {
		return fmt.Errorf("subtree: scrub %s: %w", x.f.name, err)
	}
	defer h.Close()
	if err := x.f.checkSize(h); err != nil {
		return err
	}
	x.handle = h
	return x.all()
}

func (x *scrubber) all() error {
	b, err := x.take(headerSize, x.at)
	if err != nil {
		return err
	}
	if _, fault := decodeHeader(b); fault != nil {
		return x.corrupt(x.f, 0, fault)
	}
	for i := range x.f.foot.partitions {
		if err := x.partition(&x.f.foot.partitions[i]); err != nil {
			return err
		}
	}
	foot, err := x.take(int(uint64(x.f.meta.Size)-tailSize-x.at), x.at)
	if err != nil {
		return err
	}
	if checksum(foot) != x.f.meta.FooterCRC {
		return x.corrupt(x.f, x.at-uint64(len(foot)), &fault{0, "wrong checksum of the footer"})
	}
	if b, err = x.take(tailSize, x.at); err != nil {
		return err
	}
	if _, fault := decodeTail(b, x.f.meta.Size); fault != nil {
		return x.corrupt(x.f, x.at-tailSize, fault)
	}
	if fileSum(x.hash.Sum(nil)) != x.f.meta.SHA256 {
		return x.corrupt(x.f, 0, &fault{0, "the file's SHA-256 is not the manifest's"})
	}
	return x.settle()
}

// take reads the next bytes, which must stand at an offset. They are valid until the next call.
func (x *scrubber) take(size int, at uint64) ([]byte, error) {
	if at != x.at || size < 0 {
		return nil, x.corrupt(x.f, x.at, &fault{0, "the file's parts do not follow on each other"})
	}
	if x.at+uint64(size)+limitEvery > x.ahead {
		x.ahead = max(x.ahead, x.at)
		x.handle.Prefetch(int64(x.ahead), 4*limitEvery)
		x.ahead += 4 * limitEvery
	}
	if cap(x.mem) < size {
		x.mem = make([]byte, max(size, blockBytes))
	}
	b := x.mem[:size]
	if err := x.f.readInto(x.handle, b, int64(at)); err != nil {
		err.Op = x.op
		return nil, err
	}
	x.hash.Write(b)
	x.at += uint64(size)
	return b, x.pause(size)
}

// pause lets the limiter and the context speak now and then.
func (x *scrubber) pause(n int) error {
	if x.spent += n; x.spent < limitEvery {
		return nil
	}
	return x.settle()
}

func (x *scrubber) settle() error {
	n := x.spent
	x.spent = 0
	if err := x.ctx.Err(); err != nil || x.l == nil {
		return err
	}
	return x.l.Wait(x.ctx, n)
}

func (x *scrubber) partition(p *partition) error {
	for i := range p.sections {
		if err := x.blocks(&p.sections[i]); err != nil {
			return err
		}
	}
	for i := range p.sections {
		if err := x.table(&p.sections[i]); err != nil {
			return err
		}
	}
	return x.directory(p)
}

// blocks checks the blocks of a section. Their table, which stands after them, is read for it without the cache: what counts
// is on the disk.
func (x *scrubber) blocks(sec *section) error {
	for page := range (sec.blocks + tablePage - 1) / tablePage {
		at, n := sec.tablePageAt(page)
		b, err := x.bytes(x.f, at, n*blockRowSize+4)
		if err != nil {
			return err
		}
		rows, wrong := decodeTablePage(b, sec)
		if wrong != nil {
			return x.corrupt(x.f, at, wrong)
		}
		for i := range rows {
			b, err := x.take(int(rows[i].stored), rows[i].offset)
			if err != nil {
				return err
			}
			if checksum(b) != rows[i].crc {
				return x.corrupt(x.f, rows[i].offset, &fault{0, "wrong checksum of a block"})
			}
		}
	}
	return nil
}

func (x *scrubber) table(sec *section) error {
	for page := range (sec.blocks + tablePage - 1) / tablePage {
		at, n := sec.tablePageAt(page)
		b, err := x.take(n*blockRowSize+4, at)
		if err != nil {
			return err
		}
		if _, wrong := decodeTablePage(b, sec); wrong != nil {
			return x.corrupt(x.f, at, wrong)
		}
	}
	return nil
}

func (x *scrubber) directory(p *partition) error {
	tableAt, size := p.directory+p.size, int(p.pages)*pageRowSize
	b, err := x.bytes(x.f, tableAt, size)
	if err != nil {
		return err
	}
	rows, wrong := decodePageTable(b, p)
	if wrong != nil {
		return x.corrupt(x.f, tableAt, wrong)
	}
	for i := range rows {
		b, err := x.take(int(rows[i].size), rows[i].offset)
		if err != nil {
			return err
		}
		if checksum(b) != rows[i].crc {
			return x.corrupt(x.f, rows[i].offset, &pageFault)
		}
	}
	b, err = x.take(size, tableAt)
	if err == nil && checksum(b) != p.tableCRC {
		err = x.corrupt(x.f, tableAt, &fault{0, "wrong checksum of a directory's page table"})
	}
	return err
}
