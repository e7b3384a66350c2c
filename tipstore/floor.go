package tipstore

import (
	"math"
	"sync/atomic"
	"time"
)

// NoFloor is the floor of a tip that holds nothing back: chunks are reused whatever they hold.
const NoFloor = uint64(math.MaxUint64)

// floor is how far the stream is kept elsewhere as well. Chunks with messages above it are not reused: the ring takes
// chunks beyond its size, a bounded number, and then the writer waits for the floor.
//
//	oldest                                             newest
//	  | archived | sealed, not archived yet |   open    |
//	         floor                       sealed
//
// The writer never waits for what is open: nobody can archive it before more has been appended.
type floor struct {
	archived atomic.Uint64 // messages above it are held. NoFloor: none are
	sealed   uint64        // messages up to it can be archived now. Writer only
	raised   chan struct{} // capacity 1: archived has changed

	waits, waited atomic.Int64 // of the writer: how often, and nanoseconds in all
}

func (f *floor) open() {
	f.archived.Store(NoFloor)
	f.raised = make(chan struct{}, 1)
}

// await waits until messages up to seq are archived. It is false at once if seq is not sealed, so that waiting is in vain.
func (f *floor) await(seq uint64) bool {
	if f.archived.Load() >= seq {
		return true
	}
	if seq > f.sealed {
		return false
	}
	start := time.Now()
	f.waits.Add(1)
	for f.archived.Load() < seq {
		<-f.raised
	}
	f.waited.Add(int64(time.Since(start)))
	return true
}

// SetFloor says that messages up to seq are archived: only those above stay in the ring whatever its size. Before the first
// call, and with NoFloor, nothing is held back. Any goroutine; it wakes an Append that waits.
func (s *Store) SetFloor(seq uint64) {
	f := &s.ring.floor
	f.archived.Store(seq)
	select {
	case f.raised <- struct{}{}:
	default:
	}
}

// Floor is what SetFloor said last. Any goroutine.
func (s *Store) Floor() uint64 { return s.ring.floor.archived.Load() }

// SetSealed says that messages up to seq, which must be published, can be archived: only for these Append ever waits. Writer
// only.
func (s *Store) SetSealed(seq uint64) { s.ring.floor.sealed = seq }

// makeRoom retires what the ring has too much of, or lets the ring grow beyond its size where messages are held.
func (r *ring) makeRoom(retired func(*chunk)) {
	for r.live >= r.size {
		last := r.lastOfOldest()
		if r.floor.archived.Load() < last && r.live < r.size+r.overflow {
			break
		}
		if !r.floor.await(last) {
			break
		}
		r.moveTail()
		r.retireOldest(retired)
	}
	if slots := *r.slots.Load(); r.live+1 >= len(slots) {
		r.growSlots(slots)
	}
}

// lastOfOldest is the newest seq of the oldest of at least two chunks.
func (r *ring) lastOfOldest() uint64 { return r.find(r.first+1).firstSeq.Load() - 1 }

// growSlots doubles the slots. Readers that still use the old ones find old chunks there, whose numbers tell.
func (r *ring) growSlots(old []atomic.Pointer[chunk]) {
	grown := make([]atomic.Pointer[chunk], 2*len(old))
	for number, n := r.first, r.live; n > 0; number, n = number+1, n-1 {
		grown[number%uint64(len(grown))].Store(r.find(number))
	}
	r.slots.Store(&grown)
}
