package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Roles of a node in NodeStatus.
const (
	RoleLeader   = "leader"
	RoleFollower = "follower"
	RoleNonVoter = "non-voter" // joining: becomes a voter when it is stable
	RoleReplica  = "replica"   // stays a non-voter
	RoleLeft     = "left"      // known, but not (any more) in the cluster
)

// States of a cluster in Status.
const (
	StateHealthy  = "healthy"
	StateDegraded = "degraded" // publishes are taken, and something is wrong or not done yet: less may fail than should
	StateDown     = "down"     // no leader, or no quorum: publishes are not taken
)

// NodeStatus is one node as another sees it.
type NodeStatus struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Role          string `json:"role"` // see Role*
	RaftAddr      string `json:"raft_addr"`
	ClientAddr    string `json:"client_addr"`
	HTTPAddr      string `json:"http_addr"`
	Alive         bool   `json:"alive"`         // gossip sees it
	Healthy       bool   `json:"healthy"`       // it answers, has no problem, and the vote that it is to have
	AppliedIndex  uint64 `json:"applied_index"` // of the last entry that its state machine applied
	AppliedSeq    uint64 `json:"applied_seq"`
	LagEntries    uint64 `json:"lag_entries"`     // log entries behind the leader
	LastContactMS int64  `json:"last_contact_ms"` // since it heard of the leader; 0 for the leader, -1 unknown
	Version       string `json:"version"`
	Problem       string `json:"problem,omitempty"`

	Aside *AsideStatus `json:"stepped_aside,omitempty"` // as Status.Aside, with a reason of at most maxAsideReason bytes
}

// Status is the cluster as one node sees it.
type Status struct {
	ClusterID        string       `json:"cluster_id"`
	NodeID           string       `json:"node_id"`
	State            string       `json:"state"`   // see State*
	Healthy          bool         `json:"healthy"` // the state is StateHealthy
	Problems         []string     `json:"problems,omitempty"`
	Leader           string       `json:"leader"` // "" none
	Term             uint64       `json:"term"`
	CommitIndex      uint64       `json:"commit_index"`
	AppliedIndex     uint64       `json:"applied_index"`
	FirstSeq         uint64       `json:"first_seq"`
	AppliedSeq       uint64       `json:"applied_seq"`
	Nodes            []NodeStatus `json:"nodes"`
	FailureTolerance int          `json:"failure_tolerance"` // voters that may fail now without losing the quorum

	LogFirstIndex uint64        `json:"log_first_index"`    // oldest entry in the log of the node that answers; 0: none
	LogKnownBytes int64         `json:"log_known_bytes"`    // of entries stored since that node started
	Snapshot      *SnapshotInfo `json:"snapshot,omitempty"` // its newest; nil: it has none

	CatchUp *CatchUpStatus `json:"catch_up,omitempty"` // of the node that answers; nil: it fetches nothing

	Aside *AsideStatus `json:"stepped_aside,omitempty"` // of the node that answers; nil: it never did, or what it moved is gone

	History *HistoryStatus `json:"history,omitempty"` // of the node that answers; nil: it keeps none
}

// Status asks the other nodes for their positions, for a second at most.
func (n *Node) Status(ctx context.Context) Status {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var others []string
	for _, m := range n.gossip.alive() {
		others = append(others, m.id)
	}
	answers := n.gossip.askAll(ctx, others)
	own := n.answer()
	answers[n.NodeID()] = own
	_, leader := n.raft.LeaderWithID()
	s := Status{
		ClusterID: n.ClusterID(), NodeID: n.NodeID(), Leader: string(leader), Term: n.raft.CurrentTerm(),
		CommitIndex: own.Commit, AppliedIndex: own.Applied, FirstSeq: own.First, AppliedSeq: own.Seq,
	}
	s.History, s.CatchUp, s.Aside = n.stream.HistoryStatus(), n.catchup.status(), n.asideStatus()
	if s.History != nil {
		s.History.Repaired = n.repair.done.Load()
	}
	s.LogFirstIndex, s.LogKnownBytes = n.logFirst(), n.guard.sizes.known()
	if list := n.Snapshots(); len(list) > 0 {
		s.Snapshot = &list[0]
	}
	s.Nodes = n.nodeStatuses(string(leader), answers)
	s.judge(n.servers())
	return s
}

// nodeStatuses lists the servers of the cluster and other live members.
func (n *Node) nodeStatuses(leader string, answers map[string]answer) []NodeStatus {
	known := map[string]NodeStatus{n.NodeID(): statusOf(n.selfMember())}
	for _, m := range n.gossip.members() {
		known[m.id] = statusOf(m)
	}
	voters := map[string]bool{}
	for _, s := range n.servers() {
		id := string(s.ID)
		ns, ok := known[id]
		if !ok {
			ns = NodeStatus{ID: id, RaftAddr: string(s.Address), LastContactMS: -1}
		}
		ns.Role = roleOf(s, id == leader, ns.Role == RoleReplica)
		known[id], voters[id] = ns, true
	}
	var out []NodeStatus
	for id, ns := range known {
		if !voters[id] {
			if !ns.Alive {
				continue
			}
			ns.Role = RoleLeft
		}
		a, answered := answers[id]
		ns.fill(a, answered, answers[leader].Last)
		out = append(out, ns)
	}
	slices.SortFunc(out, func(a, b NodeStatus) int { return strings.Compare(a.ID, b.ID) })
	return out
}

func (n *Node) selfMember() member {
	return member{id: n.NodeID(), meta: n.gossip.ownMeta(), alive: true}
}

