package cluster

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/raft"
)

// TestJudge: what a cluster's state follows from.
func TestJudge(t *testing.T) {
	const leader = "a"
	ok := answer{Last: 100, Applied: 100}
	for name, c := range map[string]struct {
		nodes     map[string]string // role, by id; "dead ROLE": gossip does not see it
		noLeader  bool
		answers   map[string]answer // of those that say something else than ok
		state     string
		tolerance int
		say       string // in one of the problems
	}{
		"three voters":             {nodes: map[string]string{"a": RoleLeader, "b": RoleFollower, "c": RoleFollower}, state: StateHealthy, tolerance: 1},
		"one dead":                 {nodes: map[string]string{"a": RoleLeader, "b": RoleFollower, "c": "dead " + RoleFollower}, state: StateDegraded, say: "node c"},
		"two dead":                 {nodes: map[string]string{"a": RoleLeader, "b": "dead " + RoleFollower, "c": "dead " + RoleFollower}, state: StateDown, say: "no quorum"},
		"no leader":                {nodes: map[string]string{"a": RoleFollower, "b": RoleFollower, "c": RoleFollower}, noLeader: true, state: StateDown, tolerance: 1, say: "no leader"},
		"one came back, no vote":   {nodes: map[string]string{"a": RoleLeader, "b": RoleFollower, "c": RoleNonVoter}, state: StateDegraded, say: "node c (): it has no vote yet: 0 entries"},
		"the same, behind":         {nodes: map[string]string{"a": RoleLeader, "b": RoleFollower, "c": RoleNonVoter}, answers: map[string]answer{"c": {Last: 60}}, state: StateDegraded, say: "40 entries behind"},
		"the same, with a problem": {nodes: map[string]string{"a": RoleLeader, "b": RoleFollower, "c": RoleNonVoter}, answers: map[string]answer{"c": {Problem: "fetching"}}, state: StateDegraded, say: "fetching"},
		"a replica":                {nodes: map[string]string{"a": RoleLeader, "b": RoleReplica}, state: StateHealthy},
		"a stranger":               {nodes: map[string]string{"a": RoleLeader, "b": RoleLeft}, state: StateHealthy},
		"a full disk":              {nodes: map[string]string{"a": RoleLeader, "b": RoleFollower, "c": RoleFollower}, answers: map[string]answer{"b": {Last: 100, DiskLow: true}}, state: StateDegraded, say: "disk"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Status{Leader: leader}
			if c.noLeader {
				s.Leader = ""
			}
			var servers []raft.Server
			for id, role := range c.nodes {
				ns := NodeStatus{ID: id}
				role, dead := strings.CutPrefix(role, "dead ")
				ns.Role, ns.Alive = role, !dead
				a, other := c.answers[id]
				if !other {
					a = ok
				}
				ns.fill(a, true, ok.Last)
				s.Nodes = append(s.Nodes, ns)
				if voter := role == RoleLeader || role == RoleFollower; voter {
					servers = append(servers, raft.Server{ID: raft.ServerID(id), Suffrage: raft.Voter})
				} else if role != RoleLeft {
					servers = append(servers, raft.Server{ID: raft.ServerID(id), Suffrage: raft.Nonvoter})
				}
			}
			s.judge(servers)
			problems := strings.Join(s.Problems, "; ")
			if s.State != c.state || s.Healthy != (c.state == StateHealthy) || s.Healthy != (problems == "") || s.FailureTolerance != c.tolerance || !strings.Contains(problems, c.say) {
				t.Errorf("%s, healthy %v, may lose %d: %q", s.State, s.Healthy, s.FailureTolerance, problems)
			}
		})
	}
}

// TestAsideIsBrief: what a node tells others of why it stepped aside fits in a datagram, is text, and says that it is cut.
func TestAsideIsBrief(t *testing.T) {
	if (*AsideStatus)(nil).brief() != nil {
		t.Error("a node that never stepped aside says that it did")
	}
	for _, c := range []struct {
		reason string
		cut    bool
	}{{"log.db: bad", false}, {strings.Repeat("x", maxAsideReason), false}, {strings.Repeat("x", maxAsideReason+1), true}, {"a" + strings.Repeat("ä", maxAsideReason), true}} {
		whole := AsideStatus{Part: "raft", Folder: "d/damaged-1", Reason: c.reason}
		brief := *whole.brief()
		kept, cut := strings.CutSuffix(brief.Reason, "…")
		if cut != c.cut || len(brief.Reason) > maxAsideReason || !utf8.ValidString(brief.Reason) || !strings.HasPrefix(c.reason, kept) || len(kept) < min(len(c.reason), maxAsideReason-5) {
			t.Errorf("%d bytes: %q", len(c.reason), brief.Reason)
		}
		if brief.Reason = c.reason; brief != whole {
			t.Errorf("more than the reason differs: %+v", brief)
		}
		if whole.Reason != c.reason {
			t.Error("the whole reason was changed")
		}
		s := NodeStatus{Role: RoleFollower, Alive: true}
		if s.fill(answer{Aside: &whole}, true, 0); s.Aside != &whole || !s.Healthy {
			t.Errorf("in the list of nodes: %+v", s)
		}
	}
}
