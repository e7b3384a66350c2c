package transport_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// churner opens, credits and ends subscriptions at random, and holds every frame against the rules of its feed.
type churner struct {
	p     *peer
	r     *rand.Rand
	feeds map[uint32]*feed
	next  uint32
}

func (c *churner) act() {
	switch n := c.r.IntN(10); {
	case n < 3 && len(c.feeds) < 20:
		c.next++
		s := wire.Subscribe{Filters: randomFilters(c.r), Credit: c.r.Uint64N(20_000)}
		if c.r.IntN(2) == 0 {
			s.Start = wire.StartNow
		}
		c.feeds[c.next] = &feed{id: c.next}
		c.p.send(wire.AppendSubscribe(nil, c.next, &s))
	case n < 8:
		for id := range c.feeds {
			c.p.send(wire.AppendCredit(nil, id, c.r.Uint64N(50_000)))
		}
	default:
		for id := range c.feeds {
			c.p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, id))
			break
		}
	}
	// The pong comes after whatever the server had for us when it read the ping.
	c.p.send(wire.AppendEmpty(nil, wire.TPing, 0))
}

// hear takes frames up to the pong.
func (c *churner) hear(t *testing.T) bool {
	for {
		fr, err := c.p.next()
		if err != nil {
			t.Error(err)
			return false
		}
		if fr.Type == wire.TPong {
			return true
		}
		d := c.feeds[fr.ID]
		if d == nil {
			t.Errorf("%v of subscription %d, which has ended", fr.Type, fr.ID)
			return false
		}
		if err := d.take(c.p, fr); err != nil {
			t.Errorf("subscription %d: %v", fr.ID, err)
			return false
		}
		if d.ended != nil {
			delete(c.feeds, fr.ID)
		}
	}
}

// TestChurn: several connections open, starve, feed and end subscriptions while the ring turns over under them.
func TestChurn(t *testing.T) {
	f := start(t, smallRing, func(s *setup) { s.options.Progress = 2 * time.Millisecond; s.options.Quantum = 8 << 10 })
	var m model
	r := rand.New(rand.NewPCG(1, 1))
	w := f.write(&m, func(int) []message {
		list := make([]message, 1+r.IntN(8))
		for i := range list {
			list[i] = message{randomTopic(r), string(make([]byte, r.IntN(4000)))}
		}
		return list
	})
	var wait sync.WaitGroup
	for seed := range uint64(4) {
		c := &churner{p: f.connect(), r: rand.New(rand.NewPCG(seed, 2)), feeds: map[uint32]*feed{}}
		wait.Go(func() {
			for range 150 {
				if c.act(); !c.hear(t) {
					return
				}
			}
			c.p.nc.Close()
		})
	}
	wait.Wait()
	w.end()
	eventually(t, "nothing is left", func() bool { return f.metric("connections") == 0 && f.metric("subscriptions") == 0 })
	if n := f.broker.Stream().Tip().Stats().PinnedChunks; n != 0 {
		t.Errorf("%d chunks are still pinned", n)
	}
}
