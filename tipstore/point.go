package tipstore

import "github.com/cantus-bus/cantus/internal/record"

// At appends to dst the padded record with a seq at or below the newest visible one. *GoneError if it has left the ring. It costs a
// search among the chunks and a walk from the mark before the record.
func (s *Store) At(dst []byte, seq uint64) ([]byte, error) {
	for {
		_, fencePos := s.fence.load()
		if first, _ := s.ring.tail.load(); seq < first {
			return dst, &GoneError{Wanted: seq, Oldest: first}
		}
		pos, ok := s.locate(seq, fencePos)
		if !ok {
			continue // the ring moved on meanwhile
		}
		number := pos >> s.ring.shift
		c := s.ring.pin(number)
		if c == nil {
			continue
		}
		rec := c.mem[pos-number<<s.ring.shift:]
		dst = append(dst, rec[:record.Scan(rec)]...)
		s.ring.unpin(c)
		return dst, nil
	}
}
