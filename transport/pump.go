package transport

import (
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// pump writes everything that a connection sends after its handshake. One goroutine; it owns the opened subscriptions.
//
// A turn takes what is ready (at most one frame of each subscription, up to Options.WriteBatch), then the replies, and
// writes replies and frames in this order. It sleeps when there is nothing to send.
type pump struct {
	c   *conn
	out outgoing

	// round is the ready subscriptions being served, round[next:] those that still are to be.
	round []*subscription
	next  int

	spare    []byte // for replies.take
	seen     seen
	names    []wire.TopicName
	now      time.Time // of this turn
	topology uint64    // version last sent
	goodbye  bool      // GOODBYE was sent

	clock clock
}

// pump runs until the connection is over. topology is the version that the welcome told.
func (c *conn) pump(topology uint64) {
	defer close(c.pumpDone)
	p := &pump{c: c, topology: topology, now: time.Now()}
	p.out.pool = &c.server.buffers
	p.clock.start(p)
	defer p.clock.stop()
	defer p.out.park()
	defer p.out.release()
	for p.turn() {
	}
}

// turn is one round of gathering and writing; false is the end.
func (p *pump) turn() bool {
	p.now = time.Now()
	p.out.reset()
	if !p.clock.check(p) {
		return false
	}
	last := p.c.finishing.Load() // before the replies are taken: they then hold the last frame
	if !last {
		p.serveReady()
		p.sayTopology()
		p.sayGoodbye()
	}
	replies, cost := p.c.replies.take(p.spare)
	wrote := p.out.start(replies)
	if wrote && !p.write() {
		return false
	}
	p.out.release()
	p.keep(replies)
	p.c.settleBytes(cost)
	p.c.madeRoom()
	return !last && p.goOn(wrote)
}

// goOn decides what follows a turn.
func (p *pump) goOn(wrote bool) bool {
	switch {
	case p.goodbye && p.drained():
		p.leave()
		return false
	case wrote || p.more():
		return p.c.ctx.Err() == nil
	}
	return p.sleep()
}

// keep makes the written replies' buffer the next spare.
func (p *pump) keep(replies []byte) {
	if replies != nil {
		p.spare = replies
	}
	if cap(p.spare) > keepReplies {
		p.spare = nil
	}
}

// sleep waits for something to do. A sleeping connection holds no write buffer.
func (p *pump) sleep() bool {
	p.out.park()
	select {
	case <-p.c.wake:
	case <-p.clock.timer.C:
		p.clock.due = true
	case <-p.c.ctx.Done():
		return false
	}
	return true
}

// more says whether subscriptions wait for their turn.
func (p *pump) more() bool { return p.next < len(p.round) || !p.c.ready.empty() }

// serveReady gives each ready subscription one turn, as far as the write has room. One that is served twice would have to
// give back its first view before the write.
func (p *pump) serveReady() {
	if p.next == len(p.round) {
		p.round, p.next = p.c.ready.take(p.round), 0
	}
	for p.next < len(p.round) && p.out.bytes < p.c.opts.WriteBatch {
		s := p.round[p.next]
		p.round[p.next] = nil
		p.next++
		s.queued.Store(false)
		p.serve(s)
	}
}

// sayTopology sends the newest topology if the client has an older one.
func (p *pump) sayTopology() {
	if t := p.c.server.topology.Load(); t != nil && t.version > p.topology {
		p.topology = t.version
		p.out.own = append(p.out.own, t.frame...)
		p.c.metrics.frameOut[wire.TTopology].Inc()
	}
}

func (p *pump) sayGoodbye() {
	if !p.goodbye && p.c.leaving.Load() {
		p.goodbye = true
		p.say(wire.TGoodbye)
	}
}

// say adds a frame without a body.
func (p *pump) say(t wire.Type) {
	p.out.own = wire.AppendEmpty(p.out.own, t, 0)
	p.c.metrics.frameOut[t].Inc()
}

// drained says whether a leaving connection owes its client nothing more. The reading goroutine counts a batch before it
// looks at leaving, and a producer or a query until its answer is queued, so nothing can slip in between.
func (p *pump) drained() bool {
	return p.c.inflight.Load() == 0 && p.c.opening.Load() == 0 && p.c.querying.Load() == 0 && p.c.replies.size() == 0
}

// leave ends the subscriptions and the connection's sending half. The client may go on sending for as long as it takes it to
// notice; the reading goroutine drops that.
func (p *pump) leave() {
	p.out.reset()
	p.c.lane.stop()
	p.endAll(coded(wire.CodeShutdown, "this node is shutting down: resume on another one"))
	if p.out.start(nil) && !p.write() {
		return
	}
	p.out.release()
	p.c.over.Store(true)
	half, ok := p.c.nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		p.c.cancel()
		return
	}
	p.c.nc.SetReadDeadline(time.Now().Add(p.c.opts.Linger))
}
