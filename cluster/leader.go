package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/bugs"
	"github.com/cantus-bus/cantus/internal/pause"
)

// leadership is what runs only while this node leads.
type leadership struct {
	sess   *session
	cancel context.CancelFunc
	tasks  sync.WaitGroup
}

// followLeadership is the goroutine that takes raft's notices of won and lost leadership; raft waits for it. It ends when
// raft has been shut down, and then sweeps what raft never answered.
func (n *Node) followLeadership(raftDown <-chan struct{}) {
	var cur *leadership
	for {
		select {
		case leads := <-n.notify:
			cur = n.switchLeadership(cur, leads)
		case <-raftDown:
			n.switchLeadership(cur, false)
			return
		}
	}
}

func (n *Node) switchLeadership(cur *leadership, leads bool) *leadership {
	if cur != nil {
		n.endLeadership(cur)
	}
	n.topologyChanged()
	if !leads {
		return nil
	}
	return n.beginLeadership()
}

// beginLeadership makes a session. It opens when a barrier has passed: then the topic table holds all of the log before.
func (n *Node) beginLeadership() *leadership {
	n.metrics.leaderships.Inc()
	ctx, cancel := context.WithCancel(n.ctx)
	l := &leadership{sess: newSession(randomID(), n.opts.EntriesInflight, n.proposer), cancel: cancel}
	n.proposer.setSession(l.sess)
	l.tasks.Go(func() {
		if n.leaderBarrier(ctx) {
			n.openSession(l.sess)
			n.proposeConfig(ctx)
			n.log.Info("leads", "term", n.raft.CurrentTerm(), "seq", n.stream.Machine().LastSeq())
		}
	})
	l.tasks.Go(func() { n.expireProducers(ctx) })
	l.tasks.Go(func() { n.keepPlans(ctx) })
	l.tasks.Go(func() { n.keepRetention(ctx) })
	l.tasks.Go(func() { n.runAutopilot(ctx) })
	return l
}

// openSession lets entries in, once what stood on the link to the old leader has come back: it was submitted before what is
// queued here, and must not be proposed after it.
func (n *Node) openSession(s *session) {
	if l := n.link.Load(); l != nil {
		l.retire(handover)
	}
	s.open()
}

// handover is how long a new leader waits for the old one's answers; without them the fate of what it was sent is unknown.
const handover = 200 * time.Millisecond

// runAutopilot runs autopilot while ctx lasts, and adds new nodes.
func (n *Node) runAutopilot(ctx context.Context) {
	pilot := n.newAutopilot()
	pilot.Start(ctx)
	n.reconcileMembers(ctx)
	<-pilot.Stop()
}

// endLeadership settles what the session left. raft answers at once for what it holds; what it does not answer, because
// it was shut down over it, is swept after a while.
func (n *Node) endLeadership(l *leadership) {
	l.sess.stop()
	l.cancel()
	if !l.sess.drain(sweepAfter) {
		n.log.Warn("raft has not answered for all entries: their fate is unknown")
	}
	returned, swept := l.sess.sweep()
	n.metrics.swept.Add(float64(swept))
	n.proposer.putBack(returned)
	n.proposer.setSession(nil)
	l.tasks.Wait()
	n.log.Info("does not lead any more", "unknown_entries", swept)
}

// sweepAfter is how long raft may take to answer for the entries of a lost leadership.
const sweepAfter = time.Second

// leaderBarrier waits until all of the log up to now is applied here. It is false when the leadership was lost.
func (n *Node) leaderBarrier(ctx context.Context) bool {
	for ctx.Err() == nil {
		err := n.raftBarrier(ctx)
		switch {
		case err == nil:
			return true
		case !errors.Is(err, raft.ErrLeadershipTransferInProgress):
			n.log.Debug("barrier of a new leader", "error", err)
			return false
		}
		pause.For(ctx, retryRefused)
	}
	return false
}

// raftBarrier is raft's barrier, given up when ctx ends.
func (n *Node) raftBarrier(ctx context.Context) error {
	return n.await(ctx, func() error { return n.raft.Barrier(0).Error() })
}

// watchTransfer fails the node if, after a transfer that did not succeed, raft goes on refusing entries: its flag is
// stuck, and a leader that can do nothing keeps the others from electing one that can.
func (n *Node) watchTransfer() {
	if bugs.StuckLeader {
		return
	}
	start, limit := time.Now(), 2*n.opts.ElectionTimeout
	for n.isLeader() && n.ctx.Err() == nil {
		err := n.raftBarrier(n.ctx)
		if !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return
		}
		if d := time.Since(start); d > limit {
			n.fail(fmt.Errorf("raft leads but has refused entries for %v after a leadership transfer: %w: restart the node", d.Round(time.Millisecond), err))
			return
		}
		pause.For(n.ctx, retryRefused)
	}
}
