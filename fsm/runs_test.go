package fsm

import (
	"testing"

	"pgregory.net/rapid"
)

// TestHistoryMatchesModel drives a producer's history far past what it keeps and asks for everything, against the model that
// keeps every number.
func TestHistoryMatchesModel(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var h history
		var m modelProducer
		seq := uint64(1)
		for range rapid.IntRange(1, 4*maxRuns).Draw(r, "batches") {
			addBatch(r, &h, &m, &seq)
			if len(h.ring) > maxRuns {
				r.Fatalf("%d runs are kept", len(h.ring))
			}
		}
		last := uint64(len(m.numbers))
		if h.lastNumber() != last || h.lastSeq() != m.numbers[last-1].seq {
			r.Fatalf("last number %d, seq %d, want %d, %d", h.lastNumber(), h.lastSeq(), last, m.numbers[last-1].seq)
		}
		for first := uint64(1); first <= last; first++ {
			for _, n := range []uint64{first, first + 1, first + 2, first + 17, last} {
				if n > last {
					continue
				}
				var got, want Result
				h.outcome(first, n, &got)
				m.answer(first, n, &want)
				if got != want {
					r.Fatalf("numbers %d..%d: %+v, want %+v", first, n, got, want)
				}
			}
		}
	})
}

// addBatch gives both the outcome of the next numbers; seq is the stream's next.
func addBatch(r *rapid.T, h *history, m *modelProducer, seq *uint64) {
	n := run{first: uint64(len(m.numbers)) + 1, count: uint32(rapid.IntRange(1, 3).Draw(r, "count"))}
	switch rapid.IntRange(0, 9).Draw(r, "outcome") {
	case 0:
		n.code, n.index, n.place = PreconditionFailed, uint16(rapid.IntRange(0, 2).Draw(r, "index")), 77
	case 1, 2: // goes on where the last one ended
		n.place = *seq
	default:
		n.place = *seq + 1
	}
	h.add(n)
	for i := range uint64(n.count) {
		k := modelNumber{code: n.code, start: n.first, batch: Result{Index: n.index, Detail: n.place}}
		if n.code == OK {
			k.seq = n.place + i
			*seq = k.seq + 1
		}
		m.numbers = append(m.numbers, k)
	}
}
