package e2e

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/wire"
)

// TestCase08TinyBufferBurst: elsewhere, a client lost messages silently when its buffer overflowed. Here a burst at a reader
// with the smallest buffer arrives whole; and where frames are lost on the way on purpose, the chain of previous seqs shows it
// and nothing is delivered past the gap.
func TestCase08TinyBufferBurst(t *testing.T) {
	t.Parallel()
	w := start(t, 3, func(w *world) { w.tip = wholeTip })
	c := w.connect()
	lossy := &dropper{every: 7}
	d := w.connect(func(o *client.Options) { o.Dial = lossy.dial })
	x := w.writer(c, "w", client.ProducerOptions{})
	open := func(c *client.Client, name string) *session {
		s, err := w.subscribe(c, name, client.SubscribeOptions{Filters: []string{"burst/**"}, From: client.Now(), BufferBytes: 1})
		w.must(err)
		return s
	}
	tiny, holes := open(c, "tiny"), open(d, "holes")
	lossy.on.Store(true)
	for i := range 20_000 {
		x.publish(fmt.Sprint("burst/", i%10), fmt.Append(nil, i))
		if i%10 == 0 {
			x.publish("other/x", fmt.Append(nil, i))
		}
	}
	x.flush()
	w.readTo([]*session{holes}, 10_000)
	for lossy.dropped.Load() == 0 { // the burst came in frames too large to lose: these come one by one
		x.publish("burst/1", []byte("more"))
		x.flush()
	}
	lossy.on.Store(false)
	x.publish("burst/0", []byte("last")) // a gap is seen by what follows on it
	x.close()
	sessions := []*session{tiny, holes}
	w.readTo(sessions, w.ledger.head.Load())
	gaps := holes.sub.Stats().Gaps
	if n := tiny.sub.Stats().Gaps; n != 0 {
		t.Errorf("the connection was whole, but %d gaps were seen", n)
	}
	if gaps == 0 || gaps > uint64(lossy.dropped.Load()) {
		t.Errorf("%d frames were dropped, %d gaps were seen", lossy.dropped.Load(), gaps)
	}
	t.Logf("%d frames were dropped, %d gaps were seen", lossy.dropped.Load(), gaps)
	stream := w.audit()
	for _, s := range sessions {
		s.close()
		s.check(stream)
	}
}

// loseBelow is the size of frames that may be lost: half of the smallest buffer. A frame that takes all the credit is followed by nothing
// that would show its loss.
const loseBelow = 2 << 10

// dropper opens connections that lose every so manieth of the smaller DATA frames on the way to the client.
type dropper struct {
	every   int
	on      atomic.Bool
	seen    atomic.Int64
	dropped atomic.Int64
}

func (d *dropper) dial(ctx context.Context, addr string) (net.Conn, error) {
	var dialer net.Dialer
	nc, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &lossyConn{Conn: nc, d: d}, nil
}

// lossyConn is the client's end of a connection that loses frames.
type lossyConn struct {
	net.Conn
	d *dropper

	mu  sync.Mutex // held while reading
	in  []byte     // read and not yet looked at
	out []byte     // frames to hand on
}

func (c *lossyConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		buf := make([]byte, 64<<10)
		n, err := c.Conn.Read(buf)
		c.in = append(c.in, buf[:n]...)
		if c.frames(); len(c.out) == 0 && err != nil {
			return 0, err
		}
	}
	n := copy(p, c.out)
	c.out = c.out[n:]
	return n, nil
}

// frames moves whole frames on.
func (c *lossyConn) frames() {
	for len(c.in) >= wire.HeaderSize {
		size := int(uint32(c.in[0]) | uint32(c.in[1])<<8 | uint32(c.in[2])<<16 | uint32(c.in[3])<<24)
		if len(c.in) < size {
			return
		}
		if wire.Type(c.in[5]) == wire.TData && size < loseBelow && c.d.on.Load() && c.d.seen.Add(1)%int64(c.d.every) == 0 {
			c.d.dropped.Add(1)
		} else {
			c.out = append(c.out, c.in[:size]...)
		}
		c.in = c.in[size:]
	}
}
