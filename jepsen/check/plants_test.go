package check

import (
	"slices"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/jepsen/history"
)

func plantLost(g *garden) bool {
	i, p := pick(g, plain(history.OK))
	if i < 0 {
		return false
	}
	g.remove(func(e history.Event) bool { d, ok := e.(*history.Delivery); return ok && d.ID == p.Messages[0].ID })
	g.relink()
	return true
}

func plantReplaced(g *garden) bool {
	i, p := pick(g, plain(history.OK))
	if i < 0 {
		return false
	}
	other := *p
	other.Messages = []history.Sent{{ID: 1 << 40, Topic: p.Messages[0].Topic}}
	other.Outcome, other.FirstSeq = history.Unknown, 0
	for _, e := range g.List {
		if d, ok := e.(*history.Delivery); ok && d.ID == p.Messages[0].ID {
			d.ID = 1 << 40
		}
	}
	g.insert(i+1, &other)
	return true
}

func plantRepeat(g *garden) bool {
	i, d := pick(g, func(*history.Delivery) bool { return true })
	again := *d
	g.insert(i+1, &again)
	return true
}

func plantSwap(g *garden) bool {
	i, j := g.neighbours()
	if i < 0 {
		return false
	}
	g.List[i], g.List[j] = g.List[j], g.List[i]
	return true
}

func plantForeign(g *garden) bool {
	i, d := pick(g, func(d *history.Delivery) bool { return d.Reader == 1 })
	_, other := pick(g, func(o *history.Delivery) bool { return o.Reader == 0 && !strings.HasPrefix(o.Topic, "app/") })
	if i < 0 || other == nil {
		return false
	}
	e := *other
	e.Reader, e.At, e.Prev = 1, d.At, 0
	g.insert(i, &e)
	return true
}

func plantBefore(g *garden) bool {
	i, d := pick(g, func(d *history.Delivery) bool { return d.Reader == 3 })
	_, o := pick(g, func(o *history.ReaderOpened) bool { return o.Reader == 3 && o.Base > 0 })
	if i < 0 || o == nil {
		return false
	}
	e := *g.stream()[1+g.rng.Uint64N(o.Base)]
	e.Reader, e.At, e.Prev = 3, d.At, 0
	g.insert(i, &e)
	return true
}

func plantMissing(g *garden) bool {
	i, _ := pick(g, func(d *history.Delivery) bool { return d.Reader == 0 && d.Seq < uint64(len(g.stream())) })
	if i < 0 {
		return false
	}
	d := g.List[i].(*history.Delivery)
	if !slices.ContainsFunc(g.List, func(e history.Event) bool { o, ok := e.(*history.Delivery); return ok && o.Reader != 0 && o.ID == d.ID }) {
		return false
	}
	g.List = slices.Delete(g.List, i, i+1)
	return true
}

func plantChain(g *garden) bool {
	i, d := pick(g, func(d *history.Delivery) bool {
		return d.Prev > 1 && (d.Reader == 0 || g.stream()[d.Prev].Topic == d.Topic)
	})
	if i < 0 {
		return false
	}
	d.Prev = 1 + g.rng.Uint64N(d.Prev-1)
	_, o := pick(g, func(o *history.ReaderOpened) bool { return o.Reader == d.Reader })
	return d.Prev > o.Base
}

// plantHole moves everything from some seq on by one.
func plantHole(g *garden) bool {
	i, p := pick(g, plain(history.OK))
	if i < 0 {
		return false
	}
	from := p.FirstSeq
	for _, e := range g.List {
		shift(e, func(seq *uint64) {
			if *seq >= from {
				*seq++
			}
		})
	}
	return true
}

// shift applies move to every seq of an event.
func shift(e history.Event, move func(*uint64)) {
	switch e := e.(type) {
	case *history.Publish:
		move(&e.FirstSeq)
		move(&e.FailedSeq)
		for i := range e.Pre {
			move(&e.Pre[i].LastSeq)
		}
	case *history.Delivery:
		move(&e.Seq)
		move(&e.Prev)
	case *history.Progress:
		move(&e.Seq)
	case *history.CaughtUp:
		move(&e.Head)
	case *history.ReaderOpened:
		move(&e.Base)
		move(&e.Head)
	case *history.ReaderResumed:
		move(&e.After)
		move(&e.Prev)
	case *history.ReaderEnded:
		move(&e.Position)
	case *history.Verify:
		for i := range e.Nodes {
			move(&e.Nodes[i].Seq)
		}
	case *history.Read:
		move(&e.MinSeq)
		move(&e.AsOf)
		move(&e.Snapshot)
		for i := range e.Found {
			move(&e.Found[i].Seq)
		}
	}
}

