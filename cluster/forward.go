package cluster

import (
	"context"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
)

const (
	linkDialLimit = 2 * time.Second
	linkRetry     = 100 * time.Millisecond
	linkRetire    = 2 * time.Second
)

// forward moves queued batches onto the link to the leader.
func (p *proposer) forward(l *link) {
	for {
		p.mu.Lock()
		if p.mu.queue.len() == 0 {
			p.mu.Unlock()
			return
		}
		it := p.popLocked()
		p.mu.Unlock()
		if it.s.Forwarded { // it came since such were refused
			p.complete(it, fsm.Result{Code: fsm.NotLeader})
			continue
		}
		if !l.publish(it) {
			p.putBack([]queued{it})
			return
		}
		p.metrics.forwarded.Inc()
	}
}

// currentLink is the link to the leader, nil if there is none.
func (n *Node) currentLink() *link { return n.link.Load() }

// leaderTarget is the node to forward to; addr is empty when there is none: no leader, this node, or its address is not
// known yet.
func (n *Node) leaderTarget() (id, addr string) {
	_, leader := n.raft.LeaderWithID()
	id = string(leader)
	if id == "" || id == n.NodeID() {
		return id, ""
	}
	m, ok := n.gossip.member(id)
	if !ok {
		return id, ""
	}
	return id, m.meta.Client
}

// keepLink keeps one link to the leader while another node leads. It owns the link.
func (n *Node) keepLink(ctx context.Context) {
	for ctx.Err() == nil {
		changed := n.TopologyChanged()
		id, addr := n.leaderTarget()
		if addr == "" {
			n.waitLink(ctx, changed, time.Second)
			continue
		}
		l, err := n.dialLeader(ctx, id, addr)
		if err != nil {
			n.log.Debug("cannot reach the leader to forward publishes", "leader", id, "addr", addr, "error", err)
			n.waitLink(ctx, changed, linkRetry)
			continue
		}
		n.metrics.links.Inc()
		n.link.Store(l)
		n.proposer.wakeUp()
		began := time.Now()
		n.followLink(ctx, l, addr)
		l.retire(linkRetire)
		n.link.Store(nil) // not before: a new leader takes back what stands on it, see openSession
		if time.Since(began) < linkRetry {
			n.waitLink(ctx, changed, linkRetry) // who greets and then ends the connection may do so each time
		}
	}
}

func (n *Node) waitLink(ctx context.Context, changed <-chan struct{}, limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-t.C:
	}
}

func (n *Node) dialLeader(ctx context.Context, id, addr string) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, linkDialLimit)
	defer cancel()
	hello := wire.Hello{
		MinVersion: wire.Version, MaxVersion: wire.Version, Role: wire.RolePeer, ClusterID: n.ClusterID(),
		Client: "cantus-node/" + n.opts.Version, HeartbeatMS: uint32(linkHeartbeat.Milliseconds()),
	}
	return dialLink(ctx, addr, hello, id, n.stream.Table(), n.proposer)
}

// followLink returns when the link has ended, is stale, or leads to a node that does not lead any more.
func (n *Node) followLink(ctx context.Context, l *link, addr string) {
	t := time.NewTicker(linkRetry)
	defer t.Stop()
	for {
		changed := n.TopologyChanged()
		if id, a := n.leaderTarget(); id != l.leader || a != addr || l.isStale() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-l.done:
			return
		case <-changed:
		case <-t.C:
		}
	}
}

func (l *link) isStale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.stale
}
