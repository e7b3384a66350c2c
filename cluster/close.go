package cluster

import (
	"errors"
	"time"
)

const (
	// closeLimit bounds the wait for raft's answers at Close. raft forgets entries that stand in its queues when it is
	// shut down, so their waiters would never end.
	closeLimit = 5 * time.Second
)

// Close steps down (with a transfer of the leadership if this node leads), stops raft and gossip, and frees the folder.
// Submissions that are queued are completed as ShuttingDown. The stream's readers must be closed before.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.shutdown(true) })
	return n.closeErr
}

// Crash stops the node as a crash would look to the others: the network goes first, nothing is handed over or
// announced. For tests; what is on disk is as a real crash leaves it.
func (n *Node) Crash() error {
	n.closeOnce.Do(func() { n.closeErr = n.shutdown(false) })
	return n.closeErr
}

// shutdown stops in the order in which things depend on each other: intake, leadership, network, raft, stores.
func (n *Node) shutdown(graceful bool) error {
	var errs []error
	if !graceful {
		errs = append(errs, n.transport.Close(), n.gossip.stop(false))
	}
	n.intake()
	n.proposing.Wait()
	n.stream.Retire() // before raft: its apply may wait for the archiver
	if graceful {
		n.stepDown()
		errs = append(errs, n.gossip.stop(true))
	}
	n.drainSession()
	n.cancel()
	n.loops.Wait()
	n.stopRaft()
	n.transport.answers.close(closeLimit)
	n.layer.wait()
	n.serving.close(closeLimit) // it reads files of the stores below
	n.tasks.close(closeLimit)
	n.metrics.close()
	return errors.Join(append(errs, n.stores.close(), n.stream.Close(), n.folder.close())...)
}

// stepDown hands the leadership to another voter, if there is one.
func (n *Node) stepDown() {
	if !n.isLeader() || len(n.otherVoters()) == 0 {
		return
	}
	if err := n.raft.LeadershipTransfer().Error(); err != nil {
		n.log.Info("could not hand the leadership over", "error", err)
	}
}

// drainSession waits until raft has answered for what was proposed. A failed node has answers that never come.
func (n *Node) drainSession() {
	if s := n.proposer.session(); s != nil && n.Err() == nil {
		s.stop()
		s.drain(closeLimit)
	}
}

// stopRaft shuts raft and its transport down; then the leadership's goroutine sweeps and ends.
func (n *Node) stopRaft() {
	n.cancel()
	n.futures.close(closeLimit)
	if err := n.raft.Shutdown().Error(); err != nil {
		n.log.Warn("raft's shutdown", "error", err)
	}
	close(n.raftDown)
	n.leading.Wait()
}