func plantDisagree(g *garden) bool {
	stream := g.stream()
	i, d := pick(g, func(d *history.Delivery) bool {
		next := stream[d.Seq+1]
		if d.Reader == 0 || next == nil || next.Topic != d.Topic || d.Topic[:4] != "app/" {
			return false
		}
		return g.publishOf(d.ID).Producer != g.publishOf(next.ID).Producer && len(g.publishOf(d.ID).Messages)+len(g.publishOf(next.ID).Messages) == 2
	})
	if i < 0 {
		return false
	}
	for _, e := range g.List {
		if o, ok := e.(*history.Delivery); ok && o.Reader == d.Reader && o.Seq == d.Seq+1 {
			d.ID, o.ID = o.ID, d.ID
			return true
		}
	}
	return false
}

// unseenAck are messages of unknown fate that stand in the stream.
func (g *garden) unacked() *history.Publish {
	_, p := pick(g, func(p *history.Publish) bool {
		return plain(history.Unknown)(p) && g.seqOf(p.Messages[0].ID) != 0
	})
	return p
}

func plantWrongAck(g *garden) bool {
	_, p := pick(g, plain(history.OK))
	other := g.unacked()
	if p == nil || other == nil {
		return false
	}
	p.FirstSeq = g.seqOf(other.Messages[0].ID)
	return true
}

func plantTwoAcks(g *garden) bool {
	_, p := pick(g, plain(history.OK))
	_, other := pick(g, plain(history.OK))
	if p == nil || other == p {
		return false
	}
	p.FirstSeq = other.FirstSeq
	return true
}

func plantMark(g *garden) bool {
	i, d := pick(g, func(*history.Delivery) bool { return true })
	g.insert(i, &history.Progress{At: d.At, Reader: d.Reader, Seq: d.Seq})
	return true
}

func plantCaughtUp(g *garden) bool {
	i, c := pick(g, func(c *history.CaughtUp) bool { return c.Head > 0 })
	if i < 0 {
		return false
	}
	for j := i - 1; j >= 0; j-- {
		if d, ok := g.List[j].(*history.Delivery); ok && d.Reader == c.Reader {
			g.List = slices.Delete(g.List, i, i+1)
			g.insert(j, c)
			return true
		}
	}
	return false
}

func plantCaughtUpTwice(g *garden) bool {
	i, c := pick(g, func(*history.CaughtUp) bool { return true })
	g.insert(i+1, c)
	return true
}

func plantRefused(g *garden) bool {
	p := g.unacked()
	if p == nil {
		return false
	}
	p.Outcome, p.Code = history.Refused, "unavailable"
	return true
}

func plantPhantom(g *garden) bool {
	p := g.unacked()
	if p == nil {
		return false
	}
	g.remove(func(e history.Event) bool { return e == history.Event(p) })
	return true
}

func plantPayload(g *garden) bool {
	p := g.unacked()
	if p == nil {
		return false
	}
	for _, e := range g.List {
		if d, ok := e.(*history.Delivery); ok && d.ID == p.Messages[0].ID {
			d.ID = 0
		}
	}
	return true
}

func plantProducer(g *garden) bool {
	_, p := pick(g, plain(history.OK))
	_, other := pick(g, func(o *history.Publish) bool {
		return plain(history.OK)(o) && p != nil && o.Producer == p.Producer && o != p
	})
	if other == nil {
		return false
	}
	p.Number, other.Number = other.Number, p.Number
	return true
}

func plantRealTime(g *garden) bool {
	_, p := pick(g, plain(history.OK))
	_, later := pick(g, func(o *history.Publish) bool { return p != nil && o.Outcome == history.OK && o.FirstSeq > p.FirstSeq })
	if later == nil {
		return false
	}
	p.Invoke = later.Return + 1
	p.Return = p.Invoke + 1
	return true
}

