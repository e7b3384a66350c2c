package tipstore

import (
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

// source walks one posting list for one reader, without locks, beside the writer.
//
// Invariant: entries of the list before the place (block, next) are below every unit asked for so far; while gen is the
// generation of the block's cell, the block is still this list's.
type source struct {
	block blockPtr // nil pointer: no place yet
	gen   *uint32  // generation of the block's cell
	seen  uint32   // its value when the block was entered
	next  uint32   // entry to look at
	room  uint32
	base  uint64
	part  topic.PartitionID
	some  bool // the matcher takes only some topics of the partition
}

func (s *source) fresh() bool { return atomic.LoadUint32(s.gen) == s.seen }

// enter makes r the source's block. That r belongs to the list must be checked afterwards.
func (s *source) enter(p *pool, r ref) {
	s.block, s.gen, s.next = p.ptr(r), p.gen(r), 0
	s.seen = atomic.LoadUint32(s.gen)
}

// seek returns the list's first unit at or above want, or none, and places the source there.
func (s *source) seek(x *lists, want uint64) (unit uint64, ok bool) {
	for {
		if s.block.p == nil && !s.start(x, want) {
			return 0, false
		}
		unit, ok, fresh := s.skip(x, want)
		if fresh {
			return unit, ok
		}
		s.block.p = nil
	}
}

// start enters the list anew: at its newest block if that is not beyond want, else at the oldest.
func (s *source) start(x *lists, want uint64) bool {
	l := x.get(s.part)
	if l == nil {
		return false
	}
	for {
		if s.enterEnd(&x.pool, &l.tail) && s.base < want {
			return true
		}
		if s.block.p == nil {
			return false
		}
		if s.enterEnd(&x.pool, &l.head) {
			return true
		}
		if s.block.p == nil {
			return false
		}
	}
}

// enterEnd enters the block at an end of the list; false if the end moved meanwhile or, block then being nil, if the list
// is empty.
//
// The base is loaded after the block was found to be the list's and before the generation is found unchanged: so the block
// stood from the one to the other, even if it had been freed and come back before.
func (s *source) enterEnd(p *pool, end *atomic.Uint32) bool {
	r := ref(end.Load())
	if r == 0 {
		s.block.p = nil
		return false
	}
	s.enter(p, r)
	if ref(end.Load()) != r {
		return false
	}
	s.base, s.room = s.block.loadBase()
	return s.fresh()
}

// skip moves forward to the first entry at or above want. fresh is false if the block was freed meanwhile.
func (s *source) skip(x *lists, want uint64) (unit uint64, ok, fresh bool) {
	for {
		unit, ok = s.skipInBlock(want)
		if ok {
			return unit, true, s.fresh()
		}
		if moved, fresh := s.step(x); !moved || !fresh {
			return 0, false, fresh
		}
	}
}

// skipInBlock moves to the block's first entry at or above want, or to the end of what is written.
func (s *source) skipInBlock(want uint64) (unit uint64, ok bool) {
	lo, hi := s.next, s.room
	if lo < hi {
		// Mostly the next entry is the one.
		delta := s.block.loadEntry(lo)
		if delta == 0 || s.base+uint64(delta) >= want {
			return s.base + uint64(delta), delta != 0
		}
		lo++
	}
	for lo < hi {
		mid := (lo + hi) / 2
		if delta := s.block.loadEntry(mid); delta != 0 && s.base+uint64(delta) < want {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	s.next = lo
	return s.peek()
}

// peek returns the entry at the source's place, if it is written.
func (s *source) peek() (unit uint64, ok bool) {
	if s.next >= s.room {
		return 0, false
	}
	delta := s.block.loadEntry(s.next)
	return s.base + uint64(delta), delta != 0
}

// step goes on to the next block if there is one and nothing is left in this.
func (s *source) step(x *lists) (moved, fresh bool) {
	next := s.block.loadNext()
	if !s.fresh() {
		return false, false
	}
	if next == 0 {
		return false, true
	}
	if _, ok := s.peek(); ok {
		return true, true // written between the look at the entry and that at next: not at the end yet
	}
	gen, seen := s.gen, s.seen
	s.enter(&x.pool, next)
	s.base, s.room = s.block.loadBase()
	// The next block is freed after this one. If this one still stands, the next one stood when its generation was loaded.
	return true, atomic.LoadUint32(gen) == seen
}

// advance goes past the entry at the source's place and returns the unit after it, or none. The caller checks afterwards
// that the tail has not passed the place where the source was; until then the result may be wrong, but not dangerous.
func (s *source) advance(x *lists, unit uint64) (next uint64, ok bool) {
	s.next++
	if next, ok = s.peek(); ok {
		return next, true
	}
	return s.seek(x, unit+1)
}
