package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/wire"
)

// ErrClosed is what Serve returns when the server was closed before it was called.
var ErrClosed = errors.New("transport: server is closed")

// maxAcceptDelay bounds the pause after an Accept that failed for want of resources.
const maxAcceptDelay = time.Second

// Server answers clients. NewServer, Serve (for one or several listeners), then Shutdown or Close.
type Server struct {
	opts    Options
	metrics *metrics
	pubs    sync.Pool // of *publication, shared by all connections
	buffers sync.Pool // of *[]byte: write buffers of connections that are awake

	// ctx ends with Close: it stops the topology goroutine and every connection.
	ctx    context.Context
	cancel context.CancelFunc

	topology atomic.Pointer[topologyFrame] // newest; nil until the watcher has run
	watch    sync.Once                     // starts the watcher
	refusals chan struct{}                 // a token per refused connection that is being told why

	mu struct {
		sync.Mutex
		state     serverState
		listeners map[net.Listener]struct{}
		conns     map[*conn]struct{} // Invariant: at most opts.MaxConnections
	}
	// connWG counts connections and refusals, watchWG the topology watcher. Added to under mu while state is serving.
	connWG, watchWG sync.WaitGroup
}

type serverState uint8

const (
	serving serverState = iota
	draining
	closed
)

// NewServer prepares a server; it starts nothing.
func NewServer(o Options) *Server {
	o.setDefaults()
	s := &Server{opts: o, metrics: newMetrics(o.Registry), refusals: make(chan struct{}, maxRefusals)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.buffers.New = func() any { return new([]byte) }
	s.pubs.New = func() any { return newPublication(s) }
	s.mu.listeners = make(map[net.Listener]struct{})
	s.mu.conns = make(map[*conn]struct{})
	return s
}

// Serve accepts connections on l, which it closes in the end. It returns nil after Shutdown or Close, else what Accept failed
// with.
func (s *Server) Serve(l net.Listener) error {
	if !s.addListener(l) {
		l.Close()
		return ErrClosed
	}
	defer s.removeListener(l)
	var delay time.Duration
	for {
		nc, err := l.Accept()
		switch {
		case err == nil:
			delay = 0
			s.start(nc)
		case s.stopping():
			return nil
		case !temporary(err):
			return fmt.Errorf("transport: accept on %s: %w", l.Addr(), err)
		default:
			delay = min(max(2*delay, 5*time.Millisecond), maxAcceptDelay)
			s.opts.Logger.Warn("accept failed, trying again", "listener", l.Addr(), "error", err, "delay", delay)
			pause.For(s.ctx, delay)
		}
	}
}

// temporary tells errors of Accept that pass, such as too many open files.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// ServeConn serves one connection, however it was made, and returns when it is over. The connection is closed then.
func (s *Server) ServeConn(nc net.Conn) {
	if c := s.admit(nc); c != nil {
		c.serve()
	}
}

// start serves nc on a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	if c := s.admit(nc); c != nil {
		go c.serve()
	}
}

// admit registers a connection, or turns it away and returns nil.
func (s *Server) admit(nc net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.state != serving:
		nc.Close()
	case len(s.mu.conns) >= s.opts.MaxConnections:
		s.metrics.refused.Inc()
		e := coded(wire.CodeTooManyConnections, "this node has its limit of %d connections: use another node", s.opts.MaxConnections)
		e.Detail = uint64(s.opts.MaxConnections)
		s.refuseLocked(nc, e)
	default:
		s.watch.Do(func() {
			s.watchWG.Add(1)
			go s.watchTopology()
		})
		c := newConn(s, nc)
		s.mu.conns[c] = struct{}{}
		s.connWG.Add(1)
		s.metrics.accepted.Inc()
		s.metrics.connections.Inc()
		return c
	}
	return nil
}

// refuseLocked tells a connection why it is not wanted, beside the accept loop and only if there are not too many such.
func (s *Server) refuseLocked(nc net.Conn, e *wire.Error) {
	s.metrics.protocolError(e.Code)
	select {
	case s.refusals <- struct{}{}:
	default:
		nc.Close()
		return
	}
	s.connWG.Add(1)
	go func() {
		defer s.connWG.Done()
		defer func() { <-s.refusals }()
		unhook := context.AfterFunc(s.ctx, func() { nc.Close() })
		defer unhook()
		sayLast(nc, wire.AppendError(nil, wire.TError, 0, e), s.opts.Linger)
		nc.Close()
	}()
}

// remove forgets a connection that is over.
func (s *Server) remove(c *conn) {
	s.mu.Lock()
	delete(s.mu.conns, c)
	s.mu.Unlock()
	s.metrics.connections.Dec()
	s.connWG.Done()
}

func (s *Server) addListener(l net.Listener) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state != serving {
		return false
	}
	s.mu.listeners[l] = struct{}{}
	return true
}

func (s *Server) removeListener(l net.Listener) {
	s.mu.Lock()
	delete(s.mu.listeners, l)
	s.mu.Unlock()
	l.Close()
}

func (s *Server) stopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.state != serving
}

// connections is a copy of those open now.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		list = append(list, c)
	}
	return list
}
