package fake

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// Options of a Broker. The zero value is one node.
type Options struct {
	Nodes     int    // default 1
	ClusterID string // default "fake"
	MaxTopics int    // default 4 M
	// NoForward makes nodes that do not lead refuse publishes instead of forwarding them.
	NoForward bool
}

// Broker is a cluster. All nodes see one stream; a node may be made to see only a part of it. Any number of goroutines
// may use it.
type Broker struct {
	o     Options
	tasks sync.WaitGroup // goroutines of sessions

	mu struct {
		sync.Mutex
		closed    bool
		nodes     []*node
		leader    int // index, -1: none
		term      uint64
		messages  []stored // Invariant: messages[i] has seq trimmed+1+i
		trimmed   uint64   // seqs up to here are gone
		time      int64    // of the last message
		topics    map[string]uint32
		names     []string // by topic id
		last      []uint64 // last seq by topic id, 0: none
		producers map[record.ProducerID]*producer
		faults    faults
		held      []record.ProducerID // openings that came in and were neither executed nor answered
	}
}

// stored is a message with its seq and time, encoded and padded.
type stored struct {
	topic uint32
	rec   []byte
}

// node is one server.
type node struct {
	index    int
	id, addr string
	up       bool
	held     bool   // it applies nothing new
	heldAt   uint64 // the last seq it has, if held
	damaged  uint64 // seq that it cannot read, 0: none
	thaw     chan struct{}
	sessions map[*session]struct{}
}

// New starts a cluster whose first node leads.
func New(o Options) *Broker {
	if o.Nodes <= 0 {
		o.Nodes = 1
	}
	if o.ClusterID == "" {
		o.ClusterID = "fake"
	}
	if o.MaxTopics <= 0 {
		o.MaxTopics = 4 << 20
	}
	b := &Broker{o: o}
	b.mu.topics = map[string]uint32{}
	b.mu.producers = map[record.ProducerID]*producer{}
	b.mu.term = 1
	for i := range o.Nodes {
		b.mu.nodes = append(b.mu.nodes, &node{index: i, id: fmt.Sprintf("node-%d", i), addr: Addr(i), up: true,
			sessions: map[*session]struct{}{}})
	}
	return b
}

// Addr is the address of node i, to be given to Dial. It means nothing to the network.
func Addr(i int) string { return fmt.Sprintf("fake-%d:4790", i) }

// ClientOptions returns options that lead a client here by way of all nodes, with retries that suit tests.
func (b *Broker) ClientOptions() client.Options {
	o := client.Options{Name: "test", ClusterID: b.o.ClusterID, Dial: b.Dial, RetryTimeout: 20 * time.Second}
	for i := range b.o.Nodes {
		o.Servers = append(o.Servers, Addr(i))
	}
	return o
}

// Dial connects to a node. It is a client.DialFunc.
func (b *Broker) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.mu.nodes {
		if n.addr != addr {
			continue
		}
		if !n.up || b.mu.closed {
			return nil, fmt.Errorf("dial %s: connection refused", addr)
		}
		near, far := Pipe()
		b.startLocked(n, far)
		return near, nil
	}
	return nil, fmt.Errorf("dial %s: no such node", addr)
}

// Close ends all connections and waits for the broker's goroutines.
func (b *Broker) Close() {
	b.mu.Lock()
	b.mu.closed = true
	for _, n := range b.mu.nodes {
		b.dropLocked(n)
		n.thawLocked()
	}
	b.mu.Unlock()
	b.tasks.Wait()
}

// dropLocked ends a node's connections at once.
func (b *Broker) dropLocked(n *node) {
	for s := range n.sessions {
		s.endLocked()
		_ = s.nc.Close()
	}
}

func (n *node) thawLocked() {
	if n.thaw != nil {
		close(n.thaw)
		n.thaw = nil
	}
}

// lastSeqLocked is the newest seq of the stream.
func (b *Broker) lastSeqLocked() uint64 { return b.mu.trimmed + uint64(len(b.mu.messages)) }

// appliedLocked is the newest seq that a node has.
func (b *Broker) appliedLocked(n *node) uint64 {
	if n.held {
		return n.heldAt
	}
	return b.lastSeqLocked()
}

// topologyLocked is what every node tells.
func (b *Broker) topologyLocked() wire.Topology {
	t := wire.Topology{ClusterID: b.o.ClusterID, Term: b.mu.term}
	for _, n := range b.mu.nodes {
		t.Nodes = append(t.Nodes, wire.NodeInfo{ID: n.id, ClientAddr: n.addr, Voter: true, Alive: n.up})
	}
	if b.mu.leader >= 0 {
		t.LeaderID = b.mu.nodes[b.mu.leader].id
	}
	return t
}

// announceLocked tells the topology to all clients.
func (b *Broker) announceLocked() {
	t := b.topologyLocked()
	for _, n := range b.mu.nodes {
		for s := range n.sessions {
			if s.greeted {
				s.sendLocked(func(out []byte) []byte { return wire.AppendTopology(out, &t) })
			}
		}
	}
}
