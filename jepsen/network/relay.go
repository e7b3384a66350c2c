package network

import (
	"net"
	"time"
)

const (
	pieceBytes  = 16 << 10
	pieces      = 64 // on their way on one connection and direction
	dialTimeout = time.Second
	datagram    = 64 << 10
)

// relayTCP passes connections to addr on to target, which is n's.
func (p *Proxy) relayTCP(n *proxied, addr, target string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	n.close = append(n.close, l.Close)
	p.relays.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed: a listener on loopback fails for no other reason
			}
			p.relays.Go(func() { p.serve(c.(*net.TCPConn), n, target) })
		}
	})
	return nil
}

// serve relays one connection until it ends.
func (p *Proxy) serve(dialer *net.TCPConn, n *proxied, target string) {
	from := p.owner(dialer.RemoteAddr().(*net.TCPAddr), dialer.LocalAddr().(*net.TCPAddr))
	there, back := p.link(Link{from, n.node}), p.link(Link{n.node, from})
	// A dial through a cut gets no answer until the cut ends.
	if !there.passable(p.ctx.Done()) || !back.passable(p.ctx.Done()) {
		_ = dialer.Close()
		return
	}
	c, err := net.DialTimeout("tcp", target, dialTimeout)
	if err != nil {
		_ = dialer.SetLinger(0) // refused there is refused here
		_ = dialer.Close()
		return
	}
	r := &relayed{dialer: dialer, listener: c.(*net.TCPConn), ended: make(chan struct{})}
	there.add(r)
	back.add(r)
	defer there.remove(r)
	defer back.remove(r)
	if p.ctx.Err() != nil {
		r.reset()
	}
	p.relays.Go(func() { p.age(r, there) })
	done := make(chan struct{}, 2)
	p.relays.Go(func() { r.pump(there, dialer, r.listener); done <- struct{}{} })
	p.relays.Go(func() { r.pump(back, r.listener, dialer); done <- struct{}{} })
	<-done
	<-done
	r.reset()
}

// passable waits until a link is not cut; false: stop came first.
func (s *link) passable(stop <-chan struct{}) bool {
	for {
		cut, _, changed := s.state()
		if !cut {
			return true
		}
		select {
		case <-changed:
		case <-stop:
			return false
		}
	}
}

// age resets a connection when its time has come.
func (p *Proxy) age(r *relayed, s *link) {
	for {
		_, shape, changed := s.state()
		var due <-chan time.Time
		if every := shape.ResetEvery; every > 0 {
			p.mu.Lock()
			due = time.After(every/2 + time.Duration(p.rand.Int64N(int64(every))))
			p.mu.Unlock()
		}
		select {
		case <-due:
			r.reset()
			return
		case <-changed:
		case <-r.ended:
			return
		}
	}
}

// piece is bytes on their way.
type piece struct {
	bytes []byte
	due   time.Time
}

// pump carries one direction. An end of one side's stream is passed on as such.
func (r *relayed) pump(s *link, from, to *net.TCPConn) {
	queue := make(chan piece, pieces)
	go func() {
		defer close(queue)
		for {
			b := make([]byte, pieceBytes)
			n, err := from.Read(b)
			if n > 0 {
				select {
				case queue <- piece{b[:n], time.Now().Add(s.delay(n))}:
				case <-r.ended:
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	broken := false
	for next := range queue { // always to its end, so that the reader ends
		broken = broken || !r.deliver(s, next, to)
	}
	if !broken {
		_ = to.CloseWrite()
	}
}

// deliver writes a piece when it is due and the link lets it through.
func (r *relayed) deliver(s *link, next piece, to *net.TCPConn) bool {
	if wait := time.Until(next.due); wait > 0 {
		select {
		case <-time.After(wait):
		case <-r.ended:
			return false
		}
	}
	if !s.passable(r.ended) {
		return false
	}
	if _, err := to.Write(next.bytes); err != nil {
		r.reset()
		return false
	}
	return true
}

// relayUDP passes datagrams for n's gossip on.
func (p *Proxy) relayUDP(n *proxied) error {
	c, err := net.ListenPacket("udp", n.place.Gossip)
	if err != nil {
		return err
	}
	n.close = append(n.close, c.Close)
	target, err := net.ResolveUDPAddr("udp", n.place.Listen.Gossip)
	if err != nil {
		return err
	}
	p.relays.Go(func() {
		for {
			b := make([]byte, datagram)
			size, from, err := c.ReadFrom(b)
			if err != nil {
				return
			}
			s := p.link(Link{p.gossiper(from.String()), n.node})
			if s.loses() {
				continue
			}
			send := func() { _, _ = c.WriteTo(b[:size], target) } // a datagram may be lost
			if d := s.delay(size); d > 0 {
				time.AfterFunc(d, send)
			} else {
				send()
			}
		}
	})
	return nil
}

// gossiper finds the node that sends datagrams from an address.
func (p *Proxy) gossiper(addr string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for node, n := range p.nodes {
		if n.place.Listen.Gossip == addr {
			return node
		}
	}
	return foreign
}
