package transport

import "github.com/cantus-bus/cantus/internal/wire"

// beat looks for a sign of life and asks for one if there was none; false: the client is dead. Silence does not count
// while the server itself does not read.
func (p *pump) beat() bool {
	k := &p.clock
	received := p.c.received.Load()
	if received != k.received || p.c.stalled.Load() {
		k.received, k.missed = received, 0
		return true
	}
	k.missed++
	if k.missed <= missedHeartbeats {
		p.say(wire.TPing)
		return true
	}
	p.c.metrics.deadClosed.Inc()
	p.c.log.Info("client is silent, closing its connection", "pings", missedHeartbeats, "heartbeat", p.c.heartbeat)
	p.c.cancel()
	return false
}

// tick makes every subscription look whether its position has moved, so that it can tell its progress. It costs a compare
// while the stream stands still.
func (p *pump) tick() {
	k := &p.clock
	_, fence := p.c.stream.Tip().Bounds()
	if fence == k.fence && !k.owed {
		return
	}
	k.fence, k.owed = fence, false
	for _, s := range p.c.subscriptions() {
		p.c.ready.push(s)
	}
}

// subscriptions is a copy of those registered now.
func (c *conn) subscriptions() []*subscription {
	c.subs.Lock()
	defer c.subs.Unlock()
	list := make([]*subscription, 0, len(c.subs.byID))
	for _, s := range c.subs.byID {
		list = append(list, s)
	}
	return list
}
