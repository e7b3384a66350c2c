package subtree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// heldAhead is how far ahead of a Held's reads the system is asked to read.
const heldAhead = 1 << 20

// Held is a whole file of history, for sending it on. It stays readable until Close, though it may leave the manifest. It
// implements io.ReadSeekCloser and io.ReaderAt; ReadAt may be called by several goroutines, everything else by one.
type Held struct {
	s      *Store
	f      *file // with a reference
	h      vfs.File
	next   int64 // of Read
	ahead  int64 // the system was asked to read up to here
	closed bool
}

// OpenSum opens the file with a SHA-256. errors.Is(err, fs.ErrNotExist) if the manifest names none; a *CorruptError if the
// file is known to be damaged, or turns out to be at its opening. The bytes are not checked as they are read.
func (s *Store) OpenSum(sum [32]byte) (*Held, error) {
	for {
		s.mu.Lock()
		i := slices.IndexFunc(s.mu.files, func(f *file) bool { return f.meta.SHA256 == sum })
		if i < 0 {
			s.mu.Unlock()
			return nil, fmt.Errorf("subtree: no file of history has SHA-256 %x: %w", sum, fs.ErrNotExist)
		}
		f := s.mu.files[i]
		if e := s.mu.damaged[f.name]; e != nil {
			s.mu.Unlock()
			return nil, e
		}
		f, err := s.acquireLocked(f)
		if err != nil {
			return nil, err
		}
		if f != nil {
			return &Held{s: s, f: f, h: f.handle}, nil
		}
	}
}

// Meta is what the manifest says, or said, of the file.
func (h *Held) Meta() Meta { return h.f.meta }

// Size is the file's length in bytes.
func (h *Held) Size() int64 { return h.f.meta.Size }

// Read reads on from the last Read or Seek.
func (h *Held) Read(b []byte) (int, error) {
	if h.next+heldAhead/2 > h.ahead {
		from := max(h.next, h.ahead)
		h.h.Prefetch(from, heldAhead)
		h.ahead = from + heldAhead
	}
	n, err := h.h.ReadAt(b, h.next)
	h.next += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// ReadAt implements io.ReaderAt.
func (h *Held) ReadAt(b []byte, at int64) (int, error) { return h.h.ReadAt(b, at) }

// Seek implements io.Seeker.
func (h *Held) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += h.next
	case io.SeekEnd:
		offset += h.Size()
	}
	if offset < 0 {
		return h.next, fmt.Errorf("subtree: seek in %s: offset %d", h.f.name, offset)
	}
	h.next, h.ahead = offset, offset
	return offset, nil
}

// Close lets the file go. It may be called again. A Held must be closed before its Store.
func (h *Held) Close() error {
	if !h.closed {
		h.closed = true
		h.s.release(h.f)
	}
	return nil
}
