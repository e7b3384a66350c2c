package client

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// maxSpareOut is the largest write buffer that a connection keeps for the next write, in bytes.
const maxSpareOut = 4 << 20

// silentBeats is how many heartbeats without a frame from the server end a connection.
const silentBeats = 3

// errWorn ends a connection whose request numbers are used up.
var errWorn = errors.New("request numbers used up")

// conn is one connection to a server, from its WELCOME on. Three goroutines serve it (readLoop, writeLoop,
// heartbeatLoop); they end after fail. None of them ever waits for a consumer or a producer: frames for subscriptions
// go to queues that credit bounds, and frames to send go to a buffer that the producers' limits bound.
type conn struct {
	c       *Client
	addr    string
	nodeID  string
	nc      net.Conn
	r       *wire.Reader
	beat    time.Duration
	names   topicNames
	done    chan struct{} // closed by fail
	wake    chan struct{} // one token: there is something to write
	leaving atomic.Bool   // the server said goodbye: no new work
	heard   atomic.Uint64 // frames read

	mu struct {
		sync.Mutex
		err     error              // why it ended; Invariant: nil exactly while done is open
		out     []byte             // frames not yet handed to the socket, whole
		lastID  uint32             // requests and subscriptions are numbered together
		pending map[uint32]pending // publishes and opens that are not answered
		links   map[uint32]*link   // subscriptions
		aliases []uint32           // by the topicTable's number: alias + 1, or 0
		nAlias  uint32             // aliases defined
		names   []string           // scratch for definitions
	}
}

// pending is a request that waits for its answer: a batch, the opening of a producer, or a query.
type pending struct {
	p      *Producer
	b      *batch
	gen    uint32
	opened chan openAnswer // not nil: an opening; room for one answer

	queried chan queryAnswer // not nil: a query; room for one answer
	op      string           // of a query, for its errors
}

type openAnswer struct {
	opened wire.ProducerOpened
	err    error
}

// usable says whether new work may go to the connection.
func (cn *conn) usable() bool {
	select {
	case <-cn.done:
		return false
	default:
		return !cn.leaving.Load()
	}
}

// fail ends the connection, once; everything that waits on it is told.
func (cn *conn) fail(err error) {
	cn.mu.Lock()
	if cn.mu.err != nil {
		cn.mu.Unlock()
		return
	}
	cn.mu.err = fmt.Errorf("server %s: %w", cn.addr, err)
	waiting, links := cn.mu.pending, cn.mu.links
	cn.mu.pending, cn.mu.links, cn.mu.out = nil, nil, nil
	err = cn.mu.err
	cn.mu.Unlock()
	_ = cn.nc.Close()
	close(cn.done)
	if !errors.Is(err, ErrClosed) {
		cn.c.log.Warn("connection lost", "server", cn.addr, "node", cn.nodeID, "cause", err)
	}
	for _, w := range waiting {
		if w.opened != nil {
			w.opened <- openAnswer{err: err}
		}
		if w.queried != nil {
			w.queried <- queryAnswer{err: err}
		}
	}
	for _, l := range links {
		l.push(item{kind: itemLost, err: err})
	}
}

// nextIDLocked numbers a request.
func (cn *conn) nextIDLocked() (uint32, error) {
	if cn.mu.err != nil {
		return 0, cn.mu.err
	}
	if cn.mu.lastID == math.MaxUint32-1 { // the last one stands for no request
		return 0, errWorn
	}
	cn.mu.lastID++
	return cn.mu.lastID, nil
}

// send queues what add appends, unless the connection has ended.
func (cn *conn) send(add func(out []byte) []byte) {
	cn.mu.Lock()
	if cn.mu.err == nil {
		cn.mu.out = add(cn.mu.out)
	}
	cn.mu.Unlock()
	cn.wakeWriter()
}

func (cn *conn) wakeWriter() {
	select {
	case cn.wake <- struct{}{}:
	default:
	}
}

