package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Client is a handle on a cluster: it keeps connections to some nodes, knows who leads, and makes producers and
// subscriptions. Any number of goroutines may use it.
type Client struct {
	o      Options
	log    *slog.Logger
	topics topicTable

	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // all goroutines of connections and producers

	mu struct {
		sync.Mutex
		closed    bool
		slots     map[string]*slot // by address; Invariant: one per address ever used
		conns     map[*conn]struct{}
		topology  Topology
		changed   chan struct{} // closed, and replaced, when topology changes
		producers map[*Producer]struct{}
	}
}

// Connect finds a server that answers and returns when it has agreed on a version. The error says why each server
// did not do.
func Connect(ctx context.Context, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Client{o: o, log: o.Logger}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.mu.slots = map[string]*slot{}
	c.mu.conns = map[*conn]struct{}{}
	c.mu.producers = map[*Producer]struct{}{}
	c.mu.changed = make(chan struct{})
	if err := c.connectFirst(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("connect: %w", err)
	}
	return c, nil
}

// connectFirst tries the servers in random order, again and again while ConnectWait lasts.
func (c *Client) connectFirst(ctx context.Context) error {
	deadline := time.Now().Add(c.o.ConnectWait)
	for try := 0; ; try++ {
		var errs []error
		for _, i := range rand.Perm(len(c.o.Servers)) {
			_, err := c.connTo(ctx, c.o.Servers[i])
			if err == nil {
				return nil
			}
			errs = append(errs, err)
			if final(err) {
				return err
			}
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return errors.Join(errs...)
		}
		if err := sleep(ctx, backoff(try), nil); err != nil {
			return errors.Join(append(errs, err)...)
		}
	}
}

// final says whether another server would give the same answer.
func final(err error) bool {
	return errors.Is(err, ErrWrongCluster) || errors.Is(err, ErrProtocol) || errors.Is(err, ErrClosed)
}

// Close ends all connections and waits for the client's goroutines. Producers should be closed first: what they
// have in flight now fails. It never returns an error.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.mu.closed {
		c.mu.Unlock()
		c.tasks.Wait()
		return nil
	}
	c.mu.closed = true
	conns := slices.Collect(maps.Keys(c.mu.conns))
	c.mu.Unlock()
	c.cancel()
	for _, cn := range conns {
		cn.fail(ErrClosed)
	}
	c.tasks.Wait()
	return nil
}

// Topology returns the newest view of the cluster that any connected node has told.
func (c *Client) Topology() Topology {
	t, _ := c.watch()
	return t
}

// TopologyChanged returns a channel that is closed at the next change of Topology.
func (c *Client) TopologyChanged() <-chan struct{} {
	_, changed := c.watch()
	return changed
}

// watch returns the topology and a channel that is closed when it is no longer current.
func (c *Client) watch() (Topology, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.topology.clone(), c.mu.changed
}

// learn takes a node's view of the cluster if it is newer.
func (c *Client) learn(t Topology) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.topology.newer(&t) || c.mu.topology.equal(&t) {
		return
	}
	if c.mu.topology.LeaderID != t.LeaderID {
		c.log.Info("leader changed", "leader", t.LeaderID, "term", t.Term)
	}
	c.mu.topology = t
	close(c.mu.changed)
	c.mu.changed = make(chan struct{})
}

// addrs lists all known addresses, those named in Options first.
func (c *Client) addrs() []string {
	list := slices.Clone(c.o.Servers)
	t := c.Topology()
	for _, n := range t.Nodes {
		if n.Addr != "" && !slices.Contains(list, n.Addr) {
			list = append(list, n.Addr)
		}
	}
	return list
}
