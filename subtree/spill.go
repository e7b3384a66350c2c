package subtree

import (
	"github.com/cantus-bus/cantus/internal/vfs"
)

// spillMemory bounds the compressed blocks that wait in memory for their turn in the file.
const spillMemory = 8 << 20

// spill keeps the finished blocks of a partition with several stores until all of its messages were seen, because the
// stores' blocks alternate as they come and stand one store after the other in the file. What does not fit into memory
// goes to a temporary file, which needs no sync: a crash throws it away.
//
// Invariant: the block at a position below size is in the file, one above in mem, none in both.
type spill struct {
	fs    vfs.FS
	path  string
	limit int
	f     vfs.File
	size  uint64 // of the file
	mem   []byte
	out   []byte
}

// put keeps a block and returns its position.
func (s *spill) put(b []byte) (uint64, error) {
	if len(s.mem)+len(b) > s.limit && len(s.mem) > 0 {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	at := s.size + uint64(len(s.mem))
	s.mem = append(s.mem, b...)
	return at, nil
}

func (s *spill) flush() error {
	if s.f == nil {
		f, err := s.fs.Create(s.path)
		if err != nil {
			return err
		}
		s.f = f
	}
	if _, err := s.f.Write(s.mem); err != nil {
		return err
	}
	s.size += uint64(len(s.mem))
	s.mem = s.mem[:0]
	return nil
}

// get returns a block, valid until the next call.
func (s *spill) get(at uint64, size uint32) ([]byte, error) {
	if at >= s.size {
		return s.mem[at-s.size:][:size], nil
	}
	if cap(s.out) < int(size) {
		s.out = make([]byte, max(int(size), blockBytes))
	}
	b := s.out[:size]
	_, err := s.f.ReadAt(b, int64(at))
	return b, err
}

// reset forgets all blocks.
func (s *spill) reset() {
	s.mem = s.mem[:0]
	s.size = 0
	s.close()
}

// close removes the file.
func (s *spill) close() {
	if s.f != nil {
		_ = s.f.Close()
		_ = s.fs.Remove(s.path)
		s.f = nil
	}
}
