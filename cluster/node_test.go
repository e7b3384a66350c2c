package cluster_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
)

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func mustPublish(t testing.TB, b cluster.Broker, topic, payload string) fsm.Result {
	t.Helper()
	r, err := clustertest.Publish(testContext(t), b, clustertest.Message{Topic: topic, Payload: payload})
	if err != nil || r.Code != fsm.OK {
		t.Fatalf("publish %s: %v %v", topic, r.Code, err)
	}
	return r
}

func mustRead(t testing.TB, s *cluster.Stream, filters ...string) []clustertest.Message {
	t.Helper()
	msgs, err := clustertest.ReadAll(s, filters...)
	if err != nil {
		t.Fatal(err)
	}
	return msgs
}

func TestSingleNodeReplaysItsLog(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{})
	m := c.Leader()
	for i := range 100 {
		r := mustPublish(t, m, fmt.Sprintf("a/b/%d", i%7), fmt.Sprint(i))
		if r.FirstSeq != uint64(i+1) {
			t.Fatalf("message %d got seq %d", i, r.FirstSeq)
		}
	}
	before := mustRead(t, m.Stream(), "**")
	id, node := m.ClusterID(), m.NodeID()
	c.Close(m)
	c.Restart(m)
	c.Leader()
	if err := m.WaitSeq(testContext(t), 100); err != nil {
		t.Fatal(err)
	}
	after := mustRead(t, m.Stream(), "**")
	if len(before) != 100 || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Fatalf("read %d messages before and %d after the restart, or they differ", len(before), len(after))
	}
	if m.ClusterID() != id || m.NodeID() != node {
		t.Fatal("the node changed its identity")
	}
}

func TestThreeNodes(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	ctx := testContext(t)
	for i, m := range c.Members {
		mustPublish(t, m, "from/node", fmt.Sprint(i))
	}
	for _, m := range c.Members {
		if err := m.Barrier(ctx); err != nil {
			t.Fatalf("barrier on node %d: %v", m.Index, err)
		}
		if got := mustRead(t, m.Stream(), "from/**"); len(got) != 3 {
			t.Fatalf("node %d has %d messages", m.Index, len(got))
		}
	}
}
