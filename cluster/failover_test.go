package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// publisher is an idempotent producer that retries until each of its messages is settled, on any node that runs.
type publisher struct {
	t     testing.TB
	nodes func() []*clustertest.Member // under mu of the test
	id    record.ProducerID
	epoch uint32
	next  uint64
	acked []string
}

var errStop = errors.New("stop")

// settle retries f on running nodes until its code is final.
func (p *publisher) settle(ctx context.Context, f func(b cluster.Broker) (fsm.Result, error)) (fsm.Result, error) {
	for {
		if ctx.Err() != nil {
			return fsm.Result{}, errStop
		}
		nodes := p.nodes()
		r, err := f(nodes[rand.IntN(len(nodes))])
		switch {
		case err == nil && (r.Code == fsm.OK || r.Code == fsm.Duplicate):
			return r, nil
		case err == nil && r.Code < fsm.NotLeader && r.Code != fsm.OutOfOrder:
			return r, fmt.Errorf("outcome %v %+v", r.Code, r)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (p *publisher) open(ctx context.Context) error {
	r, err := p.settle(ctx, func(b cluster.Broker) (fsm.Result, error) { return b.OpenProducer(ctx, p.id) })
	p.epoch, p.next = r.Epoch, r.LastNumber+1
	return err
}

func (p *publisher) publish(ctx context.Context, topic, payload string) error {
	r, err := p.settle(ctx, func(b cluster.Broker) (fsm.Result, error) {
		return clustertest.PublishAs(ctx, b, p.id, p.epoch, p.next, clustertest.Message{Topic: topic, Payload: payload})
	})
	if err != nil {
		return err
	}
	if r.FirstSeq == 0 && r.Code == fsm.OK {
		return fmt.Errorf("acked without a seq: %+v", r)
	}
	p.acked = append(p.acked, payload)
	p.next++
	return nil
}

// load publishes from several producers until stop, and returns what was acked.
type load struct {
	acked   atomic.Int64
	wg      sync.WaitGroup
	cancel  context.CancelFunc
	mu      sync.Mutex
	payload map[string]bool
}

func startLoad(t testing.TB, c *clustertest.Cluster, running func() []*clustertest.Member, producers int) *load {
	ctx, cancel := context.WithTimeout(context.Background(), 2*clustertest.Patience)
	l := &load{cancel: cancel, payload: map[string]bool{}}
	for i := range producers {
		l.wg.Go(func() {
			p := &publisher{t: t, nodes: running, id: record.ProducerID{1, byte(i + 1)}}
			err := p.open(ctx)
			for n := 0; err == nil && ctx.Err() == nil; n++ {
				if err = p.publish(ctx, fmt.Sprintf("load/%d/t%d", i, n%5), fmt.Sprintf("%d-%d", i, n)); err == nil {
					l.acked.Add(1)
				}
			}
			if err != nil && !errors.Is(err, errStop) && ctx.Err() == nil {
				t.Errorf("producer %d: %v", i, err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			for _, a := range p.acked {
				l.payload[a] = true
			}
		})
	}
	return l
}

func (l *load) stop() map[string]bool {
	l.cancel()
	l.wg.Wait()
	return l.payload
}

// nodesOf is a view of the running members that goroutines may use while the test stops and starts them.
type nodesOf struct {
	mu   sync.RWMutex
	list []*clustertest.Member
}

func (n *nodesOf) set(list []*clustertest.Member) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = nil
	for _, m := range list { // copies: Crash clears Member.Node
		cp := *m
		n.list = append(n.list, &cp)
	}
}

func (n *nodesOf) get() []*clustertest.Member {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.list
}

// checkNothingLost reads every node: all that was acked is there once, and each producer's messages are in its order.
func checkNothingLost(t *testing.T, c *clustertest.Cluster, acked map[string]bool) {
	t.Helper()
	ctx := testContext(t)
	for _, m := range c.Running() {
		if err := m.Barrier(ctx); err != nil {
			t.Fatalf("barrier on node %d: %v", m.Index, err)
		}
		seen, last := map[string]bool{}, map[int]int{}
		for _, msg := range mustRead(t, m.Stream(), "load/**") {
			if seen[msg.Payload] {
				t.Errorf("node %d: %s is there twice", m.Index, msg.Payload)
			}
			seen[msg.Payload] = true
			var p, n int
			if _, err := fmt.Sscanf(msg.Payload, "%d-%d", &p, &n); err != nil {
				t.Fatal(err)
			}
			if n != last[p] {
				t.Errorf("node %d: producer %d: message %d where %d was expected", m.Index, p, n, last[p])
			}
			last[p] = n + 1
		}
		for a := range acked {
			if !seen[a] {
				t.Errorf("node %d: acked message %s is lost", m.Index, a)
			}
		}
	}
}

func checkDigestsEqual(t *testing.T, c *clustertest.Cluster) {
	t.Helper()
	ctx := testContext(t)
	id, err := c.Running()[0].Checkpoint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var first fsm.Digest
	for i, m := range c.Running() {
		d, err := m.CheckpointDigest(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = d
		} else if fmt.Sprint(d) != fmt.Sprint(first) {
			t.Errorf("node %d has digest\n%+v, node %d has\n%+v", m.Index, d, c.Running()[0].Index, first)
		}
	}
}

func TestLeaderCrashLosesNothing(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	var nodes nodesOf
	nodes.set(c.Running())
	l := startLoad(t, c, nodes.get, 6)
	more := func(n int64) {
		t.Helper()
		at := l.acked.Load()
		c.Eventually("more acks", func() bool { return l.acked.Load() >= at+n })
	}
	more(100)
	leader := c.Leader()
	var rest []*clustertest.Member
	for _, m := range c.Running() {
		if m != leader {
			rest = append(rest, m)
		}
	}
	start := time.Now()
	nodes.set(rest)
	c.Crash(leader)
	more(100)
	t.Logf("publishing went on %v after the crash", time.Since(start))
	c.Restart(leader)
	c.Leader()
	nodes.set(c.Running())
	more(100)
	checkNothingLost(t, c, l.stop())
	checkDigestsEqual(t, c)
}

func TestTransferUnderLoadLosesNothing(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	var nodes nodesOf
	nodes.set(c.Running())
	l := startLoad(t, c, nodes.get, 6)
	for range 3 {
		at := l.acked.Load()
		c.Eventually("more acks", func() bool { return l.acked.Load() >= at+50 })
		leader := c.Leader()
		if err := leader.TransferLeader(testContext(t), ""); err != nil {
			t.Logf("transfer: %v", err)
			continue
		}
		c.Eventually("another leader", func() bool { return c.Leader() != leader })
	}
	checkNothingLost(t, c, l.stop())
	checkDigestsEqual(t, c)
}
