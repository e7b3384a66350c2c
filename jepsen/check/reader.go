package check

import (
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/jepsen/history"
)

// reader is one reader as the second pass follows it.
type reader struct {
	opened  *history.ReaderOpened
	line    int // of opened
	filters topic.Filters
	matches []verdict // by topic, of what was asked before

	got      bits
	last     uint64 // highest seq delivered; opened.Base before the first. Invariant: Base <= last
	lastLine int
	mark     uint64 // highest mark
	markLine int
	head     uint64 // what caught-up covers; 0 before it
	headLine int    // of caught-up; 0 before it

	scanned   uint64 // everything up to here was looked at for lastMatch. Invariant: scanned <= last
	lastMatch uint64 // highest matching seq seen by anybody, above Base and at or below scanned; 0: none

	twins   map[uint64]seqLine // of ids in ledger.twins: where this reader saw them first
	lastAt  time.Duration      // of the reader's latest event
	ended   bool
	endLine int
}

type verdict uint8

const (
	unasked verdict = iota
	matching
	other
)

// seqLine is a delivery.
type seqLine struct {
	seq  uint64
	line int
}

// position is the seq up to which the reader claims to have everything.
func (r *reader) position() uint64 { return max(r.last, r.mark, r.head) }

// match says whether the reader's filters hold a topic.
func (r *reader) match(l *ledger, t uint32) bool {
	for int(t) >= len(r.matches) {
		r.matches = append(r.matches, make([]verdict, len(l.topics)-len(r.matches))...)
	}
	if r.matches[t] == unasked {
		r.matches[t] = other
		if r.filters.Match(l.topics[t]) {
			r.matches[t] = matching
		}
	}
	return r.matches[t] == matching
}

// readers is the second pass over the readers' events.
type readers struct {
	l    *ledger
	out  *findings
	list []*reader // in the order of their opening
	byID map[int]*reader
}

func newReaders(l *ledger) *readers { return &readers{l: l, out: l.out, byID: map[int]*reader{}} }

func (rs *readers) observe(line int, e history.Event) {
	switch e := e.(type) {
	case *history.ReaderOpened:
		rs.open(line, e)
	case *history.Delivery:
		if r := rs.find(line, e.Reader, e.At); r != nil {
			rs.deliver(r, line, e)
		}
	case *history.Progress:
		if r := rs.find(line, e.Reader, e.At); r != nil {
			rs.out.looked(Progress, 1)
			r.advance(line, e.Seq)
		}
	case *history.CaughtUp:
		if r := rs.find(line, e.Reader, e.At); r != nil {
			rs.caughtUp(r, line, e)
		}
	case *history.ReaderResumed:
		if r := rs.find(line, e.Reader, e.At); r != nil {
			r.advance(line, e.After)
		}
	case *history.ReaderEnded:
		if r := rs.find(line, e.Reader, e.At); r != nil {
			rs.end(r, line, e)
		}
	}
}

func (rs *readers) open(line int, e *history.ReaderOpened) {
	filters, err := topic.ParseFilters(e.Filters)
	if err != nil || rs.byID[e.Reader] != nil {
		rs.out.wrong("line %d: reader %d: opened twice, or: %v", line, e.Reader, err)
		return
	}
	r := &reader{opened: e, line: line, filters: filters, last: e.Base, scanned: e.Base, lastAt: e.At, twins: map[uint64]seqLine{}}
	rs.byID[e.Reader] = r
	rs.list = append(rs.list, r)
}

// find returns the reader of an event, and checks that it had no reason to be silent so long.
func (rs *readers) find(line, id int, at time.Duration) *reader {
	r := rs.byID[id]
	if r == nil || r.ended {
		rs.out.wrong("line %d: reader %d is not open", line, id)
		return nil
	}
	rs.silence(r, line, at)
	r.lastAt = max(r.lastAt, at)
	return r
}

// advance moves the reader's mark.
func (r *reader) advance(line int, seq uint64) {
	if seq > r.mark {
		r.mark, r.markLine = seq, line
	}
}

func (rs *readers) deliver(r *reader, line int, d *history.Delivery) {
	rs.out.looked(Order, 1)
	rs.out.looked(Twice, 1)
	rs.out.looked(Foreign, 1)
	t := rs.l.topic(d.Topic)
	switch {
	case !r.match(rs.l, t):
		rs.out.found(Foreign, []int{r.line, line}, "reader %d was given seq %d of %q, which its filters %v do not hold", d.Reader, d.Seq, d.Topic, r.opened.Filters)
		return
	case d.Seq <= r.opened.Base:
		rs.out.found(Foreign, []int{r.line, line}, "reader %d begins after seq %d and was given %d", d.Reader, r.opened.Base, d.Seq)
		return
	case r.got.has(d.Seq):
		rs.out.found(Twice, []int{r.line, r.lastLine, line}, "reader %d was given seq %d again, after %d", d.Reader, d.Seq, r.last)
		return
	}
	r.got.add(d.Seq)
	rs.late(r, line, d)
	rs.twin(r, line, d)
	if d.Seq < r.last {
		rs.out.found(Order, []int{r.lastLine, line}, "reader %d was given seq %d after %d", d.Reader, d.Seq, r.last)
		return
	}
	rs.chain(r, line, d)
	r.last, r.lastLine = d.Seq, line
}

