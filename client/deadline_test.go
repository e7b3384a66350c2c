package client_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// TestDeadlineWithoutServers ends the caller's context while no server can be reached: the error says both, and the
// subscription goes on where it was when it is asked again.
func TestDeadlineWithoutServers(t *testing.T) {
	var slow atomic.Bool // dialling takes until the caller gives up, and says something else then
	r := newRig(t, fake.Options{}, func(o *client.Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			if slow.Load() {
				<-ctx.Done()
				return nil, errors.New("no route")
			}
			return dial(ctx, addr)
		}
	})
	r.publish("a", 10)
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}})
	r.wantPayloads(s, 0, 5)
	slow.Store(true)
	r.b.Stop(0)
	ended := func() context.Context {
		ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	for err := error(nil); err == nil; { // what has arrived already comes first
		_, err = s.NextBatch(ended())
		if err != nil {
			r.wantError(err, context.DeadlineExceeded)
		}
	}
	_, err := r.c.Producer(ended(), client.ProducerOptions{})
	r.wantError(err, context.DeadlineExceeded)
	_, err = r.c.Subscribe(ended(), client.SubscribeOptions{Filters: []string{"a"}})
	r.wantError(err, context.DeadlineExceeded)
	r.b.Start(0)
	slow.Store(false)
	r.publish("a", 12)
	r.wantPayloads(s, 0, 12)
}
