package tipstore

import "fmt"

// Begin lets the tip go on behind seq next-1: the first message will have seq next or, after a hole, a greater one. What is before
// it counts as published and is not in the tip; nothing appended so far may have that seq or a greater one. Writer only.
func (s *Store) Begin(next uint64) {
	next = max(next, 1)
	if next < s.ring.nextSeq {
		panic(fmt.Sprintf("tipstore: begin: seq %d comes after seq %d", next, s.ring.nextSeq-1))
	}
	if s.ring.live > 0 {
		s.ring.skip(next, s.retired)
	}
	s.ring.nextSeq = next
	s.ring.tail.store(next, s.ring.head)
	s.fence.store(next-1, s.ring.head)
}

// ChunkBytes is the size of a chunk, which no appended run may exceed.
func (s *Store) ChunkBytes() int { return s.ring.chunkBytes() }
