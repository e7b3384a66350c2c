package e2e

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// TestCase17RetryStorm: elsewhere, killing the leader produced a duplicate although publishing was idempotent. Here leaders are
// killed while connections are cut all the time, so that nearly everything is sent more than once: each id is in the stream
// once, at the seq that its publisher was told.
func TestCase17RetryStorm(t *testing.T) {
	t.Parallel()
	w := start(t, 3, func(w *world) { w.tip = wholeTip })
	kills := 6
	if long() {
		kills = 60
	}
	cut := &cutter{}
	stop := make(chan struct{})
	var publishing, cutting sync.WaitGroup
	for i := range 4 {
		c := w.connect(func(o *client.Options) { o.Dial = cut.dial })
		x := w.writer(c, fmt.Sprint("w", i), client.ProducerOptions{BatchBytes: 1 << (10 + i), Linger: -1, MaxInflightMessages: 2000})
		publishing.Go(func() { x.steady(stop) })
	}
	cutting.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
				cut.all()
			}
		}
	})
	for range kills {
		before := w.ledger.count.Load()
		w.eventually("publishes to go on", func() bool { return w.ledger.count.Load() > before+500 })
		w.changeLeader(true)
	}
	close(stop)
	publishing.Wait()
	cutting.Wait()
	stream := w.audit()
	dups := w.ledger.dups.Load()
	t.Logf("%d messages, %d of them sent again although they were in the stream", len(stream), dups)
	if dups == 0 {
		t.Error("no ack came from a retry: nothing was tested")
	}
}

// cutter opens connections and cuts them all at once.
type cutter struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) dial(ctx context.Context, addr string) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns = append(c.conns, nc)
	return nc, nil
}

func (c *cutter) all() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		_ = nc.Close()
	}
	c.conns = nil
}
