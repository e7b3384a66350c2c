package cluster

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/wire"
)

// topologies is the newest topology and who waits for the next.
type topologies struct {
	current atomic.Pointer[topologyState]
	trigger chan struct{} // capacity 1: something may have changed
	removed chan struct{} // closed by keepTopology when this node was removed from the cluster
}

// topologyState is one topology. It is never changed.
type topologyState struct {
	topology wire.Topology
	over     chan struct{} // closed when a newer one stands
}

// Topology is who is in the cluster and who leads, as this node knows.
func (n *Node) Topology() wire.Topology { return n.topologies.current.Load().topology }

// TopologyChanged returns a channel that is closed at the next change. Take it before Topology.
func (n *Node) TopologyChanged() <-chan struct{} { return n.topologies.current.Load().over }

// topologyChanged asks for a new look. It does not block.
func (n *Node) topologyChanged() {
	select {
	case n.topologies.trigger <- struct{}{}:
	default:
	}
}

// keepTopology computes topologies until ctx ends. It is the only writer.
func (n *Node) keepTopology(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.topologies.trigger:
		}
		t := n.computeTopology()
		n.noteRemoval(t)
		old := n.topologies.current.Load()
		if reflect.DeepEqual(t, old.topology) {
			continue
		}
		n.topologies.current.Store(&topologyState{topology: t, over: make(chan struct{})})
		close(old.over)
		n.proposer.wakeUp()
	}
}

// Removed is closed when this node was removed from the cluster for good, also by an earlier run. It hears of nothing new
// then, and is to serve nobody.
func (n *Node) Removed() <-chan struct{} { return n.topologies.removed }

// noteRemoval is keepTopology's. Being among the removed is not enough: so is, for a moment, a member whose removal is under
// way. But raft does not promise that the removed node hears of the change, so silence is enough beside it.
func (n *Node) noteRemoval(t wire.Topology) {
	member := slices.ContainsFunc(t.Nodes, func(i wire.NodeInfo) bool { return i.ID == n.NodeID() })
	if member && t.LeaderID != "" || !slices.Contains(n.folder.identity().Removed, n.NodeID()) {
		return
	}
	select {
	case <-n.topologies.removed:
	default:
		n.log.Warn("this node was removed from the cluster and stays idle: empty its data folder to let it join as a new node")
		close(n.topologies.removed)
	}
}

func (n *Node) computeTopology() wire.Topology {
	_, leader := n.raft.LeaderWithID()
	t := wire.Topology{ClusterID: n.ClusterID(), LeaderID: string(leader), Term: n.raft.CurrentTerm()}
	own := n.gossip.ownMeta()
	for _, s := range n.servers() {
		info := wire.NodeInfo{ID: string(s.ID), Voter: s.Suffrage == raft.Voter}
		if info.ID == n.NodeID() {
			info.ClientAddr, info.HTTPAddr, info.Alive = own.Client, own.HTTP, true
		} else if m, ok := n.gossip.member(info.ID); ok {
			info.ClientAddr, info.HTTPAddr, info.Alive = m.meta.Client, m.meta.HTTP, m.alive
		}
		t.Nodes = append(t.Nodes, info)
	}
	slices.SortFunc(t.Nodes, func(a, b wire.NodeInfo) int { return strings.Compare(a.ID, b.ID) })
	return t
}

// observeRaft passes raft's notices of a changed leader or peer on, until ctx ends.
func (n *Node) observeRaft(ctx context.Context) {
	ch := make(chan raft.Observation, 16)
	o := raft.NewObserver(ch, false, func(o *raft.Observation) bool {
		switch o.Data.(type) {
		case raft.LeaderObservation, raft.PeerObservation, raft.RaftState:
			return true
		}
		return false
	})
	n.raft.RegisterObserver(o)
	defer n.raft.DeregisterObserver(o)
	for {
		n.topologyChanged()
		select {
		case <-ctx.Done():
			return
		case <-ch:
		}
	}
}
