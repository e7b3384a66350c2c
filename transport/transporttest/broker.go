// Package transporttest has a broker without raft, for tests and benchmarks of what stands above the broker.
//
// It promises what cluster.Broker does, with one goroutine in the place of consensus: batches are gathered into entries,
// encoded and applied as on a real node. It keeps nothing on disk and never changes its leader by itself.
package transporttest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// maxQueued is the bytes of batches that may wait before Submit blocks.
const maxQueued = 64 << 20

// item is one thing to apply, in order.
type item struct {
	sub     *cluster.Submission
	command *command // when sub is nil
}

// command is an entry of its own.
type command struct {
	kind record.Kind
	body []byte
	done chan fsm.Result // cap 1
}

// Broker is a cluster.Broker of one node.
type Broker struct {
	stream *cluster.Stream
	waker  chan struct{} // cap 1: the queue has something, or the state below changed
	room   chan struct{} // cap 1: the queue has shrunk
	stop   chan struct{}
	done   chan struct{}

	mu struct {
		sync.Mutex
		queue    []item
		bytes    int // of queued batches
		held     bool
		closed   bool
		refusal  error // what Submit fails with; nil: it does not
		topology wire.Topology
		changed  chan struct{} // closed at the next change of topology
		applied  chan struct{} // closed at the next apply
	}
	forwarded atomic.Int64

	// The applying goroutine's.
	entry   record.EntryBuilder
	batch   []item // being applied
	results []fsm.Result
	index   uint64
	time    int64
}

// New starts a broker. The caller closes it after everything that uses it.
func New(o cluster.StreamOptions) (*Broker, error) {
	stream, err := cluster.NewStream(o)
	if err != nil {
		return nil, err
	}
	b := &Broker{stream: stream, waker: make(chan struct{}, 1), room: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	b.mu.changed, b.mu.applied = make(chan struct{}), make(chan struct{})
	b.mu.topology = wire.Topology{ClusterID: b.ClusterID(), LeaderID: b.NodeID(), Term: 1, Nodes: []wire.NodeInfo{{ID: b.NodeID(), Voter: true, Alive: true}}}
	go b.run()
	return b, nil
}

// Close stops applying and frees the stream. What is queued is completed as ShuttingDown.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.mu.closed = true
	b.mu.Unlock()
	close(b.stop)
	<-b.done
	b.complete(b.take(), nil)
	return b.stream.Close()
}

// Hold stops applying until Resume; batches queue up.
func (b *Broker) Hold() { b.set(func() { b.mu.held = true }) }

// Resume undoes Hold.
func (b *Broker) Resume() { b.set(func() { b.mu.held = false }) }

// Refuse makes Submit fail with err; nil ends that.
func (b *Broker) Refuse(err error) { b.set(func() { b.mu.refusal = err }) }

// SetLeader changes the topology.
func (b *Broker) SetLeader(id string, term uint64) {
	b.set(func() {
		b.mu.topology.LeaderID, b.mu.topology.Term = id, term
		close(b.mu.changed)
		b.mu.changed = make(chan struct{})
	})
}

// Forwarded is how many batches came from a peer.
func (b *Broker) Forwarded() int { return int(b.forwarded.Load()) }

func (b *Broker) set(change func()) {
	b.mu.Lock()
	change()
	b.mu.Unlock()
	poke(b.waker)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Stream is what the broker applies to.
func (b *Broker) Stream() *cluster.Stream { return b.stream }

// NodeID names the one node.
func (b *Broker) NodeID() string { return "node-1" }

// ClusterID names the cluster.
func (b *Broker) ClusterID() string { return "cluster-1" }

// Topology is the one node, or what SetLeader made of it.
func (b *Broker) Topology() wire.Topology {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.topology
}

// TopologyChanged is closed by SetLeader.
func (b *Broker) TopologyChanged() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.changed
}

// Submit queues a batch.
func (b *Broker) Submit(ctx context.Context, s *cluster.Submission) error {
	for {
		wait, err := b.enqueue(item{sub: s}, len(s.Batch))
		if err != nil || !wait {
			return err
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// enqueue reports whether there is no room now.
func (b *Broker) enqueue(i item, bytes int) (wait bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.mu.closed:
		return false, &wire.Error{Code: wire.CodeShuttingDown}
	case b.mu.refusal != nil:
		return false, b.mu.refusal
	case b.mu.bytes > maxQueued:
		return true, nil
	}
	if i.sub != nil && i.sub.Forwarded {
		b.forwarded.Add(1)
	}
	b.mu.queue = append(b.mu.queue, i)
	b.mu.bytes += bytes
	poke(b.waker)
	return false, nil
}

// OpenProducer opens a producer in order with the batches.
func (b *Broker) OpenProducer(ctx context.Context, id record.ProducerID) (fsm.Result, error) {
	return b.Command(ctx, record.KindOpenProducer, fsm.OpenProducerBody(id))
}

// Command applies an entry of any kind but publishes, in order with the batches.
func (b *Broker) Command(ctx context.Context, k record.Kind, body []byte) (fsm.Result, error) {
	c := &command{kind: k, body: body, done: make(chan fsm.Result, 1)}
	if _, err := b.enqueue(item{command: c}, 0); err != nil {
		return fsm.Result{}, err
	}
	select {
	case r := <-c.done:
		return r, nil
	case <-ctx.Done():
		return fsm.Result{}, ctx.Err()
	}
}

// WaitSeq waits until seq is applied.
func (b *Broker) WaitSeq(ctx context.Context, seq uint64) error {
	for {
		b.mu.Lock()
		applied := b.mu.applied
		b.mu.Unlock()
		if b.stream.Machine().LastSeq() >= seq {
			return nil
		}
		select {
		case <-applied:
		case <-ctx.Done():
			return fmt.Errorf("wait for seq %d: %w", seq, ctx.Err())
		}
	}
}

// Barrier is a wait for nothing: what is committed is applied.
func (b *Broker) Barrier(ctx context.Context) error { return ctx.Err() }

// now never goes back.
func (b *Broker) now() int64 {
	b.time = max(b.time, time.Now().UnixNano())
	return b.time
}

// number resolves a topic number of a submission for the entry that is being built.
func (b *Broker) number(s *cluster.Submission, n uint32) uint32 {
	if n < record.NewTopic {
		return n
	}
	name := s.Names[n-record.NewTopic]
	if id, ok := b.stream.Table().Lookup(name); ok && b.stream.Table().IsTopic(id) {
		return uint32(id)
	}
	return b.entry.NewTopicRef(name)
}
