package clustertest

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/loopback"
	"github.com/cantus-bus/cantus/tipstore"
)

// Patience is how long Eventually waits: long, since test machines may be busy.
const Patience = 30 * time.Second

// Options of a cluster; the zero value is fine.
type Options struct {
	// Configure changes node i's options before each start.
	Configure func(i int, o *cluster.Options)
	// Serve starts what listens for clients and peers on a node and returns its address; stop must leave no goroutine.
	// nil: a small server that only takes what peers forward.
	Serve func(n *cluster.Node) (clientAddr string, stop func(), err error)
}

// Member is one node of a test's cluster, running or not.
type Member struct {
	*cluster.Node // nil while it does not run
	Index         int
	Dir           string
	Reopened      int    // times that it was opened again because it had fetched a snapshot
	stop          func() // of what Serve started
	started       bool   // once, so that others can join it
	raft, gossip  string // its addresses: a restarted node has those of its last run
}

// Cluster is a test's cluster. Its methods are the test goroutine's.
type Cluster struct {
	T       testing.TB
	Members []*Member
	options Options
	dir     string
}

// Start starts n voters and waits for a leader that is ready. The test's cleanup stops them.
func Start(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	c := New(t, o)
	for range n {
		c.start(c.newMember(), n)
	}
	c.Leader()
	return c
}

// New is a cluster without nodes, for tests that start them one by one.
func New(t testing.TB, o Options) *Cluster {
	c := &Cluster{T: t, options: o, dir: t.TempDir()}
	t.Cleanup(c.Stop)
	return c
}

func (c *Cluster) newMember() *Member {
	i := len(c.Members)
	addrs, err := loopback.Addrs(2)
	if err != nil {
		c.T.Fatal(err)
	}
	m := &Member{Index: i, Dir: filepath.Join(c.dir, fmt.Sprintf("node%d", i)), raft: addrs[0], gossip: addrs[1]}
	c.Members = append(c.Members, m)
	return m
}

// Defaults are the options of a test's node before Configure.
func Defaults(dir string) cluster.Options {
	return cluster.Options{
		DataDir: dir, ClusterName: "test", PublishWait: 10 * time.Second,
		HeartbeatTimeout: 500 * time.Millisecond, ElectionTimeout: 500 * time.Millisecond,
		LeaseTimeout: 500 * time.Millisecond, CommitTimeout: 2 * time.Millisecond,
		Stabilization: time.Millisecond, MinFreeBytes: -1,
		OnDamage: cluster.OnDamageRefuse, // else a test could not tell a state that a fault of this program spoiled
		Stream:   cluster.StreamOptions{Tip: tipstore.Options{SizeBytes: 64 << 20, ChunkBytes: 4 << 20}, MaxTopics: 1 << 20},
	}
}

// start runs a member; expect is its BootstrapExpect.
func (c *Cluster) start(m *Member, expect int) {
	c.T.Helper()
	if err := c.tryStart(m, expect); err != nil {
		c.T.Fatalf("start node %d: %v", m.Index, err)
	}
}

func (c *Cluster) tryStart(m *Member, expect int) error {
	o := Defaults(m.Dir)
	o.Name, o.BootstrapExpect = fmt.Sprintf("node%d", m.Index), expect
	for _, other := range c.Members {
		if other.started && other != m {
			o.Join = append(o.Join, other.gossip)
		}
	}
	o.RaftListen, o.GossipListen = m.raft, m.gossip
	if c.options.Configure != nil {
		c.options.Configure(m.Index, &o)
	}
	n, err := cluster.Open(o)
	if err != nil {
		return err
	}
	return c.serve(m, n)
}

func (c *Cluster) serve(m *Member, n *cluster.Node) error {
	serve := c.options.Serve
	if serve == nil {
		serve = ServePeers
	}
	addr, stop, err := serve(n)
	if err != nil {
		return fmt.Errorf("serve: %w (close: %v)", err, n.Close())
	}
	n.SetAddrs(addr, "")
	m.Node, m.stop, m.started = n, stop, true
	m.raft, m.gossip = n.RaftAddr(), n.GossipAddr()
	return nil
}

// Add starts one more node that waits to be added by the leader.
func (c *Cluster) Add() *Member {
	c.T.Helper()
	m := c.newMember()
	c.start(m, 0)
	return m
}

// Restart starts a member that was stopped or crashed, on its folder.
func (c *Cluster) Restart(m *Member) {
	c.T.Helper()
	c.start(m, 0)
}

// Crash stops a member as a crash would look to the others.
func (c *Cluster) Crash(m *Member) { c.halt(m, (*cluster.Node).Crash) }

// Close stops a member gracefully.
func (c *Cluster) Close(m *Member) { c.halt(m, (*cluster.Node).Close) }

func (c *Cluster) halt(m *Member, how func(*cluster.Node) error) {
	c.T.Helper()
	if m.Node == nil {
		return
	}
	m.stop()
	if err := how(m.Node); err != nil {
		c.T.Errorf("stop node %d: %v", m.Index, err)
	}
	m.Node = nil
}

// Stop stops all members that run.
func (c *Cluster) Stop() {
	for _, m := range c.running() {
		c.Crash(m)
	}
}

// Reopen opens the members again that have fetched a snapshot and wait for that, and says how many they were.
func (c *Cluster) Reopen() (reopened int) {
	c.T.Helper()
	for _, m := range c.Members {
		if m.Node == nil || !errors.Is(m.Err(), cluster.ErrReopen) {
			continue
		}
		c.Close(m)
		c.Restart(m)
		m.Reopened++
		reopened++
	}
	return reopened
}

// Running are the members that run, after Reopen.
func (c *Cluster) Running() []*Member {
	c.T.Helper()
	c.Reopen()
	return c.running()
}

func (c *Cluster) running() []*Member {
	var out []*Member
	for _, m := range c.Members {
		if m.Node != nil {
			out = append(out, m)
		}
	}
	return out
}

// Leader waits until one running node leads, is ready, and all running nodes that are in the cluster agree.
func (c *Cluster) Leader() *Member {
	c.T.Helper()
	var leader *Member
	c.Eventually("a leader", func() bool {
		leader = c.agreed()
		return leader != nil && leader.Ready() == nil
	})
	return leader
}

// agreed is the running member that the topologies of all running nodes name, nil if they differ.
func (c *Cluster) agreed() *Member {
	id := ""
	for _, m := range c.Running() {
		t := m.Topology()
		if t.LeaderID == "" || id != "" && id != t.LeaderID {
			return nil
		}
		id = t.LeaderID
	}
	for _, m := range c.Running() {
		if m.NodeID() == id {
			return m
		}
	}
	return nil
}

// Followers are the running members without the leader.
func (c *Cluster) Followers() []*Member {
	c.T.Helper()
	leader := c.Leader()
	var out []*Member
	for _, m := range c.Running() {
		if m != leader {
			out = append(out, m)
		}
	}
	return out
}

// Eventually polls until ok, or fails the test. Meanwhile it does what Reopen does.
func (c *Cluster) Eventually(what string, ok func() bool) {
	c.T.Helper()
	deadline := time.Now().Add(Patience)
	for !ok() {
		c.Reopen()
		if time.Now().After(deadline) {
			c.T.Fatalf("waited %v in vain for %s", Patience, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
