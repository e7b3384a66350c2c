package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/wire"
)

// ErrNoNode: the cluster has no node of that id.
var ErrNoNode = errors.New("no such node")

// notLeader is the error of a leader-only call on another node; Message is the leader's HTTP address.
func (n *Node) notLeader() error {
	_, id := n.raft.LeaderWithID()
	e := &wire.Error{Code: wire.Code(fsm.NotLeader)}
	if m, ok := n.gossip.member(string(id)); ok {
		e.Message = m.meta.HTTP
	}
	return e
}

func (n *Node) isLeader() bool { return n.raft.State() == raft.Leader }

// servers are those of raft's newest configuration.
func (n *Node) servers() []raft.Server {
	f := n.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

func (n *Node) server(id string) (raft.Server, bool) {
	for _, s := range n.servers() {
		if string(s.ID) == id {
			return s, true
		}
	}
	return raft.Server{}, false
}

// otherVoters are the ids of the voters without this node.
func (n *Node) otherVoters() []string {
	var ids []string
	for _, s := range n.servers() {
		if s.Suffrage == raft.Voter && string(s.ID) != n.NodeID() {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// AddNode adds a node, as a voter at once or as a non-voter (which autopilot makes a voter when it is stable, unless it
// is a replica). Leader only: elsewhere a *wire.Error with fsm.NotLeader and the leader's HTTP address in Message. An id
// that was removed is refused, and so is a voter that does not answer: it would count for the majority and could
// not help to make it, which nobody could undo where it is missing then.
func (n *Node) AddNode(ctx context.Context, id, raftAddr string, voter bool) error {
	if !n.isLeader() {
		return n.notLeader()
	}
	if slices.Contains(n.folder.identity().Removed, id) {
		return fmt.Errorf("cluster: add node %s: it was removed, and a removed id does not come back: empty its data folder so that it gets a new one", id)
	}
	if m, ok := n.gossip.member(id); ok && raftAddr == "" {
		raftAddr = m.meta.Raft
	}
	if _, _, err := net.SplitHostPort(raftAddr); err != nil {
		return fmt.Errorf("cluster: add node %s: raft address %q: want host:port", id, raftAddr)
	}
	if voter && id != n.NodeID() && n.answering(ctx, id) == 0 {
		return fmt.Errorf("cluster: add node %s: it does not answer, and an absent voter costs majorities: start it with this cluster under join, and it is added by itself", id)
	}
	add := n.raft.AddNonvoter
	if voter {
		add = n.raft.AddVoter
	}
	return n.wait(ctx, "add node "+id, func() error { return add(raft.ServerID(id), raft.ServerAddress(raftAddr), 0, 0).Error() })
}

// RemoveNode removes a node for good: once that is committed its id is never added again. Leader only, as AddNode. Removing the leader itself
// makes it hand over first. After an error of raft's the node may yet be removed, and is then found and added again.
func (n *Node) RemoveNode(ctx context.Context, id string) error {
	if !n.isLeader() {
		return n.notLeader()
	}
	s, ok := n.server(id)
	if !ok {
		return fmt.Errorf("cluster: remove node %s: %w in the cluster", id, ErrNoNode)
	}
	if s.Suffrage == raft.Voter {
		if err := n.majorityWithout(ctx, id); err != nil {
			return err
		}
	}
	n.removing.Store(id, nil) // nobody adds it again in between
	defer n.removing.Delete(id)
	defer n.topologyChanged()
	if err := n.wait(ctx, "remove node "+id, func() error { return n.raft.RemoveServer(s.ID, 0, 0).Error() }); err != nil {
		return err
	}
	if _, err := n.folder.addRemoved(id); err != nil { // it is told only now: a node that hears it stays idle for good
		return fmt.Errorf("cluster: remove node %s: it is removed, but may be added again, since that could not be noted: %w", id, err)
	}
	n.gossip.tellRemoved(id)
	return nil
}

// majorityWithout says why the voters that stay could not go on without a voter, nil if they can: a change that they cannot
// commit would hold up everything, and no further change could mend it.
func (n *Node) majorityWithout(ctx context.Context, id string) error {
	var others []string
	voters, answering := 0, 0
	for _, s := range n.servers() {
		switch {
		case s.Suffrage != raft.Voter || string(s.ID) == id:
			continue
		case string(s.ID) == n.NodeID():
			answering++
		default:
			others = append(others, string(s.ID))
		}
		voters++
	}
	if voters == 0 {
		return fmt.Errorf("cluster: remove node %s: it is the only voter", id)
	}
	answering += n.answering(ctx, others...)
	if answering <= voters/2 {
		return fmt.Errorf("cluster: remove node %s: %d of the %d voters that would stay answer, no majority: bring the others back or remove them first", id, answering, voters)
	}
	return nil
}

// answering asks nodes whether they live and counts the answers: gossip takes seconds to see a death.
func (n *Node) answering(ctx context.Context, ids ...string) int {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return len(n.gossip.askAll(ctx, ids))
}

// TransferLeader hands the leadership to a voter, "" to the one that is furthest. Leader only, as AddNode.
func (n *Node) TransferLeader(ctx context.Context, to string) error {
	if !n.isLeader() {
		return n.notLeader()
	}
	return n.wait(ctx, "transfer the leadership", func() error { return n.transferTo(to) })
}

// transferTo waits for the outcome, at most raft's election timeout.
func (n *Node) transferTo(to string) error {
	if to == n.NodeID() {
		return nil
	}
	var f raft.Future
	if to == "" {
		f = n.raft.LeadershipTransfer()
	} else {
		s, ok := n.server(to)
		if !ok || s.Suffrage != raft.Voter {
			return fmt.Errorf("%w among the voters: %s", ErrNoNode, to)
		}
		f = n.raft.LeadershipTransferToServer(s.ID, s.Address)
	}
	err := f.Error()
	if err != nil || n.isLeader() {
		n.tasks.Go(n.watchTransfer)
	}
	return err
}

// wait runs one of raft's slow calls, given up when ctx ends; the call itself goes on.
func (n *Node) wait(ctx context.Context, what string, f func() error) error {
	err := n.await(ctx, f)
	switch {
	case err == nil, errors.Is(err, ErrClosed):
		return err
	case errors.Is(err, raft.ErrNotLeader):
		return n.notLeader()
	}
	return fmt.Errorf("cluster: %s: %w", what, err)
}

// reconcileMembers is the leader's: it adds nodes that gossip has found, as non-voters. It leaves addresses in raft's
// configuration as they are: the transport asks gossip where a node is, and in v1.8.0 changing one races with the replication to it.
func (n *Node) reconcileMembers(ctx context.Context) {
	for more := true; more; more = pause.For(ctx, n.opts.HeartbeatTimeout) {
		n.addFound(ctx)
	}
}

func (n *Node) addFound(ctx context.Context) {
	for _, m := range n.gossip.alive() {
		n.removeReplaced(m)
		_, known := n.server(m.id)
		foreign := m.meta.Cluster != "" && m.meta.Cluster != n.ClusterID()
		_, leaving := n.removing.Load(m.id) // after known and before Removed: RemoveNode goes the other way round
		if ctx.Err() != nil || known || foreign || leaving || m.meta.Raft == "" || slices.Contains(n.folder.identity().Removed, m.id) {
			continue
		}
		n.log.Info("adding a node", "id", m.id, "name", m.meta.Name, "raft", m.meta.Raft)
		if err := n.changes().AddNonvoter(raft.ServerID(m.id), raft.ServerAddress(m.meta.Raft), 0, 0).Error(); err != nil {
			n.log.Warn("cannot add a node", "id", m.id, "error", err)
		}
	}
}

// removeReplaced removes dead servers in whose place a live node is: it has their raft address, since a node that lost its disk comes back
// under a new id, or says that it has given their id up.
func (n *Node) removeReplaced(m member) {
	for _, s := range n.servers() {
		id := string(s.ID)
		replaced := string(s.Address) == m.meta.Raft || id == m.meta.Was
		if !replaced || id == m.id || id == n.NodeID() || n.deadFor(id) < 2*n.opts.HeartbeatTimeout {
			continue
		}
		n.log.Warn("removing a dead node: another has taken its place", "id", id, "raft", s.Address, "by", m.id)
		if err := n.changes().RemoveServer(s.ID, 0, 0).Error(); err != nil {
			n.log.Warn("cannot remove a dead node", "id", id, "error", err)
		}
	}
}