// statusOf is what gossip says. Role tells only whether it is a replica.
func statusOf(m member) NodeStatus {
	s := NodeStatus{
		ID: m.id, Name: m.meta.Name, RaftAddr: m.meta.Raft, ClientAddr: m.meta.Client, HTTPAddr: m.meta.HTTP,
		Alive: m.alive, Version: m.meta.Version, LastContactMS: -1,
	}
	if m.meta.Replica {
		s.Role = RoleReplica
	}
	return s
}

func roleOf(s raft.Server, leads, replica bool) string {
	switch {
	case leads:
		return RoleLeader
	case s.Suffrage == raft.Voter:
		return RoleFollower
	case replica:
		return RoleReplica
	}
	return RoleNonVoter
}

// fill adds what the node itself answered.
func (s *NodeStatus) fill(a answer, answered bool, leaderLast uint64) {
	switch {
	case !s.Alive:
		s.Problem = "gossip does not see it"
	case !answered:
		s.Problem = "does not answer"
	default:
		s.AppliedIndex, s.AppliedSeq, s.LastContactMS, s.Problem, s.Aside = a.Applied, a.Seq, a.ContactMS, a.Problem, a.Aside
		if leaderLast > a.Last {
			s.LagEntries = leaderLast - a.Last
		}
		if a.DiskLow && s.Problem == "" {
			s.Problem = "its disk is nearly full: it takes no publishes while it leads"
		}
		if s.Role == RoleNonVoter && s.Problem == "" {
			s.Problem = fmt.Sprintf("it has no vote yet: %d entries behind the leader, then it must stay well for a while", s.LagEntries)
		}
	}
	s.Healthy = s.Problem == "" && s.Role != RoleLeft
}

// judge sets what follows from the rest.
func (s *Status) judge(servers []raft.Server) {
	healthy := map[string]bool{}
	for _, ns := range s.Nodes {
		healthy[ns.ID] = ns.Healthy
		if ns.Role == RoleLeft {
			continue // not of this cluster (yet): says nothing about its health
		}
		if !ns.Healthy {
			s.Problems = append(s.Problems, fmt.Sprintf("node %s (%s): %s", ns.ID, ns.Name, ns.Problem))
		}
	}
	voters, up := 0, 0
	for _, srv := range servers {
		if srv.Suffrage == raft.Voter {
			voters++
			if healthy[string(srv.ID)] {
				up++
			}
		}
	}
	s.FailureTolerance = max(0, up-(voters/2+1))
	problems := len(s.Problems)
	if s.Leader == "" {
		s.Problems = append(s.Problems, "no leader: publishes wait or are refused")
	}
	if voters > 0 && up < voters/2+1 {
		s.Problems = append(s.Problems, fmt.Sprintf("no quorum: %d of %d voters are healthy", up, voters))
	}
	switch {
	case len(s.Problems) > problems:
		s.State = StateDown
	case problems > 0:
		s.State = StateDegraded
	default:
		s.State = StateHealthy
	}
	s.Healthy = s.State == StateHealthy
}

// answer is this node's own position.
func (n *Node) answer() answer {
	m := n.stream.Machine()
	first, _ := n.stream.Bounds()
	a := answer{
		Leader: n.isLeader(), Applied: n.positions.index.Load(), Seq: m.LastSeq(), First: first,
		Last: n.raft.LastIndex(), LastTerm: n.lastTerm(), Commit: n.raft.CommitIndex(), ContactMS: -1,
		DiskLow: n.diskLow.Load(), Problem: n.problem(), Aside: n.asideStatus().brief(),
	}
	if t := n.raft.LastContact(); !t.IsZero() {
		a.ContactMS = time.Since(t).Milliseconds()
	}
	if a.Leader {
		a.ContactMS = 0
	}
	return a
}

// lastTerm is the term of the last log entry.
func (n *Node) lastTerm() uint64 {
	var l raft.Log
	if err := n.logs.GetLog(n.raft.LastIndex(), &l); err != nil {
		return 0
	}
	return l.Term
}

// problem is why this node itself is not well, "" if it is.
func (n *Node) problem() string {
	if err := n.Err(); err != nil {
		return err.Error()
	}
	if slices.Contains(n.folder.identity().Removed, n.NodeID()) {
		return "it was removed from the cluster and stays idle: empty its data folder to let it join as a new node"
	}
	if p := n.catchup.problem(); p != "" {
		return p
	}
	if p := n.waiting(); p != "" {
		return p
	}
	if h := n.stream.history; h != nil {
		if p := h.problem(); p != "" {
			return strings.TrimSuffix(p+"; "+n.repair.problem.get(), "; ")
		}
	}
	return ""
}

// Ready is nil when this node has applied what was committed when it started, as far as its leader told it, and knows a
// leader. Else it says what is missing.
func (n *Node) Ready() error {
	if err := n.Err(); err != nil {
		return err
	}
	_, leader := n.raft.LeaderWithID()
	if leader == "" {
		if p := n.waiting(); p != "" {
			return fmt.Errorf("cluster: no leader is known: %s", p)
		}
		return fmt.Errorf("cluster: no leader is known")
	}
	if n.caughtUp.Load() {
		return nil
	}
	target := n.readyAt.Load()
	if target == 0 {
		commit := n.raft.CommitIndex()
		last, err := n.lastApplicable(commit)
		if err != nil || commit == 0 {
			return fmt.Errorf("cluster: the leader has not said yet what is committed")
		}
		n.readyAt.CompareAndSwap(0, max(last, 1))
		target = n.readyAt.Load()
	}
	if at := n.positions.index.Load(); at < target {
		return fmt.Errorf("cluster: applied %d of %d entries", at, target)
	}
	n.caughtUp.Store(true)
	return nil
}
