package subtree

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sort"
	"sync"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// file is one file of history. It is opened when somebody reads it and closed when nobody has for a while.
type file struct {
	s    *Store
	name string
	meta Meta

	// opening guards the first open; handle and foot are read without it by whoever holds a reference.
	opening sync.Mutex
	handle  vfs.File
	foot    *footer

	// Guarded by s.mu. While refs > 0 the file is not in the idle list, its handle stays open and the file on disk.
	refs    int
	idle    *list.Element // nil: not in the list
	retired bool          // no longer in the manifest; in s.mu.gone when refs is 0
}

func newFile(s *Store, m Meta) *file { return &file{s: s, name: m.Name(), meta: m} }

func (f *file) path() string { return filepath.Join(f.s.dir, f.name) }

func (f *file) corrupt(op string, at int64, rule string, err error) *CorruptError {
	return &CorruptError{Op: op, File: f.name, Offset: at, Rule: rule, Err: err, of: f}
}

// checkPresence looks for the file and its size.
func (f *file) checkPresence() *CorruptError {
	h, err := f.s.fs.Open(f.path())
	if err != nil {
		return f.corrupt("open", 0, "the file cannot be opened", err)
	}
	defer h.Close()
	return f.checkSize(h)
}

func (f *file) checkSize(h vfs.File) *CorruptError {
	size, err := h.Size()
	if err != nil {
		return f.corrupt("open", 0, "the file's size cannot be read", err)
	}
	if size != f.meta.Size {
		return f.corrupt("open", min(size, f.meta.Size), fmt.Sprintf("the file has %d bytes, the manifest says %d", size, f.meta.Size), nil)
	}
	return nil
}

// open makes handle and foot valid. The caller holds a reference.
func (f *file) open() error {
	f.opening.Lock()
	defer f.opening.Unlock()
	if f.handle != nil {
		return nil
	}
	h, err := f.s.fs.Open(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return f.corrupt("open", 0, "the file is missing", err)
	}
	if err != nil {
		return fmt.Errorf("subtree: open %s: %w", f.name, err)
	}
	foot, cerr := f.readFooter(h)
	if cerr != nil {
		_ = h.Close()
		return cerr
	}
	f.handle, f.foot = h, foot
	return nil
}

// readFooter checks header, tail and footer, and that they are those the manifest means.
func (f *file) readFooter(h vfs.File) (*footer, *CorruptError) {
	if err := f.checkSize(h); err != nil {
		return nil, err
	}
	if err := f.checkHeader("open", h); err != nil {
		return nil, err
	}
	tailAt := f.meta.Size - tailSize
	b, err := f.read(h, tailAt, tailSize)
	if err != nil {
		return nil, err
	}
	t, fault := decodeTail(b, f.meta.Size)
	if fault != nil {
		return nil, f.corrupt("open", tailAt+fault.at, fault.rule, nil)
	}
	if t.footerCRC != f.meta.FooterCRC {
		return nil, f.corrupt("open", tailAt+16, "the footer is another than the manifest names", nil)
	}
	if b, err = f.read(h, int64(t.offset), int(t.size)); err != nil {
		return nil, err
	}
	if checksum(b) != t.footerCRC {
		return nil, f.corrupt("open", int64(t.offset), "wrong checksum of the footer", nil)
	}
	foot, fault := decodeFooter(b, &f.meta, t.offset)
	if fault != nil {
		return nil, f.corrupt("open", int64(t.offset)+fault.at, fault.rule, nil)
	}
	if foot.bytes != f.meta.Bytes || foot.maxTopic != f.meta.MaxTopic || foot.firstTime != f.meta.FirstTime || foot.lastTime != f.meta.LastTime {
		return nil, f.corrupt("open", int64(t.offset), "the footer's figures are not the manifest's", nil)
	}
	return foot, nil
}

