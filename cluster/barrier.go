package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// barrierLimit bounds one question to the leader; the caller's context bounds the whole.
const barrierLimit = 2 * time.Second

// Barrier: everything committed before the call is applied here when it returns nil. The leader proves that it still
// leads by committing a barrier of raft's; another node asks it and waits for its position.
func (n *Node) Barrier(ctx context.Context) error {
	index, err := n.askLeader(ctx, ask{Op: askBarrier})
	if err != nil {
		return err
	}
	return n.waitIndex(ctx, index)
}

// Checkpoint commits a checkpoint and returns its id: every node takes the digest of its state at that point of the log.
func (n *Node) Checkpoint(ctx context.Context) (id uint64, err error) {
	id = randomID()
	_, err = n.askLeader(ctx, ask{Op: askCheckpoint, Arg: id})
	return id, err
}

// CheckpointDigest waits until the checkpoint is applied here and returns the digest taken there. The last few
// checkpoints are kept.
func (n *Node) CheckpointDigest(ctx context.Context, id uint64) (fsm.Digest, error) {
	var d fsm.Digest
	err := n.positions.wait(ctx, n.ctx.Done(), func() (ok bool) {
		d, ok = n.stream.Machine().Checkpoint(id)
		return ok
	})
	return d, err
}

// askLeader has the leader, which may be this node, do q, again and again until it is done or ctx ends. It returns the
// leader's applied index after it.
func (n *Node) askLeader(ctx context.Context, q ask) (uint64, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, max(n.opts.PublishWait, 2*barrierLimit), errNoAnswer)
	defer cancel()
	last := fsm.Unavailable
	for wait := retryRefused; ; wait = longer(wait) {
		a := n.askLeaderOnce(ctx, q)
		if a.Code == fsm.OK {
			return a.Applied, nil
		}
		last = a.Code
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errNoAnswer) {
				return 0, err
			}
			return 0, &wire.Error{Code: wire.Code(last), Message: fmt.Sprintf("%s: no leader has answered in time", q.Op)}
		case <-n.ctx.Done():
			return 0, ErrClosed
		case <-time.After(wait):
		}
	}
}

var errNoAnswer = errors.New("no answer in time")

func (n *Node) askLeaderOnce(ctx context.Context, q ask) answer {
	_, leader := n.raft.LeaderWithID()
	switch string(leader) {
	case "":
		return answer{Code: fsm.Unavailable}
	case n.NodeID():
		return n.handleAsk(q)
	}
	ctx, cancel := context.WithTimeout(ctx, barrierLimit)
	defer cancel()
	a, err := n.gossip.ask(ctx, string(leader), q)
	if err != nil {
		return answer{Code: fsm.Unavailable}
	}
	return a
}

// handleAsk answers a question of this or another node.
func (n *Node) handleAsk(q ask) answer {
	ctx, cancel := context.WithTimeout(n.ctx, barrierLimit)
	defer cancel()
	code := fsm.OK
	switch q.Op {
	case askBarrier:
		code = n.barrierHere(ctx)
	case askCheckpoint:
		code = n.checkpointHere(ctx, q.Arg)
	}
	a := n.answer()
	a.Code = code
	return a
}

func (n *Node) barrierHere(ctx context.Context) fsm.Code {
	if !n.isLeader() || n.raftBarrier(ctx) != nil {
		return fsm.NotLeader
	}
	return fsm.OK
}

func (n *Node) checkpointHere(ctx context.Context, id uint64) fsm.Code {
	if _, done := n.stream.Machine().Checkpoint(id); done {
		return fsm.OK
	}
	if !n.isLeader() {
		return fsm.NotLeader
	}
	r, err := n.command(ctx, record.KindCheckpoint, fsm.CheckpointBody(id))
	if err != nil {
		return fsm.Unavailable
	}
	return r.Code
}
