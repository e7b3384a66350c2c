package tipstore

import (
	"errors"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

// Store is the tip: ring, index, fence, watches.
//
// One goroutine, the writer, calls Append and Publish. All other methods may be called by any goroutine at any time
// between Open and Close, and neither wait for the writer nor make it wait; only SetFloor, if it is used, holds it back.
type Store struct {
	table *topic.Table
	ring  ring
	lists lists
	index bool
	merge bool // merge whatever it costs: for measurements and tests; not while a cursor reads

	// fence is the last visible seq and the position after it. Invariant: all records below the position, and their
	// postings, were written before it was stored.
	fence pair

	cleaner cleaner
	watches watches

	indexReads, linearReads, fallen, copied atomic.Uint64
}

// Open makes an empty tip for the topics of t. Memory is taken as the stream grows.
func Open(o Options, t *topic.Table) (*Store, error) {
	chunks, err := o.normalise()
	if err != nil {
		return nil, err
	}
	s := &Store{table: t, index: !o.IndexOff}
	s.ring.open(chunks, o)
	s.lists.open(s.ring.mem.heap)
	s.watches.open(t)
	return s, nil
}

// Close gives the memory back. No Cursor, View or Watch may be used any more.
func (s *Store) Close() error {
	return errors.Join(s.ring.mem.release(), s.lists.pool.mem.release())
}

// Append copies a validated run of records into the ring, in one piece, and stamps topic id, seq (firstSeq, firstSeq+1,
// ...) and time (unix nanoseconds, never less than before) on each. Topic numbers with record.NewTopic set are indexes into
// newTopics. Readers see the records after Publish. Returns the records as they stand in the ring, valid until the next
// call.
//
// If firstSeq is above the seq that would follow, the stream has a hole: what is before it leaves the ring. Append waits only
// where SetFloor says so.
func (s *Store) Append(run []byte, count int, newTopics []topic.ID, firstSeq uint64, time int64) []byte {
	if count == 0 {
		return nil
	}
	s.cleaner.step(s, len(run))
	chunk, off := s.ring.reserve(len(run), firstSeq, time, s.retired)
	stored := chunk.mem[off : int(off)+len(run) : int(off)+len(run)]
	copy(stored, run)
	w := stamper{s: s, chunk: chunk, newTopics: newTopics, time: time}
	w.stamp(stored, off, firstSeq)
	chunk.end.Store(off + uint32(len(run)))
	s.ring.head += uint64(len(run))
	s.ring.nextSeq = firstSeq + uint64(count)
	if invariants {
		s.mustHold()
	}
	return stored
}

// Publish moves the fence to the last seq appended: it is visible, and watches whose filters match are woken.
func (s *Store) Publish() {
	seq, pos := s.fence.load()
	if s.ring.nextSeq == 0 || s.ring.nextSeq-1 == seq {
		return
	}
	s.fence.store(s.ring.nextSeq-1, s.ring.head)
	s.watches.published(s, pos)
}
