package network

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/cantus-bus/cantus/internal/loopback"
)

// Proxy is a network of relays in this process.
//
//	node 0 listens on 127.0.0.1:p, says it is 127.a.b.1 ◄── relay 127.a.b.1:p ◄── dialed by the others
//
// Every port of a node is relayed: raft, gossip, the client port that takes forwarded publishes, and the control plane. The harness dials
// the latter two directly; what it dials because a node told of it goes through a relay that does it no harm. Whose connection a relay has
// accepted is found out through /proc: a node dials from any port. Datagrams come from the gossip port of their sender.
type Proxy struct {
	subnet string // "127.a.b."

	ctx    context.Context
	cancel context.CancelFunc
	relays sync.WaitGroup // of all goroutines

	mu    sync.Mutex
	nodes map[int]*proxied // Guarded by mu
	links map[Link]*link   // Guarded by mu
	rand  *rand.Rand       // Guarded by mu
}

// proxied is a node behind relays.
type proxied struct {
	node  int
	place Place
	pid   func() int
	close []func() error // of its listeners
}

// foreign is the sender of bytes whose node could not be found out; its links never have faults.
const foreign = -1

// NewProxy makes a network without nodes.
func NewProxy(seed int64) (*Proxy, error) {
	p := &Proxy{
		subnet: fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(256)), // chance: several harnesses run beside each other
		nodes:  map[int]*proxied{}, links: map[Link]*link{},
		rand: rand.New(rand.NewPCG(uint64(seed), 1)),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p, nil
}

// Name is proxy.
func (p *Proxy) Name() string { return ProxyName }

// Add makes relays for a node.
func (p *Proxy) Add(node int, pid func() int) (Place, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.nodes[node]; n != nil {
		n.pid = pid
		return n.place, nil
	}
	for tries := 1; ; tries++ {
		n, err := p.relay(node, pid)
		if err == nil {
			p.nodes[node] = n
			return n.place, nil
		}
		if tries == addTries {
			return Place{}, fmt.Errorf("make relays for node %d: %w", node, err)
		}
	}
}

// addTries bounds the draws of ports: those of a relay may be another harness's by chance.
const addTries = 5

// relay makes the relays of a node on ports of its own.
func (p *Proxy) relay(node int, pid func() int) (*proxied, error) {
	addrs, err := loopback.Addrs(4)
	if err != nil {
		return nil, err
	}
	host := p.subnet + strconv.Itoa(node+1)
	onHost := func(addr string) string { return host + strings.TrimPrefix(addr, "127.0.0.1") }
	n := &proxied{node: node, pid: pid}
	n.place = Place{Listen: Ports{addrs[0], addrs[1], addrs[2], addrs[3]}, Advertise: host, Gossip: onHost(addrs[3])}
	for _, addr := range addrs {
		if err == nil {
			err = p.relayTCP(n, onHost(addr), addr)
		}
	}
	if err == nil {
		err = p.relayUDP(n)
	}
	if err != nil {
		for _, end := range n.close {
			err = errors.Join(err, end())
		}
		return nil, err
	}
	return n, nil
}

// link returns the state of a link, which stays the same object for ever.
func (p *Proxy) link(l Link) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.linkLocked(l)
}

func (p *Proxy) linkLocked(l Link) *link {
	s := p.links[l]
	if s == nil {
		s = newLink(rand.New(rand.NewPCG(p.rand.Uint64(), p.rand.Uint64())))
		p.links[l] = s
	}
	return s
}

// Cut holds everything on a link back; what was sent before the cut ends goes on then, as TCP would send it again.
// Datagrams are lost.
func (p *Proxy) Cut(l Link) error {
	p.link(l).set(func(s *link) { s.cut = true })
	return nil
}

// Shape gives a link a fault.
func (p *Proxy) Shape(l Link, shape Shape) error {
	p.link(l).set(func(s *link) { s.shape = shape })
	return nil
}

// Reset breaks the connections that carry a link.
func (p *Proxy) Reset(l Link) error {
	p.link(l).reset()
	return nil
}

// Heal mends all links.
func (p *Proxy) Heal() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.links {
		s.set(func(s *link) { s.cut, s.shape = false, Shape{} })
	}
	return nil
}

// Close ends all relays and waits for them.
func (p *Proxy) Close() error {
	p.cancel()
	p.mu.Lock()
	var errs []error
	for _, n := range p.nodes {
		for _, end := range n.close {
			errs = append(errs, end())
		}
	}
	clear(p.nodes)
	links := make([]*link, 0, len(p.links))
	for _, s := range p.links {
		links = append(links, s)
	}
	p.mu.Unlock()
	for _, s := range links {
		s.reset()
	}
	p.relays.Wait()
	return errors.Join(errs...)
}
