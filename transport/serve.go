package transport

import (
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// serve gives a subscription its turn: at most one DATA frame, and what else is due. Afterwards it is in the ready queue
// again, or in the lane that reads history, or asleep with something that will wake it, or ended.
func (p *pump) serve(s *subscription) {
	switch {
	case !s.opened.Load() || s.ended || s.fetch.underWay():
		return
	case s.cancelled.Load():
		p.end(s, &wire.Error{})
		return
	}
	p.clock.subscribed(p)
	if s.fetch.view != nil {
		p.serveFetched(s)
		return
	}
	p.sayCaughtUp(s)
	if s.credit.Load() <= 0 {
		p.starve(s)
		return // credit wakes it
	}
	s.starved = false
	calm := s.arm()
	if s.reader.Slow() && !p.skipHistory(s, calm) {
		p.startFetch(s, calm)
		return
	}
	_, fence := p.c.stream.Tip().Bounds() // after Arm: what is published beyond it wakes the subscription
	v := p.out.view()
	if !p.send(s, v, calm, s.reader.Read(v, p.limit(s))) {
		return
	}
	s.quiet = s.reader.Position() >= fence
	if !s.quiet {
		p.c.ready.push(s)
	}
}

// starve makes a subscription whose client has given no credit from one tick to another hold no decoded history.
func (p *pump) starve(s *subscription) {
	if s.starved {
		s.reader.Rest()
		return
	}
	s.starved, p.clock.owed = true, true
}

// send sends what a read has found, or progress if that is nothing. False: the subscription has ended.
func (p *pump) send(s *subscription, v *tipstore.View, calm uint64, err error) bool {
	for err != nil && p.skip(s, calm, err) {
		err = s.reader.Read(v, p.limit(s))
	}
	if err != nil {
		p.out.giveBack(v)
		p.end(s, endedBy(err))
		return false
	}
	if v.Count == 0 {
		p.out.giveBack(v)
		p.sayProgress(s)
	} else {
		p.sayData(s, v)
	}
	p.sayCaughtUp(s)
	p.clock.owed = p.clock.owed || s.reader.Position() > s.mark
	return true
}

// limit of a read: nothing of it goes beyond what caught-up waits for.
func (p *pump) limit(s *subscription) tipstore.Limit {
	l := tipstore.Limit{Bytes: int(min(int64(p.c.opts.Quantum), s.credit.Load()))}
	if !s.caughtUp {
		l.UpTo = s.head // > 0, else caught-up would have been said
	}
	return l
}

// sayData adds a DATA frame with the view's records, and before it the names of topics that the client does not know.
func (p *pump) sayData(s *subscription, v *tipstore.View) {
	p.sayNames(v)
	header := wire.AppendDataHeader
	if past := s.reader.Sources().History; past > s.past {
		s.past, header = past, wire.AppendHistoryHeader
	}
	p.out.own = header(p.out.own, s.id, s.prev, uint32(v.Count), v.Parts)
	s.prev, s.mark, s.told = v.Last, v.Last, p.now
	s.credit.Add(-int64(v.Bytes))
	bytes := v.Bytes
	m := p.c.metrics
	m.delivered.Add(float64(v.Count))
	m.frameOut[wire.TData].Inc()
	copied := p.out.addView(v, p.c.opts.CopyBelow)
	m.copiedBytes.Add(float64(copied))
	m.directBytes.Add(float64(bytes - copied))
}

func (p *pump) sayNames(v *tipstore.View) {
	p.names = p.names[:0]
	table, last, any := p.c.stream.Table(), uint32(0), false
	for _, run := range v.Parts {
		for len(run) > 0 {
			id := record.Record(run).Topic()
			run = run[record.Scan(run):]
			if id == last && any {
				continue
			}
			last, any = id, true
			if p.seen.add(id) {
				p.names = append(p.names, wire.TopicName{ID: id, Name: table.Name(topic.ID(id))})
			}
		}
	}
	if len(p.names) > 0 {
		p.out.own = wire.AppendTopicNames(p.out.own, p.names)
		p.c.metrics.frameOut[wire.TTopicNames].Inc()
	}
}

// sayCaughtUp says once that all matches up to the opening's head were sent.
func (p *pump) sayCaughtUp(s *subscription) {
	if s.caughtUp || s.reader.Position() < s.head {
		return
	}
	s.caughtUp = true
	p.out.own = wire.AppendSeq(p.out.own, wire.TCaughtUp, s.id, s.head)
	p.c.metrics.frameOut[wire.TCaughtUp].Inc()
}

// sayProgress tells a position without matches, not more often than Options.Progress.
func (p *pump) sayProgress(s *subscription) {
	position := s.reader.Position()
	if position <= s.mark || p.now.Sub(s.told) < p.c.opts.Progress {
		return
	}
	s.mark, s.told = position, p.now
	p.out.own = wire.AppendSeq(p.out.own, wire.TProgress, s.id, position)
	p.c.metrics.frameOut[wire.TProgress].Inc()
}

// end closes a subscription and says why. Its id is free before the client can see that.
func (p *pump) end(s *subscription, e *wire.Error) {
	s.ended = true
	p.c.forget(s)
	s.fetch.drop()
	p.out.close(s.reader)
	p.out.own = wire.AppendError(p.out.own, wire.TEnded, s.id, e)
	p.c.metrics.frameOut[wire.TEnded].Inc()
	p.c.metrics.subs.Dec()
	p.c.metrics.subEnded(e.Code)
}

// endAll ends every opened subscription.
func (p *pump) endAll(e *wire.Error) {
	for _, s := range p.c.subscriptions() {
		if s.opened.Load() && !s.ended {
			p.end(s, e)
		}
	}
}
