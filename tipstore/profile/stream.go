package profile

import "math/rand/v2"

// stream draws the partitions of messages, one after the other. Equal arguments give equal streams.
type stream struct {
	interleave Interleave
	partitions int
	random     *rand.Rand
	at         int
	current    int
}

func newStream(i Interleave, partitions int) *stream {
	return &stream{interleave: i, partitions: partitions, random: rand.New(rand.NewPCG(1, uint64(partitions)))}
}

// next is the partition of the next message.
func (s *stream) next() int {
	switch s.interleave.kind {
	case random:
		s.current = s.random.IntN(s.partitions)
	case roundRobin:
		s.current = s.at % s.partitions
	case runs:
		if s.at%s.interleave.length == 0 {
			s.current = s.random.IntN(s.partitions)
		}
	}
	s.at++
	return s.current
}

// skip passes n messages.
func (s *stream) skip(n int) {
	for range n {
		s.next()
	}
}
