package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// positions tells who waits that more was applied. With nobody waiting an apply costs two atomics.
type positions struct {
	index   atomic.Uint64 // of the last entry that passed the state machine; raft's own no-ops and barriers do not
	waiting atomic.Int64
	mu      struct {
		sync.Mutex
		moved chan struct{} // closed at the next advance
	}
}

func (p *positions) init() { p.mu.moved = make(chan struct{}) }

// advance notes that entries up to index were applied. Apply's goroutine only.
func (p *positions) advance(index uint64) {
	p.index.Store(index)
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	close(p.mu.moved)
	p.mu.moved = make(chan struct{})
	p.mu.Unlock()
}

// wait returns nil as soon as reached is true. stop ends it with ErrClosed.
func (p *positions) wait(ctx context.Context, stop <-chan struct{}, reached func() bool) error {
	if reached() {
		return nil
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	for {
		p.mu.Lock()
		moved := p.mu.moved
		p.mu.Unlock()
		if reached() { // after waiting was raised: an advance from here on closes moved
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		case <-stop:
			return ErrClosed
		}
	}
}

// WaitSeq waits until seq is applied here.
func (n *Node) WaitSeq(ctx context.Context, seq uint64) error {
	return n.positions.wait(ctx, n.ctx.Done(), func() bool { return n.stream.Machine().LastSeq() >= seq })
}

func (n *Node) waitIndex(ctx context.Context, index uint64) error {
	return n.positions.wait(ctx, n.ctx.Done(), func() bool { return n.positions.index.Load() >= index })
}

// lastApplicable is the newest entry up to index that the state machine gets to see; 0 if there is none.
func (n *Node) lastApplicable(index uint64) (uint64, error) {
	for ; index > 0; index-- {
		var l raft.Log
		if err := n.logs.GetLog(index, &l); err != nil {
			return 0, err
		}
		if l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			break
		}
	}
	return index, nil
}
