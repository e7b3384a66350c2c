package tipstore

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// stamper gives the records of one run their topic, seq and time, and notes them in the index.
type stamper struct {
	s         *Store
	chunk     *chunk
	newTopics []topic.ID
	time      int64
}

// stamp works on the run as it stands in the chunk at off.
func (w *stamper) stamp(run []byte, off uint32, seq uint64) {
	table, index := w.s.table, w.s.index
	number := w.s.ring.last
	for len(run) > 0 {
		id := record.Record(run).Topic()
		if id&record.NewTopic != 0 {
			id = uint32(w.newTopics[id&^record.NewTopic])
		}
		record.Stamp(run, id, seq, w.time)
		w.chunk.addMark(off, seq, w.time)
		if index {
			part := table.Partition(topic.ID(id))
			if part == topic.NoPartition {
				panic(fmt.Sprintf("tipstore: append: node %d (%q) was published to but is no topic", id, table.Name(topic.ID(id))))
			}
			w.s.lists.add(part, unitOf(number<<w.s.ring.shift+uint64(off)), w.chunk, uint32(number))
		}
		size := record.Scan(run)
		run = run[size:]
		off += uint32(size)
		seq++
	}
}

// cleanPerAppend is the least number of partitions that an Append cleans while a retired chunk's postings remain.
const cleanPerAppend = 64

// cleaner frees the blocks of retired chunks, a few partitions with each Append, so that a retirement with a million
// partitions does not hold the writer up.
//
// Invariant: todo are the partitions that had records in the last retired chunk and were not cleaned since; no earlier
// retired chunk has any.
type cleaner struct {
	todo []uint32
	at   int
	tail uint64 // unit below which postings go
}

// retired takes over the postings of a chunk that left the ring. Those of the chunk before are finished first.
func (s *Store) retired(c *chunk) {
	s.cleaner.run(s, len(s.cleaner.todo))
	_, tail := s.ring.tail.load()
	s.cleaner.todo, c.touched = c.touched, s.cleaner.todo[:0]
	s.cleaner.at, s.cleaner.tail = 0, unitOf(tail)
}

// step does the share of the work that appending n bytes must do so that all is done before the next chunk retires.
func (k *cleaner) step(s *Store, n int) {
	if k.at == len(k.todo) {
		return
	}
	share := 2 * len(k.todo) * n / s.ring.chunkBytes()
	k.run(s, cleanPerAppend+share)
}

func (k *cleaner) run(s *Store, n int) {
	end := min(k.at+n, len(k.todo))
	for ; k.at < end; k.at++ {
		s.lists.drop(topic.PartitionID(k.todo[k.at]), k.tail)
	}
}
