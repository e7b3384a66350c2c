package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/sync/semaphore"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

const (
	maxCommands  = 1024                  // commands that wait at once; more are refused as Unavailable
	retryRefused = 20 * time.Millisecond // pause before batches that raft refused are proposed again
	idleWait     = time.Second           // longest sleep of the proposer

	// batchCost is counted beside a batch's bytes against MaxInflight: the smallest buffer that holds a batch, the submission
	// and the ack to come. Without it a flood of tiny batches would take many times the limit.
	batchCost = 1 << 10
)

// applier is what the proposer needs of *raft.Raft; tests have smaller ones.
type applier interface {
	Apply(data []byte, timeout time.Duration) raft.ApplyFuture
}

// proposer takes batches on every node and moves them on: into raft while this node leads, over the link to the leader
// while another does, and nowhere while nobody does, at most for PublishWait. One goroutine does all of that, so batches
// keep their order across changes of the leader.
type proposer struct {
	raft    applier
	stream  *Stream
	metrics *metrics
	log     hclog.Logger
	diskLow *atomic.Bool
	link    func() *link // to the leader, nil if there is none or this node leads
	stuck   func(error)  // called when raft refuses for too long
	clock   func() time.Time

	codec       record.Codec
	inflight    int           // entries in raft at once
	publishWait time.Duration // without progress
	stuckAfter  time.Duration

	room  *semaphore.Weighted // bytes queued, proposed and forwarded
	limit int64               // of room
	wake  chan struct{}       // capacity 1: there is something to do
	moved atomic.Int64        // unix nanoseconds of the last batch that was settled: progress

	mu struct {
		sync.Mutex
		queue     queue
		bytes     int    // of queue
		submitted uint64 // batches, ever
		forwarded int    // items of queue that may only be proposed here
		commands  []*command
		closed    bool
		leading   *session // nil: this node does not lead; not accepting: it leads and is not ready
	}

	// Of the goroutine.

	builder record.EntryBuilder
	stamp   stamp
	retryAt time.Time
}

func newProposer(o Options, r applier, s *Stream, m *metrics) *proposer {
	return &proposer{
		raft: r, stream: s, metrics: m, log: o.Logger.Named("proposer"), clock: o.clock,
		codec: o.Codec, inflight: o.EntriesInflight, publishWait: o.PublishWait, stuckAfter: 2 * o.ElectionTimeout,
		room: semaphore.NewWeighted(int64(o.MaxInflight)), limit: int64(o.MaxInflight),
		wake: make(chan struct{}, 1),
	}
}

// submit queues a batch; see Broker.Submit.
func (p *proposer) submit(ctx context.Context, s *Submission) error {
	size := len(s.Batch)
	if err := p.room.Acquire(ctx, p.cost(size)); err != nil {
		return err
	}
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		p.room.Release(p.cost(size))
		return ErrClosed
	}
	p.mu.submitted++
	p.mu.queue.push(queued{s: s, size: size, at: time.Now().UnixNano(), order: p.mu.submitted})
	p.mu.bytes += size
	if s.Forwarded {
		p.mu.forwarded++
	}
	p.mu.Unlock()
	p.wakeUp()
	return nil
}

func (p *proposer) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *proposer) progress() { p.moved.Store(time.Now().UnixNano()) }

// complete ends an item's way. Any goroutine.
func (p *proposer) complete(it queued, r fsm.Result) {
	p.metrics.outcome(r.Code)
	it.s.finish(r)
	p.room.Release(p.cost(it.size))
}

// cost is what a batch of so many bytes takes of room. One batch always fits.
func (p *proposer) cost(size int) int64 { return min(int64(size)+batchCost, p.limit) }

// setSession changes the role: a session while this node leads.
func (p *proposer) setSession(s *session) {
	p.mu.Lock()
	p.mu.leading = s
	p.mu.Unlock()
	p.wakeUp()
}

func (p *proposer) session() *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.leading
}

// run moves batches until ctx ends; then the queue is completed as ShuttingDown.
func (p *proposer) run(ctx context.Context) {
	t := time.NewTimer(idleWait)
	defer t.Stop()
	for {
		t.Reset(p.step(time.Now()))
		select {
		case <-p.wake:
		case <-t.C:
		case <-ctx.Done():
			p.close()
			return
		}
	}
}

// step does what can be done now and returns how long to sleep if nothing else happens.
func (p *proposer) step(now time.Time) time.Duration {
	sess := p.session()
	switch {
	case sess != nil && sess.accepting():
		p.lead(sess, now)
	case sess != nil: // leading, but the log before is not applied yet: hold on
	default:
		p.retryAt = time.Time{} // it was of a leadership that is over
		p.refuseCommands()
		p.refuseForwarded()
		if l := p.link(); l != nil {
			p.forward(l)
		}
	}
	return p.expire(now)
}

// expire completes what has waited too long while nothing moved, and returns when to look again.
func (p *proposer) expire(now time.Time) time.Duration {
	stopped := now.UnixNano()-p.moved.Load() > int64(p.publishWait)
	for stopped {
		p.mu.Lock()
		if !p.mu.queue.expiredAt(now.UnixNano(), p.publishWait) {
			p.mu.Unlock()
			break
		}
		it := p.popLocked()
		p.mu.Unlock()
		p.complete(it, fsm.Result{Code: fsm.Unavailable})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !p.retryAt.IsZero():
		return retryRefused
	case p.mu.queue.len() > 0:
		return min(idleWait, p.publishWait/4+time.Millisecond)
	}
	return idleWait
}

func (p *proposer) popLocked() queued {
	it := p.mu.queue.pop()
	p.mu.bytes -= it.size
	if it.s.Forwarded {
		p.mu.forwarded--
	}
	return it
}

// putBack returns items that were popped and not moved on, to the front. Any goroutine.
func (p *proposer) putBack(items []queued) {
	p.mu.Lock()
	if p.mu.closed {
		p.mu.Unlock()
		for _, it := range items {
			p.complete(it, fsm.Result{Code: fsm.ShuttingDown})
		}
		return
	}
	defer p.mu.Unlock()
	p.mu.queue.putBack(items)
	for _, it := range items {
		p.mu.bytes += it.size
		if it.s.Forwarded {
			p.mu.forwarded++
		}
	}
}

// refuseForwarded completes what a peer sent in the belief that this node leads. The peer asks the next leader.
func (p *proposer) refuseForwarded() {
	p.mu.Lock()
	var refused []queued
	if p.mu.forwarded > 0 {
		for range p.mu.queue.len() {
			it := p.popLocked()
			if it.s.Forwarded {
				refused = append(refused, it)
				continue
			}
			p.mu.queue.push(it)
			p.mu.bytes += it.size
		}
	}
	p.mu.Unlock()
	for _, it := range refused {
		p.complete(it, fsm.Result{Code: fsm.NotLeader})
	}
}

// close completes what is queued.
func (p *proposer) close() {
	p.mu.Lock()
	p.mu.closed = true
	var items []queued
	for p.mu.queue.len() > 0 {
		items = append(items, p.popLocked())
	}
	p.mu.Unlock()
	p.refuseCommands()
	for _, it := range items {
		p.complete(it, fsm.Result{Code: fsm.ShuttingDown})
	}
}

// queued is how many batches and bytes wait.
func (p *proposer) queued() (batches, bytes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.queue.len(), p.mu.bytes
}
