package fsm

import (
	"encoding/binary"
	"math"
	"slices"
)

// Unlimited is what the Retain settings of a StreamConfig are in the beginning: nothing is dropped.
const Unlimited = math.MaxInt64

// RetainBody is the body of a record.KindRetain entry: window and all before it are dropped.
func RetainBody(window uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, window)
}

// retain drops the windows up to one, and the generations made of them, or says why not: then nothing changes. Detail is the
// oldest seq retained afterwards.
//
// It is Invalid to drop a window that is not sealed, or the newest one that is, or a part of a generation: a plan that came first
// may have made that, so the leader looks again. What was dropped before is OK once more.
func (m *Machine) retain(through uint64, r *Result) {
	w := &m.windows
	switch {
	case through < w.oldest():
	case through >= w.newest() || m.generations.straddled(through):
		r.Code = Invalid
	default:
		last, _ := numbered(w.sealed, through)
		m.generations.drop(through)
		w.drop(last)
	}
	r.Detail = firstSeq(w.sealed)
}

// drop forgets the windows up to through, which is sealed and not the newest.
func (w *windows) drop(through Window) {
	w.sealed = w.sealed[through.Number+1-w.oldest():]
	w.show()
	if w.onRetain != nil {
		w.onRetain(through)
	}
}

// straddled tells whether a generation goes on behind a window that it covers.
func (s *generations) straddled(window uint64) bool {
	return slices.ContainsFunc(s.list, func(g Generation) bool { return g.FirstWindow <= window && window < g.LastWindow })
}

// drop forgets the generations up to a window that none straddles.
func (s *generations) drop(through uint64) {
	kept := slices.IndexFunc(s.list, func(g Generation) bool { return g.LastWindow > through })
	if kept < 0 {
		kept = len(s.list)
	}
	if kept > 0 {
		s.list = slices.Clone(s.list[kept:])
		s.show()
	}
}
