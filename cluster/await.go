package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
)

// await runs a call that waits for an answer of raft's, given up when ctx ends. Raft forgets what stands in its queues when it is shut down, and
// answers for it never: so Close takes no more such calls, and waits for those that run, before it does that. One that was given up
// ends with the leadership at the latest.
func (n *Node) await(ctx context.Context, call func() error) error {
	done := make(chan error, 1)
	if !n.futures.Go(func() { done <- call() }) {
		return ErrClosed
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// changes is raft for those who change its configuration and wait for that: autopilot, and what follows gossip. Their futures end when
// the node closes, whatever raft has forgotten by then.
func (n *Node) changes() awaitedRaft { return awaitedRaft{n.raft, n} }

type awaitedRaft struct {
	*raft.Raft
	n *Node
}

func (r awaitedRaft) AddNonvoter(id raft.ServerID, addr raft.ServerAddress, prev uint64, timeout time.Duration) raft.IndexFuture {
	return awaitedFuture{r.Raft.AddNonvoter(id, addr, prev, timeout), r.n}
}

func (r awaitedRaft) AddVoter(id raft.ServerID, addr raft.ServerAddress, prev uint64, timeout time.Duration) raft.IndexFuture {
	return awaitedFuture{r.Raft.AddVoter(id, addr, prev, timeout), r.n}
}

func (r awaitedRaft) DemoteVoter(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture {
	return awaitedFuture{r.Raft.DemoteVoter(id, prev, timeout), r.n}
}

func (r awaitedRaft) RemoveServer(id raft.ServerID, prev uint64, timeout time.Duration) raft.IndexFuture {
	return awaitedFuture{r.Raft.RemoveServer(id, prev, timeout), r.n}
}

func (r awaitedRaft) LeadershipTransferToServer(id raft.ServerID, addr raft.ServerAddress) raft.Future {
	return awaitedTransfer{r.Raft.LeadershipTransferToServer(id, addr), r.n}
}

// awaitedFuture is a future whose Error ends when the node closes. Index is of use after an Error of nil only.
type awaitedFuture struct {
	raft.IndexFuture
	n *Node
}

func (f awaitedFuture) Error() error { return f.n.await(f.n.ctx, f.IndexFuture.Error) }

// awaitedTransfer is the same of a future without an index.
type awaitedTransfer struct {
	raft.Future
	n *Node
}

func (f awaitedTransfer) Error() error { return f.n.await(f.n.ctx, f.Future.Error) }
