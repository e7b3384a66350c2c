package transport

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/wire"
)

// conn is one connection. Two goroutines run it: serve reads frames and acts on them, pump writes everything. Short-lived
// helpers wait for the log on behalf of a request, for a MinSeq or to open a producer, or answer a query.
//
// Lock order: none. subs.mu, ready.mu, lane.mu and replies.mu are leaves and are never held together.
type conn struct {
	server  *Server
	opts    *Options
	broker  cluster.Broker
	stream  *cluster.Stream
	metrics *metrics
	log     hclog.Logger

	quietRing bool // the tip is large enough for what quiet.go relies on
	nc        net.Conn

	// ctx ends when the connection is over; nc is closed then. Everything that blocks watches it.
	ctx    context.Context
	cancel context.CancelFunc

	// The reading goroutine's.
	frames    *wire.Reader
	aliases   aliases
	peer      bool // the client is a node that forwards
	heartbeat time.Duration

	received  atomic.Uint64 // bytes read so far: the sign of life
	stalled   atomic.Bool   // the reading goroutine waits for room or the broker: silence is our own doing
	opening   atomic.Int32  // OPEN_PRODUCER requests under way; Invariant: <= opts.MaxOpenProducers
	querying  atomic.Int32  // QUERY requests under way; Invariant: <= opts.MaxQueries
	inflight  atomic.Int64  // bytes of publishes whose acks are not yet written
	greeted   atomic.Bool   // the handshake is over
	leaving   atomic.Bool   // draining: no more publishes; GOODBYE was or will be said
	finishing atomic.Bool   // the last frame is in replies: the pump writes what is there and stops
	over      atomic.Bool   // the pump is done and said so to the client: what the reader still gets is dropped

	replies replies
	ready   readyQueue
	lane    lane
	wake    chan struct{} // cap 1: the pump has something to do
	room    chan struct{} // cap 1: the reading goroutine may look again whether there is room

	subs struct {
		sync.Mutex
		byID map[uint32]*subscription // Invariant: at most opts.MaxSubscriptions
	}

	pumpDone chan struct{}
	helpers  sync.WaitGroup
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		server: s, opts: &s.opts, broker: s.opts.Broker, stream: s.opts.Broker.Stream(), metrics: s.metrics, nc: nc,
		log:      s.opts.Logger.With("client", nc.RemoteAddr()),
		wake:     make(chan struct{}, 1),
		room:     make(chan struct{}, 1),
		pumpDone: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.frames = wire.NewReader(input{c}, wire.MaxHandshakeFrame)
	c.aliases.table = c.stream.Table()
	c.quietRing = c.stream.Tip().Stats().RingBytes >= minQuietRing
	c.subs.byID = make(map[uint32]*subscription)
	return c
}

// input counts what is read: per system call, not per frame.
type input struct{ c *conn }

func (i input) Read(p []byte) (int, error) {
	n, err := i.c.nc.Read(p)
	i.c.received.Add(uint64(n))
	i.c.metrics.bytesIn.Add(float64(n))
	return n, err
}

// serve runs the connection to its end.
func (c *conn) serve() {
	defer c.server.remove(c)
	unhook := context.AfterFunc(c.ctx, func() { c.nc.Close() })
	defer unhook()
	defer c.nc.Close()
	defer c.cancel()

	welcome, err := c.handshake()
	if err != nil {
		close(c.pumpDone)
		c.refuse(err)
		return
	}
	c.replies.add(func(dst []byte) []byte { return append(dst, welcome.frame...) })
	c.greeted.Store(true)
	go c.pump(welcome.topology)
	c.end(c.readFrames())
	c.release()
}

// end says the reason, if it is the client's fault, and lets the pump finish.
func (c *conn) end(err error) {
	e, told := c.fault(err)
	if !told {
		c.cancel()
		<-c.pumpDone
		return
	}
	c.log.Info("connection ended for an error of the client", "error", e)
	c.replyError(0, e)
	c.finish()
	<-c.pumpDone
	linger(c.nc, c.opts.Linger)
}

// finish makes the pump write what is in replies and stop.
func (c *conn) finish() {
	c.finishing.Store(true)
	c.signal()
}

// release frees what the connection holds. Both goroutines are done; helpers end because ctx has.
func (c *conn) release() {
	c.cancel()
	c.helpers.Wait()
	c.lane.stop()
	c.frames.Close()
	c.replies.close()
	c.metrics.inflight.Sub(float64(c.inflight.Swap(0)))
	c.closeSubscriptions()
}

// drain begins the end that Shutdown wants.
func (c *conn) drain() {
	c.leaving.Store(true)
	if !c.greeted.Load() { // after leaving: else serve sees it
		c.cancel()
	}
	c.signal()
}

// signal wakes the pump. It never blocks.
func (c *conn) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// sayLast writes the last frame of a connection that has no pump, and lets it arrive.
func sayLast(nc net.Conn, frame []byte, limit time.Duration) {
	nc.SetWriteDeadline(time.Now().Add(limit))
	if _, err := nc.Write(frame); err != nil {
		return
	}
	linger(nc, limit)
}

// linger closes our half and drops what the client still sends, until it closes too or limit is over. Closing at once
// would reset the connection while unread bytes are left, and the reset can overtake the last frame.
func linger(nc net.Conn, limit time.Duration) {
	half, ok := nc.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	nc.SetReadDeadline(time.Now().Add(limit))
	io.Copy(io.Discard, nc)
}
