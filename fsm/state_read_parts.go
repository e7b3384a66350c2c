package fsm

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/cantus-bus/cantus/internal/record"
)

func (m *Machine) readProducers(s sectionReader) error {
	t := &m.producers
	var floor, count uint64
	if err := s.uvarints(bounded{&floor, math.MaxUint32}, bounded{&count, math.MaxUint32}); err != nil {
		return err
	}
	t.floor = uint32(floor)
	var before record.ProducerID
	for range count {
		var id record.ProducerID
		if err := s.bytes(id[:]); err != nil {
			return err
		}
		if bytes.Compare(before[:], id[:]) >= 0 {
			return s.corrupt("producer %x stands behind %x", id, before)
		}
		p, err := s.producer()
		if err != nil {
			return err
		}
		t.byID[id], before = p, id
	}
	t.count.Store(int64(len(t.byID)))
	return nil
}

func (s sectionReader) producer() (*producer, error) {
	p := new(producer)
	var epoch, runs uint64
	var used [8]byte
	if err := s.uvarints(bounded{&epoch, math.MaxUint32}); err != nil {
		return nil, err
	}
	if err := s.bytes(used[:]); err != nil {
		return nil, err
	}
	if err := s.uvarints(bounded{&p.refused, math.MaxUint64}, bounded{&runs, maxRuns}); err != nil {
		return nil, err
	}
	p.epoch, p.lastUsed = uint32(epoch), int64(binary.LittleEndian.Uint64(used[:]))
	if epoch == 0 {
		return nil, s.corrupt("a producer of epoch 0")
	}
	return p, s.runs(p, int(runs))
}

// runs reads a producer's history.
func (s sectionReader) runs(p *producer, count int) error {
	if count == 0 {
		return nil
	}
	var first uint64
	if err := s.uvarints(bounded{&first, math.MaxUint64}); err != nil {
		return err
	}
	p.ring = make([]run, 0, count)
	for range count {
		code, err := s.ReadByte()
		if err != nil {
			return s.ended(err)
		}
		var n, place, index uint64
		if err := s.uvarints(bounded{&n, math.MaxUint32}, bounded{&place, math.MaxUint64}, bounded{&index, math.MaxUint16}); err != nil {
			return err
		}
		r := run{first: first, place: place, count: uint32(n), index: uint16(index), code: Code(code)}
		if n == 0 || first == 0 || r.last() < first || !r.code.usesNumbers() {
			return s.corrupt("a run of %d numbers from %d on with code %d", n, first, code)
		}
		p.ring = append(p.ring, r)
		first = r.last() + 1
	}
	return nil
}

// usesNumbers tells whether a batch's numbers are used up by an outcome.
func (c Code) usesNumbers() bool {
	return c == OK || c == PreconditionFailed || c == TooManyTopics || c == Invalid
}

func (m *Machine) readWindows(s sectionReader) error {
	w := &m.windows
	if err := s.hash(&w.sum); err != nil {
		return err
	}
	var err error
	if w.open, err = s.window(); err != nil {
		return err
	}
	var count uint64
	if err := s.uvarints(bounded{&count, math.MaxUint64}); err != nil {
		return err
	}
	for range count {
		next, err := s.window()
		if err != nil {
			return err
		}
		if n := len(w.sealed); n > 0 && (next.Number != w.sealed[n-1].Number+1 || next.FirstSeq != w.sealed[n-1].LastSeq+1) ||
			next.Number == 0 || next.FirstSeq == 0 || next.LastSeq < next.FirstSeq {
			return s.corrupt("window %d with seqs %d to %d does not adjoin", next.Number, next.FirstSeq, next.LastSeq)
		}
		w.sealed = append(w.sealed, next)
	}
	last := uint64(0)
	if count > 0 {
		last = w.sealed[count-1].LastSeq
	}
	if w.open.FirstSeq == 0 && w.open == (Window{}) && last == m.seq || w.open.FirstSeq == last+1 && w.open.LastSeq == m.seq && last < m.seq {
		return nil
	}
	return s.corrupt("the open window has seqs %d to %d, between %d and %d", w.open.FirstSeq, w.open.LastSeq, last, m.seq)
}

// window reads what Window.appendTo wrote.
func (s sectionReader) window() (w Window, err error) {
	var p [windowSize]byte
	if err := s.bytes(p[:]); err != nil {
		return w, err
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(p[8*i:]) }
	return Window{Number: at(0), FirstSeq: at(1), LastSeq: at(2), Bytes: at(3), FirstTime: int64(at(4)), LastTime: int64(at(5))}, nil
}

func (m *Machine) readPlans(s sectionReader) error {
	g := &m.generations
	if err := s.hash(&g.sum); err != nil {
		return err
	}
	var count uint64
	if err := s.uvarints(bounded{&g.made, math.MaxUint64}, bounded{&count, math.MaxUint64}); err != nil {
		return err
	}
	next := m.windows.oldest()
	for range count {
		plan, err := s.plan()
		if err != nil {
			return err
		}
		first, ok := numbered(m.windows.sealed, plan.FirstWindow)
		last, ok2 := numbered(m.windows.sealed, plan.LastWindow)
		if !ok || !ok2 || plan.FirstWindow != next || last.Number < first.Number || plan.Number > g.made || !m.plansValid(plan.Plans) {
			return s.corrupt("generation %d of windows %d to %d cannot be", plan.Number, plan.FirstWindow, plan.LastWindow)
		}
		plan.FirstSeq, plan.LastSeq = first.FirstSeq, last.LastSeq
		g.list = append(g.list, plan)
		next = last.Number + 1
	}
	return nil
}

func (s sectionReader) plan() (g Generation, err error) {
	var size uint64
	if err := s.uvarints(bounded{&size, MaxPlanBody}); err != nil {
		return g, err
	}
	body := make([]byte, size)
	if err := s.bytes(body); err != nil {
		return g, err
	}
	if g, err = decodePlan(body); err != nil {
		return g, s.corrupt("%v", err)
	}
	return g, nil
}
