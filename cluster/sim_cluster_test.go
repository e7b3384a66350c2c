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
)

// simCluster is machines, the network between them, what their clients do, and the record of it. All of it lives in one
// bubble of virtual time.
type simCluster struct {
	t             testing.TB
	net           *simNet
	nodes         []*simNode
	began         time.Time
	limit         time.Duration // of the time under faults
	schedule      []simFault
	history       bool          // nodes keep history and snapshots, and little of the log
	membership    bool          // there is a machine to spare, and members change
	commitTimeout time.Duration // raft's
	quiet         chan struct{} // closed when nothing more is published, and all nodes have everything

	watching sync.WaitGroup // supervisors
	quorum   sync.Mutex
	up       bool // as recorded last; guarded by quorum

	mu   sync.Mutex
	list []trace.Event
	ids  uint64
	seen simCounts
	errs []error // what went wrong that clients do not see
	// changing: a change of members is under way.
	changing bool
}

// newSimCluster makes machines. Of each three seeds two keep history, of each four one changes members, half of them with a fourth from the start, and of each ten one has raft
// send its commit index as soon as it does by default, which costs most.
func newSimCluster(t testing.TB, seed uint64, size int) *simCluster {
	source := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }
	c := &simCluster{t: t, net: newSimNet(source(1)), began: time.Now(), history: seed%3 > 0, membership: simMembership(seed), seen: simCounts{}, quiet: make(chan struct{})}
	c.limit, c.commitTimeout = *simTime, 40*time.Millisecond
	if seed%10 == 0 {
		c.commitTimeout = DefaultCommitTimeout
	}
	c.schedule = simSchedule(seed, c.limit, c.membership)
	if c.membership && size == simFounders {
		size++
	}
	dir := simDir(t)
	for i := range size {
		n := &simNode{c: c, name: fmt.Sprintf("n%d", i+1), ip: fmt.Sprintf("10.0.0.%d", i+1), disk: newSimDisk(source(uint64(i+10)), c),
			fs: vfs.NewMem(), fate: oldrand.New(oldrand.NewSource(int64(seed) + int64(i)))}
		n.founder, n.out = i < simFounders, i >= simFounders && seed%8 > 0
		n.dir = filepath.Join(dir, n.name)
		c.nodes = append(c.nodes, n)
	}
	return c
}

func simMembership(seed uint64) bool { return seed%4 == 0 }

// others are the gossip addresses of the other machines.
func (c *simCluster) others(n *simNode) (list []string) {
	for _, o := range c.nodes {
		if o != n {
			list = append(list, fmt.Sprintf("%s:%d", o.ip, simGossipPort))
		}
	}
	return list
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

// wrong notes what no client sees and must not be.
func (c *simCluster) wrong(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, fmt.Errorf(format, args...))
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

// noteQuorum records whether a majority is up, well and connected in both directions.
func (c *simCluster) noteQuorum() {
	c.quorum.Lock()
	defer c.quorum.Unlock()
	best, members := 0, c.members()
	for set := range 1 << len(members) {
		if n := bits.OnesCount(uint(set)); n > best && c.connected(members, set) {
			best = n
		}
	}
	if up := best > len(members)/2 && !c.underChange(); up != c.up {
		c.up = up
		c.record(&trace.Quorum{At: c.now(), Up: up})
	}
}

// connected says that all nodes of a set are up and reach each other.
func (c *simCluster) connected(members []*simNode, set int) bool {
	for i, a := range members {
		if set&(1<<i) == 0 {
			continue
		}
		if a.process() == nil || a.sick() {
			return false
		}
		for j, b := range members {
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
	for _, n := range c.members() {
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