// checkHeader checks a header, and that it is the one that is meant.
func (f *file) checkHeader(op string, h vfs.File) *CorruptError {
	b, err := f.read(h, 0, headerSize)
	if err != nil {
		err.Op = op
		return err
	}
	m, fault := decodeHeader(b)
	if fault != nil {
		return f.corrupt(op, fault.at, fault.rule, nil)
	}
	if m.Kind != f.meta.Kind || m.Number != f.meta.Number || m.FirstWindow != f.meta.FirstWindow || m.LastWindow != f.meta.LastWindow ||
		m.FirstSeq != f.meta.FirstSeq || m.LastSeq != f.meta.LastSeq {
		return f.corrupt(op, 12, "the header names another file than the manifest", nil)
	}
	return nil
}

// read reads exactly size bytes.
func (f *file) read(h vfs.File, at int64, size int) ([]byte, *CorruptError) {
	b := make([]byte, size)
	return b, f.readInto(h, b, at)
}

func (f *file) readInto(h vfs.File, b []byte, at int64) *CorruptError {
	n, err := h.ReadAt(b, at)
	switch {
	case n == len(b):
		return nil
	case errors.Is(err, io.EOF):
		return f.corrupt("read", at+int64(n), "the file ends early", nil)
	}
	return f.corrupt("read", at+int64(n), "the file cannot be read", err)
}

// closeHandle closes the file; s.mu is held, or nobody else knows the file.
func (f *file) closeHandle() error {
	if f.handle == nil {
		return nil
	}
	err := f.handle.Close()
	f.handle, f.foot = nil, nil
	return err
}

// acquireAt returns the file that holds a seq, open and with a reference that release gives back; nil if there is none.
func (s *Store) acquireAt(seq uint64) (*file, error) {
	for {
		s.mu.Lock()
		files := s.mu.files
		i := sort.Search(len(files), func(i int) bool { return files[i].meta.LastSeq >= seq })
		if i == len(files) || files[i].meta.FirstSeq > seq {
			s.mu.Unlock()
			return nil, nil
		}
		f, err := s.acquireLocked(files[i])
		if f != nil || err != nil {
			return f, err
		}
	}
}

// acquire takes a reference on a file if it is in the manifest still; nil if not.
func (s *Store) acquire(f *file) (*file, error) {
	s.mu.Lock()
	if f.retired {
		s.mu.Unlock()
		return nil, nil
	}
	return s.acquireLocked(f)
}

// hasLeft tells whether a file is no longer in the manifest.
func (s *Store) hasLeft(f *file) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return f.retired
}

// acquireLocked unlocks mu. It returns nil if the file cannot be opened because it has left the manifest meanwhile.
func (s *Store) acquireLocked(f *file) (*file, error) {
	if s.mu.closed {
		s.mu.Unlock()
		return nil, fmt.Errorf("subtree: read: %w", ErrClosed)
	}
	f.refs++
	s.unidle(f)
	s.mu.Unlock()
	if err := f.open(); err != nil {
		left := s.hasLeft(f)
		s.release(f)
		if left {
			return nil, nil
		}
		return nil, s.noteDamage(err)
	}
	return f, nil
}

// release gives a reference back. The last one of a file that has left removes it from the disk: publishing and incoming
// must not be held.
func (s *Store) release(f *file) {
	s.unref(f)
	s.removeGone()
}

// unref is release for one who calls removeGone later.
func (s *Store) unref(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.refs--
	if f.refs > 0 {
		return
	}
	if f.retired {
		s.bury(f)
		return
	}
	if f.handle != nil {
		f.idle = s.mu.idle.PushBack(f)
	}
	for s.mu.idle.Len() > s.o.OpenFiles {
		oldest := s.mu.idle.Front().Value.(*file)
		s.unidle(oldest)
		_ = oldest.closeHandle()
	}
}

// unidle takes a file out of the idle list, if it is in; mu is held.
func (s *Store) unidle(f *file) {
	if f.idle != nil {
		s.mu.idle.Remove(f.idle)
		f.idle = nil
	}
}
