package cluster

import (
	"maps"
	"math"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// trimChunk is how many entries are deleted from the log at once: a write transaction of the store, which commits wait behind.
	trimChunk = 256
	// sizeBlock is how many entries are counted together.
	sizeBlock = 64
	// holdLapse is how long a hold of the log lasts after it was last asked for.
	holdLapse = time.Minute
)

// logSizes knows the bytes of the entries stored since the node started, in blocks of sizeBlock indexes. What is older counts as
// nothing, so that the log is kept too long rather than cut too early.
//
// Invariants: blocks are in order of their numbers, each once; total is the sum of their bytes.
type logSizes struct {
	mu struct {
		sync.Mutex
		blocks []logBlock
		total  int64
		last   uint64 // index of the last entry stored
	}
}

// logBlock is the entries of indexes [number*sizeBlock, (number+1)*sizeBlock).
type logBlock struct {
	number uint64
	bytes  int64
}

// stored notes entries that are in the log now.
func (s *logSizes) stored(logs []*raft.Log) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range logs {
		number := l.Index / sizeBlock
		if n := len(s.mu.blocks); n == 0 || s.mu.blocks[n-1].number != number {
			s.mu.blocks = append(s.mu.blocks, logBlock{number: number})
		}
		s.mu.blocks[len(s.mu.blocks)-1].bytes += int64(len(l.Data))
		s.mu.total += int64(len(l.Data))
		s.mu.last = l.Index
	}
}

// deleted notes that the entries from low to high are gone: the log's beginning or its end. A block that is cut keeps its bytes.
func (s *logSizes) deleted(low, high uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end := high >= s.mu.last
	if end {
		s.mu.last = low - min(low, 1)
	}
	kept := s.mu.blocks[:0]
	for _, b := range s.mu.blocks {
		first := b.number * sizeBlock
		if end && first >= low || !end && first+sizeBlock-1 <= high {
			s.mu.total -= b.bytes
			continue
		}
		kept = append(kept, b)
	}
	s.mu.blocks = kept
}

// keepFrom is the first index of the newest entries that are keep bytes or more; 0 if those that are known are fewer.
func (s *logSizes) keepFrom(keep int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := int64(0)
	for i := len(s.mu.blocks) - 1; i >= 0; i-- {
		if sum += s.mu.blocks[i].bytes; sum >= keep {
			return s.mu.blocks[i].number * sizeBlock
		}
	}
	return 0
}

func (s *logSizes) known() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.total
}

// logHolds keep the log from being cut under a node that is being brought up to a snapshot: it will need all entries after it.
type logHolds struct {
	now func() time.Time // the clock
	mu  struct {
		sync.Mutex
		holds map[string]logHold // by node id
	}
}

type logHold struct {
	index uint64
	at    time.Time
}

func newLogHolds() *logHolds {
	h := &logHolds{now: time.Now}
	h.mu.holds = make(map[string]logHold)
	return h
}

// hold keeps the entries after index for holdLapse, and the one at index too: raft asks for its term to go on behind it. A node has
// one hold: its last.
func (h *logHolds) hold(id string, index uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.holds[id] = logHold{index, h.now()}
}

// reached moves the hold of a node that has all entries up to index: what comes after is kept for it still. At end, the newest that is
// committed, it needs no hold any more. A node without one gets none.
func (h *logHolds) reached(id string, index, end uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch l, ok := h.mu.holds[id]; {
	case !ok || index < l.index:
	case index >= end:
		delete(h.mu.holds, id)
	default:
		h.mu.holds[id] = logHold{index, h.now()}
	}
}

// keep ends the holds of nodes for which member does not hold.
func (h *logHolds) keep(member func(id string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.mu.holds, func(id string, _ logHold) bool { return !member(id) })
}

// lowest is the least index that is held; math.MaxUint64 if none is.
func (h *logHolds) lowest() uint64 {
	low := uint64(math.MaxUint64)
	h.each(func(index uint64) { low = min(low, index) })
	return low
}

// has tells whether an index is held.
func (h *logHolds) has(index uint64) (found bool) {
	h.each(func(i uint64) { found = found || i == index })
	return found
}

func (h *logHolds) each(f func(index uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for id, l := range h.mu.holds {
		if h.now().Sub(l.at) > holdLapse {
			delete(h.mu.holds, id)
			continue
		}
		f(l.index)
	}
}
