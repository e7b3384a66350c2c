package fsm

import (
	"math"
	"sort"
)

// maxRuns bounds what a producer's history keeps. A run is what neighbouring batches of one outcome left, so it is the number of
// times that others' messages came between, or a refusal: more than the batches that a client has in flight.
const maxRuns = 64

// run is a stretch of a producer's numbers with one outcome. 24 bytes.
type run struct {
	first uint64 // number. Invariant: > 0, and the number after the previous run's last
	place uint64 // OK: seq of first, the rest follow densely. PreconditionFailed: the topic's actual last seq
	count uint32 // Invariant: > 0
	index uint16 // PreconditionFailed: which one
	code  Code   // OK or a refusal that uses numbers up
}

func (r run) last() uint64 { return r.first + uint64(r.count) - 1 }

// history is what a producer's numbers became: the last maxRuns runs, oldest first, without a hole between them.
type history struct {
	ring []run // Invariant: len <= maxRuns
	head uint8 // index of the oldest run. Invariant: 0 while len(ring) < maxRuns

	// refused is the highest number that was refused and whose run was dropped, 0 if none: a number that is above it and below the
	// oldest run was published, one at or below it may have been either.
	refused uint64
}

func (h *history) at(i int) *run { return &h.ring[(int(h.head)+i)%len(h.ring)] }

// newest is the last run, if there is one.
func (h *history) newest() (r *run, ok bool) {
	if len(h.ring) == 0 {
		return nil, false
	}
	return h.at(len(h.ring) - 1), true
}

// lastNumber is the highest number used up, 0 if none.
func (h *history) lastNumber() uint64 {
	if r, ok := h.newest(); ok {
		return r.last()
	}
	return 0
}

// lastSeq is the seq of lastNumber, 0 if that was refused or there is none.
func (h *history) lastSeq() uint64 {
	if r, ok := h.newest(); ok && r.code == OK {
		return r.place + uint64(r.count) - 1
	}
	return 0
}

// add appends the outcome of the next numbers. r.first must be lastNumber() + 1.
func (h *history) add(r run) {
	if n, ok := h.newest(); ok && n.continuedBy(r) {
		n.count += r.count
		return
	}
	if len(h.ring) < maxRuns {
		h.ring = append(h.ring, r)
		return
	}
	oldest := &h.ring[h.head]
	if oldest.code != OK {
		h.refused = oldest.last()
	}
	*oldest = r
	h.head = (h.head + 1) % maxRuns
}

// continuedBy says whether r can be kept as more of the same run.
func (r run) continuedBy(n run) bool {
	return r.code == OK && n.code == OK && r.place+uint64(r.count) == n.place && uint64(r.count)+uint64(n.count) <= math.MaxUint32
}

// outcome fills a result for numbers that are all used up: [first, last], last <= lastNumber().
func (h *history) outcome(first, last uint64, r *Result) {
	n := len(h.ring)
	i := sort.Search(n, func(i int) bool { return h.at(i).last() >= first })
	oldest := h.at(i)
	if oldest.first <= first && last <= oldest.last() {
		oldest.answer(first, r)
		return
	}
	r.Code = Duplicate
	if first < oldest.first && first <= h.refused {
		r.Code = Settled
	}
	for ; i < n && h.at(i).first <= last; i++ {
		if h.at(i).code != OK {
			r.Code = Settled
		}
	}
}

// answer fills the outcome of numbers from first on that lie inside the run.
func (r *run) answer(first uint64, out *Result) {
	if r.code == OK {
		out.Code, out.FirstSeq = Duplicate, r.place+first-r.first
		return
	}
	out.Code, out.Index, out.Detail = r.code, r.index, r.place
}
