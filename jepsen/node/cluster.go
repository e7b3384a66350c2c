package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/jepsen/disk"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/network"
)

// Options of a Cluster.
type Options struct {
	Binary  string
	Dir     string // nodes' folders are made in it; logs stay after Close
	Nodes   int
	Spare   int // nodes that have a place and are not started
	Images  bool
	Network network.Network   // Close closes it
	Env     map[string]string // configuration of all nodes, CANTUS_*
	Record  Recorder
}

// Cluster is the nodes, the network between them, and what is cut.
type Cluster struct {
	Nodes []*Node // the first Options.Nodes are started by Start

	o         Options
	operating atomic.Bool // see TryOperate

	mu   sync.Mutex
	cuts map[network.Link]bool // Guarded by mu
	owes bool                  // as last recorded. Guarded by mu
	// voters are the nodes that make a majority. Guarded by mu
	voters []*Node
}

// NewCluster makes places, disks and configuration for all nodes.
func NewCluster(o Options) (*Cluster, error) {
	c := &Cluster{o: o, cuts: map[network.Link]bool{}}
	for i := range o.Nodes + o.Spare {
		n := &Node{
			Name: "n" + strconv.Itoa(i+1), Index: i, binary: o.Binary, record: o.Record, changed: c.reckon,
			state: history.NodeDown, closing: make(chan struct{}),
		}
		n.dir = filepath.Join(o.Dir, n.Name)
		c.Nodes = append(c.Nodes, n)
		if err := c.furnish(n); err != nil {
			return nil, errors.Join(err, c.Close())
		}
	}
	c.voters = c.Nodes[:o.Nodes]
	var join []string
	for _, n := range c.Nodes {
		join = append(join, n.Place.Gossip)
	}
	for _, n := range c.Nodes {
		n.env = c.environment(n, join)
	}
	return c, nil
}

// furnish gives a node its folder, disk and place.
func (c *Cluster) furnish(n *Node) (err error) {
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return err
	}
	if c.o.Images {
		n.Disk, err = disk.NewImage(filepath.Join(n.dir, "disk"))
	} else {
		n.Disk, err = disk.NewFolder(filepath.Join(n.dir, "disk"))
	}
	if err == nil {
		n.Place, err = c.o.Network.Add(n.Index, n.PID)
	}
	if err == nil {
		err = os.WriteFile(n.configPath(), []byte("# all is set by the environment\n"), 0o644)
	}
	return err
}

// environment is ours without what would configure a node, and the node's configuration.
func (c *Cluster) environment(n *Node, join []string) []string {
	var env []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, config.EnvPrefix) {
			env = append(env, entry)
		}
	}
	set := map[string]string{
		"CANTUS_NODE_NAME": n.Name, "CANTUS_NODE_DATA": n.Disk.Path(),
		"CANTUS_CLUSTER_NAME": "jepsen-" + strconv.Itoa(os.Getpid()), "CANTUS_CLUSTER_BOOTSTRAP_EXPECT": strconv.Itoa(c.o.Nodes),
		"CANTUS_CLUSTER_JOIN": strings.Join(join, ","), "CANTUS_CLUSTER_ADVERTISE": n.Place.Advertise,
		"CANTUS_LISTEN_CLIENT": n.Place.Listen.Client, "CANTUS_LISTEN_HTTP": n.Place.Listen.HTTP,
		"CANTUS_LISTEN_RAFT": n.Place.Listen.Raft, "CANTUS_LISTEN_GOSSIP": n.Place.Listen.Gossip,
		"CANTUS_FAULTS": n.FaultsPath(),
	}
	if n.Index >= c.o.Nodes {
		set["CANTUS_CLUSTER_BOOTSTRAP_EXPECT"] = "0"
	}
	maps.Copy(set, c.o.Env)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		env = append(env, key+"="+set[key])
	}
	return env
}

// Start starts the first nodes and waits until each is ready.
func (c *Cluster) Start(ctx context.Context) error {
	for _, n := range c.Nodes[:c.o.Nodes] {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return c.WaitReady(ctx)
}

// WaitReady waits until every voter is ready.
func (c *Cluster) WaitReady(ctx context.Context) error {
	for _, n := range c.Voters() {
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Voters are the nodes that are meant to be members now.
func (c *Cluster) Voters() []*Node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.voters)
}

// SetVoters changes who is meant to be a member.
func (c *Cluster) SetVoters(list []*Node) {
	c.mu.Lock()
	c.voters = slices.Clone(list)
	c.mu.Unlock()
	c.reckon()
}

// Network is between the nodes. Cuts go through Cut, so that the cluster knows.
func (c *Cluster) Network() network.Network { return c.o.Network }

// Cut cuts links.
func (c *Cluster) Cut(links ...network.Link) error {
	c.mu.Lock()
	for _, l := range links {
		c.cuts[l] = true
	}
	c.mu.Unlock()
	var errs []error
	for _, l := range links {
		errs = append(errs, c.o.Network.Cut(l))
	}
	c.reckon()
	return errors.Join(errs...)
}

// Heal mends all links.
func (c *Cluster) Heal() error {
	err := c.o.Network.Heal()
	c.mu.Lock()
	clear(c.cuts)
	c.mu.Unlock()
	c.reckon()
	return err
}

// reckon finds out whether the cluster owes service, and records it if that changed.
func (c *Cluster) reckon() {
	c.mu.Lock()
	defer c.mu.Unlock()
	owes := c.majorityLocked(nil, c.voters)
	if owes != c.owes {
		c.owes = owes
		c.o.Record.Write(&history.Quorum{At: c.o.Record.Now(), Up: owes})
	}
}

// majorityLocked tells whether chosen can grow by nodes of rest to a majority that serves and whose members reach each other.
func (c *Cluster) majorityLocked(chosen, rest []*Node) bool {
	if 2*len(chosen) > len(c.voters) {
		return true
	}
	for i, n := range rest {
		if !n.serves() || slices.ContainsFunc(chosen, func(o *Node) bool { return c.cutLocked(n, o) }) {
			continue
		}
		if c.majorityLocked(append(slices.Clone(chosen), n), rest[i+1:]) {
			return true
		}
	}
	return false
}

func (c *Cluster) cutLocked(a, b *Node) bool {
	return c.cuts[network.Link{From: a.Index, To: b.Index}] || c.cuts[network.Link{From: b.Index, To: a.Index}]
}

// Close ends all processes and removes disks and network. Logs stay.
func (c *Cluster) Close() error {
	var wg sync.WaitGroup
	for _, n := range c.Nodes {
		wg.Go(n.close)
	}
	wg.Wait()
	var errs []error
	for _, n := range c.Nodes {
		if n.Disk != nil {
			errs = append(errs, n.Disk.Close())
		}
	}
	return errors.Join(append(errs, c.o.Network.Close())...)
}

// KeepDisks copies each node's data folder to data beside its log, for whoever looks for the cause of a violation. The processes
// should be dead.
func (c *Cluster) KeepDisks() error {
	var errs []error
	for _, n := range c.Nodes {
		if n.Disk != nil {
			errs = append(errs, os.CopyFS(filepath.Join(n.dir, "data"), os.DirFS(n.Disk.Path())))
		}
	}
	return errors.Join(errs...)
}

// Names lists the nodes' names.
func Names(nodes []*Node) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return names
}

// ByName finds a node.
func (c *Cluster) ByName(name string) (*Node, error) {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("no node %q", name)
}
