package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/hashicorp/raft"
)

// A new cluster starts when BootstrapExpect nodes without a log see each other. Each derives the same id for the cluster
// from the sorted list of their ids, shows it in gossip as its ballot, and bootstraps when all of the list show the same
// ballot: so nodes that see different sets, because more were started than expected, do not start two clusters.
//
// The cluster id is stored before raft is bootstrapped. After a crash between the two the node has an id and no log; it
// bootstraps only with a list that gives the same id, or is reached by the others.

// clusterNamespace makes cluster ids of this program.
var clusterNamespace = uuid.MustParse("5d4a3c61-6b0f-4f0e-9a53-0d0f4c9f7a11")

// deriveCluster is the id of the cluster that these nodes start. ids are sorted.
func deriveCluster(label string, ids []string) string {
	return uuid.NewSHA1(clusterNamespace, []byte(label+"\x00"+strings.Join(ids, "\x00"))).String()
}

// founder is a node that may start a cluster.
type founder struct{ id, raft, ballot string }

// founders are this node and the others that it would start a cluster with, sorted; nil while there are too few, or
// when there is a cluster already.
func founders(self founder, expect int, others []member) []founder {
	list := []founder{self}
	for _, m := range others {
		if !m.alive {
			continue
		}
		if m.meta.State {
			return nil
		}
		if !m.meta.Replica && m.meta.Expect == expect {
			list = append(list, founder{m.id, m.meta.Raft, m.meta.Ballot})
		}
	}
	if len(list) < expect {
		return nil
	}
	slices.SortFunc(list, func(a, b founder) int { return strings.Compare(a.id, b.id) })
	return list[:expect]
}

// tryBootstrap starts a new cluster if it is time to. A node that has failed does not try again. Whatever asks for housekeeping in here
// must not do so each time: housekeeping comes here.
func (n *Node) tryBootstrap() {
	own := n.gossip.ownMeta()
	if own.State || own.Expect == 0 || own.Replica || n.Err() != nil {
		return
	}
	list := founders(founder{n.NodeID(), own.Raft, ""}, own.Expect, n.gossip.members())
	if !slices.ContainsFunc(list, func(f founder) bool { return f.id == n.NodeID() }) {
		return
	}
	ids := make([]string, len(list))
	for i, f := range list {
		ids[i] = f.id
	}
	id := deriveCluster(n.opts.ClusterName, ids)
	if stored := n.ClusterID(); stored != "" && stored != id {
		return
	}
	n.gossip.update(func(m *meta) { m.Ballot = id })
	for _, f := range list {
		if f.id != n.NodeID() && f.ballot != id {
			return
		}
	}
	if err := n.bootstrap(id, list); err != nil {
		n.fail(fmt.Errorf("bootstrap cluster %s: %w", id, err))
	}
}

// bootstrap writes the first configuration. Losing a race against a founder that was faster is fine: raft refuses also when it has no
// entry yet but has voted for that one. Nothing has changed then, so housekeeping is not asked for.
func (n *Node) bootstrap(id string, list []founder) error {
	if err := n.adoptCluster(id); err != nil {
		return err
	}
	var c raft.Configuration
	for _, f := range list {
		c.Servers = append(c.Servers, raft.Server{Suffrage: raft.Voter, ID: raft.ServerID(f.id), Address: raft.ServerAddress(f.raft)})
	}
	switch err := n.raft.BootstrapCluster(c).Error(); err {
	case nil:
		n.log.Info("started a new cluster", "cluster", id, "voters", len(list))
		n.kick()
		return nil
	case raft.ErrCantBootstrap:
		return nil
	default:
		return err
	}
}

// adoptCluster makes this node a member of a cluster, once and for good.
func (n *Node) adoptCluster(id string) error {
	isNew, err := n.folder.setCluster(id)
	if isNew {
		n.kick() // housekeeping tells the others
	}
	return err
}

// electAlone saves the only voter the wait for a leader that nobody else can be.
func (n *Node) electAlone() {
	s := n.servers()
	if len(s) != 1 || s[0].Suffrage != raft.Voter || string(s[0].ID) != n.NodeID() || n.raft.State() != raft.Follower {
		return
	}
	n.transport.electNow(raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(n.NodeID()), Addr: []byte(n.RaftAddr())})
}