// writeLoop hands the queued frames to the socket, as many at once as there are.
func (cn *conn) writeLoop() {
	var spare []byte
	for {
		select {
		case <-cn.done:
			return
		case <-cn.wake:
		}
		cn.mu.Lock()
		buf := cn.mu.out
		cn.mu.out = spare[:0]
		cn.mu.Unlock()
		if len(buf) > 0 {
			if _, err := cn.nc.Write(buf); err != nil {
				cn.fail(err)
				return
			}
		}
		if spare = buf; cap(spare) > maxSpareOut {
			spare = nil
		}
	}
}

// heartbeatLoop probes the server and ends the connection when nothing comes back.
func (cn *conn) heartbeatLoop() {
	t := time.NewTicker(cn.beat)
	defer t.Stop()
	var last uint64
	for silent := 0; ; {
		select {
		case <-cn.done:
			return
		case <-t.C:
		}
		if now := cn.heard.Load(); now != last {
			last, silent = now, 0
		} else if silent++; silent >= silentBeats {
			cn.fail(fmt.Errorf("silent for %v", time.Duration(silent)*cn.beat))
			return
		}
		cn.send(func(out []byte) []byte { return wire.AppendEmpty(out, wire.TPing, 0) })
	}
}

// dial connects, exchanges HELLO and WELCOME, and returns a connection whose goroutines are not yet running.
func (c *Client) dial(ctx context.Context, addr string) (*conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.DialTimeout)
	defer cancel()
	stop := context.AfterFunc(c.ctx, cancel)
	defer stop()
	nc, err := c.o.Dial(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", addr, err)
	}
	cn := &conn{c: c, addr: addr, nc: nc, r: wire.NewReader(nc, wire.MaxFrame),
		done: make(chan struct{}), wake: make(chan struct{}, 1)}
	cn.mu.pending = map[uint32]pending{}
	cn.mu.links = map[uint32]*link{}
	unblock := context.AfterFunc(ctx, func() { _ = nc.Close() })
	err = cn.greet()
	if !unblock() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		if ctx.Err() != nil {
			err = errors.Join(ctx.Err(), err)
		}
		return nil, fmt.Errorf("server %s: %w", addr, err)
	}
	return cn, nil
}

// greet sends HELLO and reads WELCOME.
func (cn *conn) greet() error {
	o := &cn.c.o
	hello := wire.Hello{MinVersion: wire.Version, MaxVersion: wire.Version, Role: wire.RoleClient,
		ClusterID: o.ClusterID, Client: o.Name, HeartbeatMS: uint32(o.Heartbeat.Milliseconds())}
	if _, err := cn.nc.Write(wire.AppendHello(nil, &hello)); err != nil {
		return fmt.Errorf("say hello: %w", err)
	}
	f, err := cn.r.Next()
	if err != nil {
		return fmt.Errorf("read welcome: %w", err)
	}
	switch f.Type {
	case wire.TWelcome:
	case wire.TError:
		e, err := wire.DecodeError(f.Body)
		if err != nil {
			return fmt.Errorf("read welcome: %w", err)
		}
		return remote("say hello", e)
	default:
		return &Error{Op: "read welcome", Code: CodeProtocol, Message: fmt.Sprintf("got %v", f.Type)}
	}
	w, err := wire.DecodeWelcome(f.Body)
	if err != nil {
		return fmt.Errorf("read welcome: %w", err)
	}
	if o.ClusterID != "" && w.Topology.ClusterID != o.ClusterID {
		return &Error{Op: "read welcome", Code: CodeWrongCluster,
			Message: fmt.Sprintf("want %q, the server is of %q", o.ClusterID, w.Topology.ClusterID)}
	}
	cn.nodeID = w.NodeID
	cn.beat = o.Heartbeat
	if ms := time.Duration(w.HeartbeatMS) * time.Millisecond; ms > 0 {
		cn.beat = min(max(ms, minHeartbeat), maxHeartbeat)
	}
	cn.c.learn(fromWire(&w.Topology))
	return nil
}