func plantCondition(g *garden) bool {
	i, p := pick(g, func(p *history.Publish) bool {
		return len(p.Pre) == 1 && p.Pre[0].Topic == "cond/x" && p.Outcome != history.Refused && p.Pre[0].LastSeq > 1 && g.seqOf(p.Messages[0].ID) != 0
	})
	if i < 0 {
		return false
	}
	p.Pre[0].LastSeq = g.rng.Uint64N(p.Pre[0].LastSeq)
	return true
}

// older is the topic's message before the one at seq: no message if there is none.
func (g *garden) older(found history.Found) []history.Found {
	stream := g.stream()
	for seq := found.Seq - 1; seq > 0; seq-- {
		if d := stream[seq]; d.Topic == found.Topic {
			return []history.Found{{Seq: seq, Topic: d.Topic, ID: d.ID}}
		}
	}
	return nil
}

func plantStale(g *garden) bool {
	i, r := pick(g, func(r *history.Read) bool {
		if r.Op != history.ReadLast || len(r.Found) == 0 || r.Topic[:5] != "last/" {
			return false
		}
		p := g.publishOf(r.Found[0].ID)
		return r.AsOf > 0 || r.MinSeq >= r.Found[0].Seq || r.Lin && p.Outcome == history.OK && p.Return < r.Invoke
	})
	if i < 0 {
		return false
	}
	r.Found = g.older(r.Found[0])
	return true
}

func plantStaleEach(g *garden) bool {
	i, r := pick(g, func(r *history.Read) bool { return r.Op == history.ReadEach && len(r.Found) > 0 && !r.Lin })
	if i < 0 {
		return false
	}
	j := g.rng.IntN(len(r.Found))
	r.Found = slices.Delete(r.Found, j, j+1)
	return true
}

func plantCoin(g *garden) bool {
	i, r := pick(g, func(r *history.Read) bool { return r.Op == history.ReadEach && len(r.Found) == accounts })
	if i < 0 {
		return false
	}
	r.Found[1].Value--
	return true
}

func plantLinear(g *garden) bool {
	i, r := pick(g, func(r *history.Read) bool {
		if r.Op != history.ReadLast || !r.Lin || len(r.Found) == 0 || r.Topic[:4] != "reg/" {
			return false
		}
		p := g.publishOf(r.Found[0].ID)
		return p.Outcome == history.OK && p.Return < r.Invoke
	})
	if i < 0 {
		return false
	}
	r.Found = g.older(r.Found[0])
	return true
}

func plantDigest(g *garden) bool {
	_, v := pick(g, func(*history.Verify) bool { return true })
	v.Nodes[g.rng.IntN(3)].Digests["window 1"] = "cc"
	v.Settled = g.rng.IntN(2) == 0
	return true
}

func plantBehind(g *garden) bool {
	_, v := pick(g, func(*history.Verify) bool { return true })
	if g.rng.IntN(2) == 0 {
		v.Nodes[1].Seq--
	} else {
		v.Nodes[1].Error = "no answer"
	}
	return true
}

// plantSilence adds a stretch in which attempts get no ack.
func plantSilence(g *garden) bool {
	i, end := pick(g, func(*history.End) bool { return true })
	for range 3 {
		g.insert(i, &history.Probe{Invoke: end.At, Return: end.At + DefaultAvailable/2, Outcome: history.Unknown})
		i++
		end.At += DefaultAvailable/2 + time.Second
	}
	return true
}

// plantStuck takes the last deliveries from a reader that is open at the end, and lets the run go on for long.
func plantStuck(g *garden) bool {
	_, p := pick(g, plain(history.OK))
	_, end := pick(g, func(*history.End) bool { return true })
	if p == nil {
		return false
	}
	end.At += DefaultStuck + time.Second
	const reader = 3 // of everything
	var head uint64
	g.remove(func(e history.Event) bool {
		switch e := e.(type) {
		case *history.ReaderOpened:
			if e.Reader == reader {
				head = e.Head
			}
		case *history.Delivery:
			return e.Reader == reader && e.Seq >= p.FirstSeq
		case *history.Progress:
			return e.Reader == reader && e.Seq >= p.FirstSeq
		case *history.ReaderResumed:
			return e.Reader == reader && e.After >= p.FirstSeq
		}
		return false
	})
	return head < p.FirstSeq
}

func plantEnd(g *garden) bool {
	_, e := pick(g, func(*history.ReaderEnded) bool { return true })
	e.Code = "internal"
	return true
}
