package e2e

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// shortWait ends a read so that the reader can look around.
const shortWait = 50 * time.Millisecond

// reader reads a part of a run's stream in one session after the other.
type reader struct {
	*run
	c    *client.Client
	r    *rand.Rand
	name string
	cur  *session
}

// options are random, but for the place.
func (x *reader) options() client.SubscribeOptions {
	o := client.SubscribeOptions{Filters: randomFilters(x.r), BufferBytes: 4 << (10 + x.r.IntN(9))}
	switch x.r.IntN(3) {
	case 0:
		o.PreferFollower = true
	case 1:
		o.Node = x.someAddr(x.r)
	}
	return o
}

// start opens the first session, anywhere.
func (x *reader) start(o client.SubscribeOptions) bool {
	o.MinSeq = x.ledger.head.Load()
	switch x.r.IntN(4) {
	case 0:
		return x.open(o, true)
	case 1:
		o.From = client.Now()
		return x.open(o, false)
	}
	o.From = client.Seq(1 + x.r.Uint64N(o.MinSeq+1))
	return x.open(o, false)
}

// open opens a session. If the place has left the ring it goes on at the oldest that is kept.
func (x *reader) open(o client.SubscribeOptions, first bool) bool {
	for {
		s, err := x.subscribe(x.c, x.name, o)
		s.first = first
		x.mu.Lock()
		x.sessions = append(x.sessions, s)
		x.mu.Unlock()
		if err == nil {
			x.cur = s
			return true
		}
		if !x.fellOff(s, err) {
			return false
		}
		o.From = client.Seq(s.gone)
	}
}

// fellOff says whether err is the one that slow readers must expect where no history is kept.
func (x *reader) fellOff(s *session, err error) bool {
	if errors.Is(err, client.ErrGone) && s.gone != 0 && !x.history {
		return true
	}
	x.Errorf("%s: %v", x.name, err)
	return false
}

// resumeAt ends the session and goes on after its position with the same filters, at whatever node.
func (x *reader) resumeAt(seq uint64) bool {
	x.cur.close()
	o := x.cur.o
	o.From, o.MinSeq = client.Seq(seq), 0
	if x.r.IntN(2) == 0 {
		o.MinSeq = x.ledger.head.Load()
	}
	return x.open(o, false)
}

// done says whether the reader has read everything.
func (x *reader) done() bool { return x.ended.Load() && x.cur.upTo >= x.head }

// step reads a little, in one of the two ways. False: the reader cannot go on.
func (x *reader) step() bool {
	var err error
	if x.r.IntN(2) == 0 {
		err = x.cur.batch(shortWait)
	} else {
		err = x.cur.messages(1+x.r.IntN(50), shortWait)
	}
	if err == nil {
		return true
	}
	return x.fellOff(x.cur, err) && x.resumeAt(x.cur.gone)
}

// finish reads to the end. The last session must have caught up.
func (x *reader) finish() {
	var end time.Time // counts from the end of the writers
	for !x.done() {
		if !x.step() {
			return
		}
		switch {
		case !x.ended.Load():
		case end.IsZero():
			end = time.Now().Add(patience)
		case time.Now().After(end):
			x.Errorf("%s: stands at %d of %d, filters %q", x.name, x.cur.upTo, x.head, x.cur.o.Filters)
			return
		}
	}
	x.cur.noteCaughtUp()
	x.cur.close()
}

// follow reads as fast as it can.
func (x *reader) follow() {
	if x.start(x.options()) {
		x.finish()
	}
}

// resume stops again and again and goes on at the mark where it stopped.
func (x *reader) resume() {
	if !x.start(x.options()) {
		return
	}
	for !x.ended.Load() {
		for range x.r.IntN(20) {
			if !x.step() {
				return
			}
		}
		if !x.resumeAt(x.cur.sub.Position() + 1) {
			return
		}
	}
	x.finish()
}

// sleep takes little ahead, and at times nothing until the ring has turned over.
func (x *reader) sleep() {
	o := x.options()
	o.BufferBytes, o.Filters = 4<<10, append(o.Filters, "**")
	if !x.start(o) {
		return
	}
	for !x.ended.Load() {
		for range x.r.IntN(10) {
			if !x.step() {
				return
			}
		}
		until := x.ledger.bytes.Load() + smallTip.SizeBytes/2 + x.r.Int64N(smallTip.SizeBytes)
		for x.ledger.bytes.Load() < until && !x.ended.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	x.finish()
}
