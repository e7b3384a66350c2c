package cluster_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// TestDegradedUntilTheReturnedNodeVotes: a node that lost its disk comes back under a new id. As long as it has no vote the cluster may lose
// fewer nodes than it should, and says so; with the vote it is healthy again.
func TestDegradedUntilTheReturnedNodeVotes(t *testing.T) {
	t.Parallel()
	stable := time.Hour
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(_ int, o *cluster.Options) { o.Stabilization = stable }})
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
	c.Eventually("the node to be in the cluster, without a vote", func() bool { return roleOf(t, c.Leader(), lost) == cluster.RoleNonVoter })
	var s cluster.Status
	c.Eventually("the node to be all that is wrong", func() bool {
		s = c.Leader().Status(testContext(t))
		return len(s.Problems) == 1 && strings.Contains(s.Problems[0], "no vote yet")
	})
	if s.State != cluster.StateDegraded || s.Healthy || s.FailureTolerance != 0 || !strings.Contains(s.Problems[0], lost.NodeID()) {
		t.Errorf("%+v", s)
	}
	stable = time.Millisecond // of nodes that start from now on
	for _, m := range c.Members {
		c.Close(m)
	}
	for _, m := range c.Members {
		c.Restart(m)
	}
	c.Eventually("a healthy cluster", func() bool {
		s = c.Leader().Status(testContext(t))
		return s.State == cluster.StateHealthy && s.FailureTolerance == 1
	})
}
