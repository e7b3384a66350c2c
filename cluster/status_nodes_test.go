package cluster_test

import (
	"os"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// TestDegradedUntilTheReturnedNodeVotes: a node that lost its disk comes back under a new id. As long as it has no vote the cluster may lose
// fewer nodes than it should, and says so; with the vote it is healthy again.
func TestDegradedUntilTheReturnedNodeVotes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	c.Eventually("a healthy cluster", func() bool { return c.Leader().Status(testContext(t)).State == cluster.StateHealthy })
	lost := c.Followers()[0]
	old := lost.NodeID()
	c.Crash(lost)
	if err := os.RemoveAll(lost.Dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Leader().RemoveNode(testContext(t), old); err != nil {
		t.Fatal(err)
	}
	c.Restart(lost)
	waited := 0 // how often it was seen without a vote: it may get it between two looks
	c.Eventually("the node to have a vote, and the cluster to be healthy", func() bool {
		s := c.Leader().Status(testContext(t))
		role := roleIn(s, lost.NodeID())
		if role == cluster.RoleNonVoter {
			waited++
			if s.State == cluster.StateHealthy || s.FailureTolerance != 0 || !strings.Contains(strings.Join(s.Problems, "\n"), lost.NodeID()) {
				t.Errorf("a node has no vote, and the cluster says %+v", s)
			}
		}
		return votes(role) && s.State == cluster.StateHealthy && s.FailureTolerance == 1
	})
	t.Logf("seen without a vote %d times", waited)
}

func roleIn(s cluster.Status, id string) (role string) {
	for _, n := range s.Nodes {
		if n.ID == id {
			role = n.Role
		}
	}
	return role
}
