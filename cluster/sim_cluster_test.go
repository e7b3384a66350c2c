package cluster

import (
	"context"
	"fmt"
	"math/bits"
	oldrand "math/rand"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/vfs"
	trace "github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/tipstore"
)

// simCluster is machines, the network between them, what their clients do, and the record of it. All of it lives in one
// bubble of virtual time.
type simCluster struct {
	t       testing.TB
	rng     *rand.Rand // the nemesis's
	net     *simNet
	nodes   []*simNode
	began   time.Time
	history bool // nodes keep history and snapshots, and little of the log

	watching sync.WaitGroup // supervisors
	quorum   sync.Mutex
	up       bool // as recorded last; guarded by quorum

	mu      sync.Mutex
	list    []trace.Event
	ids     uint64
	refused []error // of nodes that would not start
}

// simNode is a machine: its disk stays, its process comes and goes.
type simNode struct {
	c    *simCluster
	name string
	ip   string
	dir  string // identity
	disk *simDisk
	fs   *vfs.Mem      // history and snapshots; replaced by a crash
	fate *oldrand.Rand // of what a crash leaves of fs
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
	c := &simCluster{t: t, rng: source(0), net: newSimNet(source(1)), began: time.Now(), history: seed%3 > 0}
	dir := simDir(t)
	for i := range size {
		n := &simNode{c: c, name: fmt.Sprintf("n%d", i+1), ip: fmt.Sprintf("10.0.0.%d", i+1), disk: newSimDisk(source(uint64(i + 10))),
			fs: vfs.NewMem(), fate: oldrand.New(oldrand.NewSource(int64(seed) + int64(i)))}
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
	node, err := Open(n.options(peers))
	if err != nil {
		n.host.fall()
		n.c.refuse(fmt.Errorf("%s: %w", n.name, err))
		return
	}
	p := &simProcess{node: node, dead: make(chan struct{})}
	n.mu.Lock()
	n.proc = p
	n.mu.Unlock()
	n.c.record(&trace.NodeChanged{At: n.c.now(), Node: n.name, State: trace.NodeUp})
	n.c.watching.Go(func() { n.supervise(p) })
}

// supervise starts a node again that has failed by itself.
func (n *simNode) supervise(p *simProcess) {
	select {
	case <-p.dead:
		return
	case <-p.node.Failed():
	}
	n.c.record(&trace.Note{At: n.c.now(), Text: p.node.Err().Error()})
	if n.stop(true) {
		n.start()
		n.c.noteQuorum()
	}
}

func (c *simCluster) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, err)
}

// options are a node's. Bolt's files are made and not used, since a node with a log in memory overlooks more.
func (n *simNode) options(peers []string) Options {
	store := n.disk.open()
	o := Options{
		DataDir: n.dir, Name: n.name, BootstrapExpect: len(n.c.nodes), Join: peers,
		RaftListen: n.ip + ":4792", GossipListen: fmt.Sprintf("%s:%d", n.ip, simGossipPort),
		Stream:        StreamOptions{Tip: tipstore.Options{SizeBytes: 4 << 20, ChunkBytes: 1 << 20}},
		FreeBytes:     func(string) (int64, error) { return 1 << 40, nil },
		Stabilization: time.Second, PublishWait: 500 * time.Millisecond,
		wrapStores: func(unused stores) stores {
			return stores{logs: store, stable: store, close: unused.close}
		},
		network: &network{listen: n.host.listen, dial: n.host.dial, gossip: n.host.gossip},
	}
	if n.c.history {
		o.Stream.Tip = tipstore.Options{SizeBytes: 32 << 10, ChunkBytes: 8 << 10}
		o.Stream.History = &HistoryOptions{FS: n.fs}
		o.History = HistoryPolicy{WindowCount: 40, PlanWindows: 3, StoresPerPartition: 3, MinStoreBytes: 1}
		o.SnapshotBytes, o.LogKeepBytes = 8<<10, 16<<10
	}
	return o
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
		n.disk.crash() // first: the log is never cut behind a snapshot that is not there
		n.fs = n.fs.Crash(n.fate)
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

// settle waits until all nodes can be compared at one checkpoint, and compares them. One that took a snapshot from behind a
// checkpoint can only be compared at the next; and files are those of now, not of the checkpoint, so a plan may come between.
func (c *simCluster) settle(limit time.Duration) *trace.Verify {
	end := time.Now().Add(limit)
	for {
		v := c.compare()
		whole := !slices.ContainsFunc(v.Nodes, func(d trace.NodeDigests) bool {
			return d.Error != "" || d.Digests["history"] != v.Nodes[0].Digests["history"]
		})
		if whole || time.Now().After(end) {
			v.At, v.Settled = c.now(), true
			return v
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// compare asks every node for its digests at a new checkpoint.
func (c *simCluster) compare() *trace.Verify {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	id := uint64(0)
	if n := c.leader(); n != nil {
		if p := n.process(); p != nil {
			id, _ = p.node.Checkpoint(ctx)
		}
	}
	v := &trace.Verify{}
	for _, n := range c.nodes {
		v.Nodes = append(v.Nodes, n.digests(ctx, id))
	}
	return v
}

// digests is what the node says of itself at a checkpoint, and of the files that it has written by then.
func (n *simNode) digests(ctx context.Context, id uint64) trace.NodeDigests {
	d := trace.NodeDigests{Node: n.name}
	p := n.process()
	if p == nil || id == 0 {
		d.Error = "down, or no leader"
		return d
	}
	digest, err := p.node.CheckpointDigest(ctx, id)
	if err != nil {
		d.Error = err.Error()
		return d
	}
	d.Seq = digest.Seq
	d.Digests = map[string]string{"machine": fmt.Sprintf("%+v", digest)}
	if n.c.history {
		for {
			if st := p.node.Stream().HistoryStatus(); st.PendingWindows == 0 && st.PendingGenerations == 0 {
				break
			}
			if ctx.Err() != nil {
				d.Error = "history is not written"
				return d
			}
			time.Sleep(100 * time.Millisecond)
		}
		d.Digests["history"] = fmt.Sprintf("%+v", p.node.Stream().HistoryFiles())
	}
	return d
}
