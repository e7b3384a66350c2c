package cluster

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// progress tells who waits that something has moved. With nobody waiting it costs one atomic.
type progress struct {
	waiting atomic.Int64
	mu      struct {
		sync.Mutex
		moved chan struct{} // closed at the next tell
	}
}

func (p *progress) init() { p.mu.moved = make(chan struct{}) }

// tell wakes all who wait, so that they look again. What moved was stored before.
func (p *progress) tell() {
	if p.waiting.Load() == 0 {
		return
	}
	p.mu.Lock()
	close(p.mu.moved)
	p.mu.moved = make(chan struct{})
	p.mu.Unlock()
}

// wait returns nil as soon as reached is true. stop ends it with ErrClosed.
func (p *progress) wait(ctx context.Context, stop <-chan struct{}, reached func() bool) error {
	if reached() {
		return nil
	}
	p.waiting.Add(1)
	defer p.waiting.Add(-1)
	for {
		p.mu.Lock()
		moved := p.mu.moved
		p.mu.Unlock()
		if reached() { // after waiting was raised: a tell from here on closes moved
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

// positions is how far this node has applied the log.
type positions struct {
	progress
	index atomic.Uint64 // of the last entry that passed the state machine; raft's own no-ops and barriers do not
}

// advance notes that entries up to index were applied, or came with a snapshot. Apply's goroutine only.
func (p *positions) advance(index uint64) {
	p.index.Store(index)
	p.tell()
}

// WaitSeq waits until seq is applied here.
func (n *Node) WaitSeq(ctx context.Context, seq uint64) error {
	return n.positions.wait(ctx, n.ctx.Done(), func() bool { return n.stream.Machine().LastSeq() >= seq })
}

func (n *Node) waitIndex(ctx context.Context, index uint64) error {
	return n.positions.wait(ctx, n.ctx.Done(), func() bool { return n.positions.index.Load() >= index })
}

// lastApplicable is the newest entry up to index that the state machine gets to see; 0 if there is none after what the log is cut
// behind, which a snapshot holds.
func (n *Node) lastApplicable(index uint64) (uint64, error) {
	for ; index > 0; index-- {
		var l raft.Log
		if err := n.logs.GetLog(index, &l); errors.Is(err, raft.ErrLogNotFound) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
		if l.Type == raft.LogCommand || l.Type == raft.LogConfiguration {
			break
		}
	}
	return index, nil
}
