package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/raft"
	autopilot "github.com/hashicorp/raft-autopilot"
)

const (
	// minQuorum is the number of voters below which autopilot never removes dead ones.
	minQuorum = 3
	// maxTrailing entries behind the leader a node still counts as healthy.
	maxTrailing = 256

	metaReplica = "replica" // key of Server.Meta, set for replicas
)

// typeReplica is the autopilot type of nodes that never vote.
const typeReplica autopilot.NodeType = "replica"

// promoter decides who votes: stable nodes do, replicas never; and who is removed: the dead, after long.
type promoter struct {
	autopilot.StablePromoter
	deadFor func(id string) time.Duration
	limit   time.Duration
}

func isReplica(s *autopilot.ServerState) bool { return s.Server.Meta[metaReplica] != "" }

// GetNodeTypes implements autopilot.Promoter.
func (p *promoter) GetNodeTypes(_ *autopilot.Config, s *autopilot.State) map[raft.ServerID]autopilot.NodeType {
	types := make(map[raft.ServerID]autopilot.NodeType, len(s.Servers))
	for id, srv := range s.Servers {
		types[id] = autopilot.NodeVoter
		if isReplica(srv) {
			types[id] = typeReplica
		}
	}
	return types
}

// CalculatePromotionsAndDemotions implements autopilot.Promoter.
func (p *promoter) CalculatePromotionsAndDemotions(c *autopilot.Config, s *autopilot.State) autopilot.RaftChanges {
	all := p.StablePromoter.CalculatePromotionsAndDemotions(c, s)
	var changes autopilot.RaftChanges
	for _, id := range all.Promotions {
		if srv := s.Servers[id]; srv != nil && !isReplica(srv) {
			changes.Promotions = append(changes.Promotions, id)
		}
	}
	return changes
}

// FilterFailedServerRemovals implements autopilot.Promoter: only servers dead for long are removed.
func (p *promoter) FilterFailedServerRemovals(_ *autopilot.Config, _ *autopilot.State, failed *autopilot.FailedServers) *autopilot.FailedServers {
	long := func(in []*autopilot.Server) (out []*autopilot.Server) {
		for _, s := range in {
			if p.deadFor(string(s.ID)) > p.limit {
				out = append(out, s)
			}
		}
		return out
	}
	return &autopilot.FailedServers{FailedNonVoters: long(failed.FailedNonVoters), FailedVoters: long(failed.FailedVoters)}
}

// IsPotentialVoter implements autopilot.Promoter.
func (p *promoter) IsPotentialVoter(t autopilot.NodeType) bool { return t != typeReplica }

// newAutopilot makes the autopilot; it runs only while this node leads.
func (n *Node) newAutopilot() *autopilot.Autopilot {
	return autopilot.New(n.changes(), (*integration)(n),
		autopilot.WithPromoter(&promoter{deadFor: n.deadFor, limit: n.opts.CleanupDeadAfter}),
		autopilot.WithLogger(n.opts.Logger.Named("autopilot")),
		autopilot.WithUpdateInterval(n.opts.HeartbeatTimeout),
		autopilot.WithReconcileInterval(2*n.opts.HeartbeatTimeout))
}

// deadFor is how long gossip has not seen a node; a node never seen counts from this node's start.
func (n *Node) deadFor(id string) time.Duration {
	m, ok := n.gossip.member(id)
	switch {
	case !ok:
		return time.Since(n.started)
	case m.alive:
		return 0
	}
	return time.Since(m.since)
}

// integration is what autopilot asks of the node.
type integration Node

func (i *integration) node() *Node { return (*Node)(i) }

// AutopilotConfig implements autopilot.ApplicationIntegration.
func (i *integration) AutopilotConfig() *autopilot.Config {
	return &autopilot.Config{
		CleanupDeadServers: true, LastContactThreshold: 2 * i.opts.HeartbeatTimeout,
		MaxTrailingLogs: maxTrailing, MinQuorum: minQuorum, ServerStabilizationTime: i.opts.Stabilization,
	}
}

// NotifyState implements autopilot.ApplicationIntegration.
func (i *integration) NotifyState(*autopilot.State) { i.node().topologyChanged() }

// FetchServerStats implements autopilot.ApplicationIntegration.
func (i *integration) FetchServerStats(ctx context.Context, servers map[raft.ServerID]*autopilot.Server) map[raft.ServerID]*autopilot.ServerStats {
	n := i.node()
	var ids []string
	for id := range servers {
		if string(id) != n.NodeID() {
			ids = append(ids, string(id))
		}
	}
	stats := make(map[raft.ServerID]*autopilot.ServerStats, len(servers))
	for id, a := range n.gossip.askAll(ctx, ids) {
		stats[raft.ServerID(id)] = statsOf(a)
	}
	own := statsOf(n.answer())
	own.LastContact = 0
	stats[raft.ServerID(n.NodeID())] = own
	return stats
}

func statsOf(a answer) *autopilot.ServerStats {
	return &autopilot.ServerStats{LastContact: time.Duration(a.ContactMS) * time.Millisecond, LastTerm: a.LastTerm, LastIndex: a.Last}
}

// KnownServers implements autopilot.ApplicationIntegration: gossip's members, and the servers of raft's configuration
// that gossip does not know, as failed.
func (i *integration) KnownServers() map[raft.ServerID]*autopilot.Server {
	n := i.node()
	known := map[raft.ServerID]*autopilot.Server{}
	for _, s := range n.servers() {
		known[s.ID] = &autopilot.Server{ID: s.ID, Address: s.Address, NodeStatus: autopilot.NodeFailed, RaftVersion: 3}
	}
	for _, m := range n.gossip.members() {
		known[raft.ServerID(m.id)] = serverOf(m)
	}
	known[raft.ServerID(n.NodeID())] = n.ownServer()
	return known
}

func (n *Node) ownServer() *autopilot.Server {
	own := n.gossip.ownMeta()
	return &autopilot.Server{
		ID: raft.ServerID(n.NodeID()), Name: own.Name, Address: raft.ServerAddress(own.Raft),
		NodeStatus: autopilot.NodeAlive, RaftVersion: 3, IsLeader: n.isLeader(),
	}
}

func serverOf(m member) *autopilot.Server {
	s := &autopilot.Server{
		ID: raft.ServerID(m.id), Name: m.meta.Name, Address: raft.ServerAddress(m.meta.Raft),
		NodeStatus: autopilot.NodeFailed, Version: m.meta.Version, RaftVersion: 3, Meta: map[string]string{},
	}
	if m.alive {
		s.NodeStatus = autopilot.NodeAlive
	}
	if m.meta.Replica {
		s.Meta[metaReplica] = "1"
	}
	return s
}

// RemoveFailedServer implements autopilot.ApplicationIntegration. The node may come back: its id is not barred.
func (i *integration) RemoveFailedServer(s *autopilot.Server) {
	n := i.node()
	n.tasks.Go(func() {
		n.log.Warn("removing a server that has been dead for long", "id", s.ID, "after", n.opts.CleanupDeadAfter)
		if err := n.changes().RemoveServer(s.ID, 0, 0).Error(); err != nil {
			n.log.Warn("cannot remove a dead server", "id", s.ID, "error", err)
		}
	})
}
