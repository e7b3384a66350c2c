package cluster

import (
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// simNet is the network of a simulated cluster: hosts with addresses, links that can be cut in each direction, latency. A
// connection over a cut link stalls and goes on when the link is mended, as TCP does; packets over it are lost.
type simNet struct {
	mu    sync.Mutex
	rng   *rand.Rand
	hosts map[string]*simHost
	cut   map[[2]string]bool // from, to
	slow  time.Duration      // latency at most
	// Machines that are paused: what is sent to them and by them stands still, and held are the packets of gossip.
	paused map[string]bool
	held   []func()
}

const simLatency = 2 * time.Millisecond

// simHost is one machine's place in the network.
type simHost struct {
	net      *simNet
	ip       string
	listener *simListener
	gossip   *simGossip
	conns    map[*simConn]bool
	down     bool
}

func newSimNet(rng *rand.Rand) *simNet {
	return &simNet{rng: rng, hosts: map[string]*simHost{}, cut: map[[2]string]bool{}, slow: simLatency, paused: map[string]bool{}}
}

// boot gives a machine its place, anew after a crash.
func (n *simNet) boot(ip string) *simHost {
	h := &simHost{net: n, ip: ip, conns: map[*simConn]bool{}}
	h.gossip = &simGossip{host: h, packets: make(chan *memberlist.Packet, 256), streams: make(chan net.Conn, 64)}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[ip] = h
	return h
}

func (n *simNet) latencyLocked() time.Duration {
	return 50*time.Microsecond + time.Duration(n.rng.Int64N(int64(n.slow)+1))
}

// setCut cuts or mends one direction.
func (n *simNet) setCut(from, to string, cut bool) {
	n.mu.Lock()
	n.cut[[2]string{from, to}] = cut
	n.mu.Unlock()
	n.wakeAll()
}

func (n *simNet) setLatency(most time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = most
}

// setPaused holds what a machine sends and is sent, or lets it go on its way.
func (n *simNet) setPaused(ip string, paused bool) {
	n.mu.Lock()
	n.paused[ip] = paused
	var held []func()
	if !paused {
		held, n.held = n.held, nil
	}
	n.mu.Unlock()
	for _, send := range held {
		send()
	}
	n.wakeAll()
}

func (n *simNet) mend() {
	n.mu.Lock()
	clear(n.cut)
	n.mu.Unlock()
	n.wakeAll()
}

func (n *simNet) wakeAll() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		for c := range h.conns {
			c.in.wake()
		}
	}
}

func (n *simNet) isCut(from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cut[[2]string{from, to}] || n.paused[from] || n.paused[to]
}

// fall takes the machine out of the network: its connections are reset on both sides.
func (h *simHost) fall() {
	h.net.mu.Lock()
	h.down = true
	var conns []*simConn
	for c := range h.conns {
		conns = append(conns, c, c.peer)
	}
	h.net.mu.Unlock()
	for _, c := range conns {
		c.reset()
	}
}

func (h *simHost) listen(addr string) (net.Listener, error) {
	l := &simListener{addr: addr, accepts: make(chan net.Conn, 64), done: make(chan struct{})}
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.listener = l
	return l, nil
}

// dial connects to the raft listener of another host.
func (h *simHost) dial(addr string, limit time.Duration) (net.Conn, error) {
	return h.connect(addr, limit, func(to *simHost) chan<- net.Conn {
		if to.listener == nil {
			return nil
		}
		return to.listener.accepts
	})
}

func (h *simHost) connect(addr string, limit time.Duration, port func(*simHost) chan<- net.Conn) (net.Conn, error) {
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(limit)
	for h.net.isCut(h.ip, ip) || h.net.isCut(ip, h.ip) {
		if !time.Now().Before(deadline) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
		}
		time.Sleep(50 * time.Millisecond)
	}
	h.net.mu.Lock()
	latency := h.net.latencyLocked()
	h.net.mu.Unlock()
	time.Sleep(latency)
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	to := h.net.hosts[ip]
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	if h.down || to == nil || to.down || port(to) == nil {
		return nil, refused
	}
	a, b := newSimPair(h, to)
	select {
	case port(to) <- b:
		h.conns[a], to.conns[b] = true, true
		return a, nil
	default:
		return nil, refused
	}
}

type simListener struct {
	addr    string
	accepts chan net.Conn
	done    chan struct{}
	once    sync.Once
}

func (l *simListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepts:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *simListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *simListener) Addr() net.Addr { return advertisedAddr(l.addr) }

// simConn is one end of a connection. What it is sent stands in its in.
type simConn struct {
	host *simHost
	peer *simConn
	in   simPipe
}

func newSimPair(a, b *simHost) (x, y *simConn) {
	x, y = &simConn{host: a}, &simConn{host: b}
	x.peer, y.peer = y, x
	x.in.init()
	y.in.init()
	return x, y
}

// simPipe is one direction's bytes on their way.
type simPipe struct {
	mu       sync.Mutex
	chunks   []simChunk
	last     time.Time // arrival of the last chunk: none overtakes
	eof      bool
	broken   bool
	deadline time.Time
	news     chan struct{} // capacity 1
}

type simChunk struct {
	at   time.Time
	data []byte
}

