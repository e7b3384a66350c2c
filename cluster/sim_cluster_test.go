package cluster

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	trace "github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/tipstore"
)

// simCluster is machines, the network between them, what their clients do, and the record of it. All of it lives in one
// bubble of virtual time.
type simCluster struct {
	t     testing.TB
	rng   *rand.Rand // the nemesis's
	net   *simNet
	nodes []*simNode
	began time.Time

	quorum sync.Mutex
	up     bool // as recorded last; guarded by quorum

	mu   sync.Mutex
	list []trace.Event
	ids  uint64
}

// simNode is a machine: its disk stays, its process comes and goes.
type simNode struct {
	c    *simCluster
	name string
	ip   string
	dir  string // identity
	disk *simDisk
	host *simHost

	mu   sync.Mutex
	proc *simProcess // nil: down
}

// simProcess is one life of a node.
type simProcess struct {
	node    *Node
	dead    chan struct{}  // closed at the crash
	readers sync.WaitGroup // of the node's stream
}

func newSimCluster(t testing.TB, seed uint64, size int) *simCluster {
	source := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	c := &simCluster{t: t, rng: source(0), net: newSimNet(source(1)), began: time.Now()}
	dir := simDir(t)
	for i := range size {
		n := &simNode{c: c, name: fmt.Sprintf("n%d", i+1), ip: fmt.Sprintf("10.0.0.%d", i+1), disk: newSimDisk(source(uint64(i + 10)))}
		n.dir = filepath.Join(dir, n.name)
		c.nodes = append(c.nodes, n)
	}
	return c
}

// start starts all nodes.
func (c *simCluster) start() {
	for _, n := range c.nodes {
		n.start()
	}
	c.noteQuorum()
}

// simDir is a folder in memory if the system has one: only identities are stored there.
func simDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "cantus-sim-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (c *simCluster) now() time.Duration { return time.Since(c.began) }

func (c *simCluster) record(e trace.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, e)
}

func (c *simCluster) nextID() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ids++
	return c.ids
}

func (n *simNode) start() {
	n.host = n.c.net.boot(n.ip)
	peers := []string{}
	for _, o := range n.c.nodes {
		if o != n {
			peers = append(peers, fmt.Sprintf("%s:%d", o.ip, simGossipPort))
		}
	}
	store := n.disk.open()
	node, err := Open(Options{
		DataDir: n.dir, Name: n.name, BootstrapExpect: len(n.c.nodes), Join: peers,
		RaftListen: n.ip + ":4792", GossipListen: fmt.Sprintf("%s:%d", n.ip, simGossipPort),
		Stream:   StreamOptions{Tip: tipstore.Options{SizeBytes: 4 << 20, ChunkBytes: 1 << 20}},
		LogStore: LogStoreMemory, FreeBytes: func(string) (int64, error) { return 1 << 40, nil },
		Stabilization: time.Second, PublishWait: 500 * time.Millisecond,
		wrapStores: func(stores) stores {
			return stores{logs: store, stable: store, close: func() error { return nil }}
		},
		network: &network{listen: n.host.listen, dial: n.host.dial, gossip: n.host.gossip},
	})
	if err != nil {
		n.c.t.Fatalf("%s: %v", n.name, err)
	}
	n.mu.Lock()
	n.proc = &simProcess{node: node, dead: make(chan struct{})}
	n.mu.Unlock()
	n.c.record(&trace.NodeChanged{At: n.c.now(), Node: n.name, State: trace.NodeUp})
}

// process is the running process, nil if there is none.
func (n *simNode) process() *simProcess {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.proc
}

// stop ends the process, by a crash or in peace, and returns when nothing of it runs any more. False: there was none.
func (n *simNode) stop(crash bool) bool {
	n.mu.Lock()
	p := n.proc
	n.proc = nil
	n.mu.Unlock()
	n.c.noteQuorum()
	if p == nil {
		return false
	}
	n.c.record(&trace.NodeChanged{At: n.c.now(), Node: n.name, State: trace.NodeDown})
	if crash {
		n.host.fall()
		n.disk.crash()
	}
	close(p.dead)
	p.readers.Wait()
	end := p.node.Close
	if crash {
		end = p.node.Crash
	}
	if err := end(); err != nil && !crash {
		n.c.t.Errorf("%s: close: %v", n.name, err)
	}
	n.host.fall()
	return true
}

// leader is a process that says it leads, nil if none does.
func (c *simCluster) leader() *simNode {
	for _, n := range c.nodes {
		if p := n.process(); p != nil && p.node.raft.State() == raft.Leader {
			return n
		}
	}
	return nil
}

// noteQuorum records whether a majority is up and connected in both directions.
func (c *simCluster) noteQuorum() {
	c.quorum.Lock()
	defer c.quorum.Unlock()
	best := 0
	for set := range 1 << len(c.nodes) {
		if n := bits.OnesCount(uint(set)); n > best && c.connected(set) {
			best = n
		}
	}
	if up := best > len(c.nodes)/2; up != c.up {
		c.up = up
		c.record(&trace.Quorum{At: c.now(), Up: up})
	}
}

// connected says that all nodes of a set are up and reach each other.
func (c *simCluster) connected(set int) bool {
	for i, a := range c.nodes {
		if set&(1<<i) == 0 {
			continue
		}
		if a.process() == nil {
			return false
		}
		for j, b := range c.nodes {
			if set&(1<<j) != 0 && c.net.isCut(a.ip, b.ip) {
				return false
			}
		}
	}
	return true
}

// settle waits until all nodes have applied the same and returns their digests.
func (c *simCluster) settle(limit time.Duration) *trace.Verify {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	v := &trace.Verify{Settled: true}
	id := uint64(0)
	for id == 0 && ctx.Err() == nil {
		if n := c.leader(); n != nil {
			id, _ = n.process().node.Checkpoint(ctx)
		}
		if id == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	for _, n := range c.nodes {
		d := trace.NodeDigests{Node: n.name}
		digest, err := n.process().node.CheckpointDigest(ctx, id)
		if err != nil {
			d.Error = err.Error()
		} else {
			d.Seq = digest.Seq
			d.Digests = map[string]string{"machine": fmt.Sprintf("%+v", digest)}
		}
		v.Nodes = append(v.Nodes, d)
	}
	v.At = c.now()
	return v
}
