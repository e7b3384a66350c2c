package cluster_test

import (
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
)

// TestLimitsAreTheLogs gives each node other limits, now and after a restart: what is refused must be the same on all.
func TestLimitsAreTheLogs(t *testing.T) {
	limit := func(i int) int { return 3 + i }
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		o.Stream.MaxTopics, o.Stream.MaxProducers = limit(i), limit(i)
	}})
	ctx := testContext(t)
	leader := c.Leader()
	c.Eventually("the leader's limits", func() bool {
		return leader.Stream().Machine().Config().MaxTopics == uint32(limit(leader.Index))
	})
	refused := 0
	for i := range 10 {
		r, err := clustertest.Publish(ctx, leader, clustertest.Message{Topic: fmt.Sprint("t", i), Payload: "x"})
		if err != nil {
			t.Fatal(err)
		}
		if r.Code == fsm.TooManyTopics {
			refused++
		}
	}
	if refused != 10-limit(leader.Index) {
		t.Errorf("%d topics of 10 were refused at a limit of %d", refused, limit(leader.Index))
	}
	limit = func(int) int { return 9 }
	same := func() {
		t.Helper()
		id, err := leader.Checkpoint(ctx)
		if err != nil {
			t.Fatal(err)
		}
		want, err := leader.CheckpointDigest(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range c.Running() {
			got, err := m.CheckpointDigest(ctx, id)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("node %d: %v, %v, want %v", m.Index, got, err, want)
			}
		}
	}
	same()
	for _, m := range c.Members {
		c.Crash(m)
		c.Restart(m)
		leader = c.Leader()
	}
	same()
}