// late looks for a delivery that a mark had passed.
func (rs *readers) late(r *reader, line int, d *history.Delivery) {
	if d.Seq <= r.mark {
		rs.out.found(Progress, []int{r.markLine, line}, "reader %d was told that everything up to seq %d was delivered, and then was given %d", d.Reader, r.mark, d.Seq)
	}
	if d.Seq <= r.head {
		rs.out.found(CaughtUp, []int{r.line, r.headLine, line}, "reader %d was told that it had caught up with seq %d, and then was given %d", d.Reader, r.head, d.Seq)
	}
}

// twin looks for a message that the reader was given at another seq before.
func (rs *readers) twin(r *reader, line int, d *history.Delivery) {
	if len(rs.l.twins) == 0 || len(rs.l.twins[d.ID]) == 0 {
		return
	}
	before, ok := r.twins[d.ID]
	if !ok {
		r.twins[d.ID] = seqLine{d.Seq, line}
		return
	}
	rs.out.found(Twice, []int{rs.l.messages.at(d.ID).line, before.line, line}, "message %d stands in the stream twice: at seq %d and at %d", d.ID, before.seq, d.Seq)
}

// chain compares the named matching seq before with the one that anybody saw.
func (rs *readers) chain(r *reader, line int, d *history.Delivery) {
	if d.Prev == 0 {
		return
	}
	rs.out.looked(Chain, 1)
	rs.l.places.each(r.scanned+1, d.Seq-1, func(seq uint64, p *place) bool {
		if p.seen() && r.match(rs.l, p.topic) {
			r.lastMatch = seq
		}
		return true
	})
	want := r.lastMatch
	r.scanned, r.lastMatch = d.Seq, d.Seq
	switch {
	case want != 0 && d.Prev != want:
		rs.out.found(Chain, []int{r.lastLine, line, rs.l.places.get(want).line}, "reader %d was given seq %d as the match after %d, but %d matches and lies between, or nearer", d.Reader, d.Seq, d.Prev, want)
	case want == 0 && d.Prev > r.opened.Base:
		rs.out.found(Chain, []int{r.line, line}, "reader %d was given seq %d as the match after %d, which nobody saw", d.Reader, d.Seq, d.Prev)
	}
}

func (rs *readers) caughtUp(r *reader, line int, e *history.CaughtUp) {
	rs.out.looked(CaughtUp, 1)
	if r.headLine != 0 {
		rs.out.found(CaughtUp, []int{r.line, r.headLine, line}, "reader %d was told twice that it had caught up", e.Reader)
		return
	}
	r.headLine = line
	r.head = max(e.Head, r.opened.Head, r.opened.MinSeq)
}

func (rs *readers) end(r *reader, line int, e *history.ReaderEnded) {
	r.advance(line, e.Position)
	r.ended, r.endLine = true, line
	rs.out.looked(Stuck, 1)
	if e.Code != "" && e.Code != "gone" {
		rs.out.found(Stuck, []int{r.line, r.lastLine, line}, "reader %d ended at seq %d with an error: %s", e.Reader, e.Position, e.Code)
	}
}

// silence looks for a stretch of calm in which the reader had something to read and was given nothing.
func (rs *readers) silence(r *reader, line int, at time.Duration) {
	bound := rs.l.run.bounds.Stuck + r.opened.Patience
	if at-r.lastAt <= bound {
		return
	}
	for from := r.lastAt; ; {
		calm, ok := rs.l.run.calm.at(from)
		if !ok || calm.from >= at {
			return
		}
		from = max(from, calm.from)
		if to := min(calm.to, at); to-from > bound {
			if rs.owed(r, line, from, to-bound, to) {
				return
			}
		}
		from = calm.to
	}
}

// owed reports that the reader was given nothing from..to if a match after its position was acked by then.
func (rs *readers) owed(r *reader, line int, from, by, to time.Duration) (stuck bool) {
	rs.l.places.each(r.position()+1, rs.l.maxSeq, func(seq uint64, p *place) bool {
		if !p.claimed() {
			return true
		}
		id := p.ackID
		if id == 0 {
			id = p.id
		}
		m := rs.l.messages.get(id)
		if m == nil || m.outcome != acked || m.ret > by || !r.match(rs.l, m.topic) {
			return true
		}
		rs.out.found(Stuck, []int{r.line, r.lastLine, m.line, line}, "reader %d was given nothing from %s to %s although nothing was in its way and seq %d had been acked at %s; the bound is %s",
			r.opened.Reader, from, to, seq, m.ret, rs.l.run.bounds.Stuck+r.opened.Patience)
		stuck = true
		return false
	})
	return stuck
}
