package tipstore

// Begin makes an empty tip go on behind seq next-1, which is not in it and counts as published: the first message will have seq next
// or, after a hole, a greater one. Only before the first Append; writer only.
func (s *Store) Begin(next uint64) {
	if s.ring.nextSeq != 0 {
		panic("tipstore: begin: messages were appended before")
	}
	next = max(next, 1)
	s.ring.nextSeq = next
	s.ring.tail.store(next, 0)
	s.fence.store(next-1, 0)
}

// ChunkBytes is the size of a chunk, which no appended run may exceed.
func (s *Store) ChunkBytes() int { return s.ring.chunkBytes() }
