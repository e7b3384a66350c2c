package network

import (
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// link is one direction between two nodes and the connections that carry it.
type link struct {
	mu      sync.Mutex
	cut     bool
	shape   Shape
	changed chan struct{} // closed when cut or shape change
	rand    *rand.Rand
	conns   map[*relayed]bool // open
	free    time.Time         // when the bandwidth has room for the next byte
}

func newLink(r *rand.Rand) *link {
	return &link{changed: make(chan struct{}), rand: r, conns: map[*relayed]bool{}}
}

func (s *link) set(f func(*link)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s)
	close(s.changed)
	s.changed = make(chan struct{})
}

// state is what holds now, and what tells when it does no more.
func (s *link) state() (cut bool, shape Shape, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut, s.shape, s.changed
}

// delay decides how long a piece of so many bytes takes.
func (s *link) delay(bytes int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.shape.Delay
	if s.shape.Jitter > 0 {
		d += time.Duration(s.rand.Int64N(int64(s.shape.Jitter)))
	}
	if rate := s.shape.BytesPerSecond; rate > 0 {
		now := time.Now()
		if s.free.Before(now) {
			s.free = now
		}
		s.free = s.free.Add(time.Duration(bytes) * time.Second / time.Duration(rate))
		d += s.free.Sub(now)
	}
	return d
}

// loses decides whether a datagram is lost.
func (s *link) loses() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cut || s.rand.Float64() < s.shape.DropPackets
}

func (s *link) add(c *relayed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = true
}

func (s *link) remove(c *relayed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

// reset breaks all connections.
func (s *link) reset() {
	s.mu.Lock()
	conns := make([]*relayed, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		c.reset()
	}
}

// relayed is one connection through a relay.
type relayed struct {
	dialer, listener *net.TCPConn
	once             sync.Once
	ended            chan struct{}
}

// reset ends both halves with a TCP reset.
func (c *relayed) reset() {
	c.once.Do(func() {
		close(c.ended)
		for _, half := range []*net.TCPConn{c.dialer, c.listener} {
			// What fails is closed already.
			_ = half.SetLinger(0)
			_ = half.Close()
		}
	})
}
