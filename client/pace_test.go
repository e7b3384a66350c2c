package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
	"github.com/cantus-bus/cantus/internal/bubble"
)

// many is more faults than a test can use up.
const many = 20_000

// TestRefusedPublishesArePaced has a server that answers "not now" later than the first pauses between attempts are long.
func TestRefusedPublishesArePaced(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		r := newRig(t, fake.Options{})
		p := r.producer(client.ProducerOptions{})
		r.b.Delay(10 * time.Millisecond)
		r.b.FailPublishes(many, client.CodeDiskFull, false)
		r.must(p.Publish(r.ctx, "a", nil))
		time.Sleep(10 * time.Second)
		if n := p.Stats().Relinked; n < 10 || n > 60 {
			t.Errorf("sent again %d times in 10 s", n)
		}
		r.b.ClearFaults()
		r.must(p.Close(r.ctx))
	})
}

// TestNewsDoNotHurry has leaders that change without end, each of which refuses.
func TestNewsDoNotHurry(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		r := newRig(t, fake.Options{Nodes: 3})
		p := r.producer(client.ProducerOptions{})
		r.b.FailPublishes(many, client.CodeUnavailable, false)
		r.must(p.Publish(r.ctx, "a", nil))
		for i := range 10_000 {
			r.b.SetLeader(i % 3)
			time.Sleep(time.Millisecond)
		}
		if n := p.Stats().Relinked; n < 10 || n > 2000 {
			t.Errorf("sent again %d times in 10 s", n)
		}
		r.b.ClearFaults()
		r.must(p.Close(r.ctx))
	})
}

// doomed is a DialFunc whose connections end as soon as nobody has anything to do, and counts them.
type doomed struct {
	dial  client.DialFunc
	on    atomic.Bool
	dials atomic.Int64
}

func (d *doomed) Dial(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.dial(ctx, addr)
	if err == nil && d.on.Load() {
		d.dials.Add(1)
		time.AfterFunc(time.Microsecond, func() { _ = c.Close() })
	}
	return c, err
}

// TestLostSubscriptionsArePaced has servers that accept a subscription and whose connections end then, each time.
func TestLostSubscriptionsArePaced(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		d := &doomed{}
		r := newRig(t, fake.Options{Nodes: 2}, func(o *client.Options) { d.dial, o.Dial, o.RetryTimeout = o.Dial, d.Dial, time.Second })
		s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}})
		_, err := s.NextBatch(r.ctx) // that it has caught up
		r.must(err)
		d.on.Store(true)
		r.b.DropConns(0)
		r.b.DropConns(1)
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
		defer cancel()
		_, err = s.NextBatch(ctx)
		r.wantError(err, context.DeadlineExceeded) // and not an error of the subscription: that could go on
		if n := d.dials.Load(); n < 10 || n > 80 {
			t.Errorf("%d connections in 10 s", n)
		}
		d.on.Store(false)
		r.publish("a", 1)
		r.wantPayloads(s, 0, 1)
	})
}

// TestCloseEndsTheSearch closes a subscription that looks for a server while there is none.
func TestCloseEndsTheSearch(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		r := newRig(t, fake.Options{}, func(o *client.Options) { o.RetryTimeout = -1 })
		s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}})
		_, err := s.NextBatch(r.ctx) // that it has caught up
		r.must(err)
		r.b.Stop(0)
		time.AfterFunc(5*time.Second, func() { _ = s.Close() })
		_, err = s.NextBatch(r.ctx)
		r.wantError(err, client.ErrClosed)
	})
}