func (p *simPipe) init() { p.news = make(chan struct{}, 1) }

func (p *simPipe) wake() { kick(p.news) }

func (p *simPipe) change(do func()) {
	p.mu.Lock()
	do()
	p.mu.Unlock()
	p.wake()
}

func (c *simConn) Write(b []byte) (int, error) {
	n := c.host.net
	n.mu.Lock()
	latency, down := n.latencyLocked(), c.host.down
	n.mu.Unlock()
	p := &c.peer.in
	err := error(nil)
	p.change(func() {
		if down || p.broken || p.eof {
			err = syscall.ECONNRESET
			return
		}
		at := time.Now().Add(latency)
		if at.Before(p.last) {
			at = p.last
		}
		p.last = at
		p.chunks = append(p.chunks, simChunk{at, append([]byte(nil), b...)})
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *simConn) Read(b []byte) (int, error) {
	for {
		n, wait, err := c.tryRead(b)
		if n > 0 || err != nil {
			return n, err
		}
		if wait <= 0 {
			<-c.in.news
			continue
		}
		t := time.NewTimer(wait)
		select {
		case <-c.in.news:
		case <-t.C:
		}
		t.Stop()
	}
}

// tryRead returns what has arrived, or for how long there is nothing to look for; 0: until news.
func (c *simConn) tryRead(b []byte) (n int, wait time.Duration, err error) {
	cut := c.host.net.isCut(c.peer.host.ip, c.host.ip)
	p := &c.in
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.broken {
		return 0, 0, syscall.ECONNRESET
	}
	if !p.deadline.IsZero() {
		if wait = p.deadline.Sub(now); wait <= 0 {
			return 0, 0, os.ErrDeadlineExceeded
		}
	}
	switch {
	case cut:
	case len(p.chunks) == 0:
		if p.eof {
			return 0, 0, io.EOF
		}
	case p.chunks[0].at.After(now):
		if d := p.chunks[0].at.Sub(now); wait == 0 || d < wait {
			wait = d
		}
	default:
		first := &p.chunks[0]
		n = copy(b, first.data)
		if first.data = first.data[n:]; len(first.data) == 0 {
			p.chunks = p.chunks[1:]
		}
	}
	return n, wait, nil
}

func (c *simConn) reset() { c.in.change(func() { c.in.broken = true }) }

func (c *simConn) Close() error {
	n := c.host.net
	n.mu.Lock()
	delete(c.host.conns, c)
	n.mu.Unlock()
	c.peer.in.change(func() { c.peer.in.eof = true })
	c.reset()
	return nil
}

func (c *simConn) SetReadDeadline(t time.Time) error {
	c.in.change(func() { c.in.deadline = t })
	return nil
}

func (c *simConn) SetWriteDeadline(time.Time) error { return nil } // writes never wait
func (c *simConn) SetDeadline(t time.Time) error    { return c.SetReadDeadline(t) }
func (c *simConn) LocalAddr() net.Addr              { return advertisedAddr(c.host.ip + ":1") }
func (c *simConn) RemoteAddr() net.Addr             { return advertisedAddr(c.peer.host.ip + ":1") }

// simGossip is a host's port of gossip.
type simGossip struct {
	host    *simHost
	packets chan *memberlist.Packet
	streams chan net.Conn
}

const simGossipPort = 4793

func (g *simGossip) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return net.ParseIP(g.host.ip).To4(), simGossipPort, nil
}

func (g *simGossip) WriteTo(b []byte, addr string) (time.Time, error) {
	n, now := g.host.net, time.Now()
	ip, _, err := net.SplitHostPort(addr)
	if err != nil {
		return now, err
	}
	packet := &memberlist.Packet{Buf: append([]byte(nil), b...), From: advertisedAddr(net.JoinHostPort(g.host.ip, strconv.Itoa(simGossipPort)))}
	n.mu.Lock()
	defer n.mu.Unlock()
	if !g.host.down && !n.cut[[2]string{g.host.ip, ip}] && n.rng.IntN(100) > 0 {
		time.AfterFunc(n.latencyLocked(), func() { n.deliver(g.host.ip, ip, packet) })
	}
	return now, nil
}

// deliver hands a packet to a machine, if it is there.
func (n *simNet) deliver(from, ip string, packet *memberlist.Packet) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused[from] || n.paused[ip] {
		n.held = append(n.held, func() { n.deliver(from, ip, packet) })
		return
	}
	if to := n.hosts[ip]; to != nil && !to.down {
		packet.Timestamp = time.Now()
		select {
		case to.gossip.packets <- packet:
		default:
		}
	}
}

func (g *simGossip) DialTimeout(addr string, limit time.Duration) (net.Conn, error) {
	return g.host.connect(addr, limit, func(to *simHost) chan<- net.Conn { return to.gossip.streams })
}

func (g *simGossip) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return g.WriteTo(b, a.Addr)
}

func (g *simGossip) DialAddressTimeout(a memberlist.Address, limit time.Duration) (net.Conn, error) {
	return g.DialTimeout(a.Addr, limit)
}

func (g *simGossip) PacketCh() <-chan *memberlist.Packet { return g.packets }
func (g *simGossip) StreamCh() <-chan net.Conn           { return g.streams }
func (g *simGossip) Shutdown() error                     { return nil }
