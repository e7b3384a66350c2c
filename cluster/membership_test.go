package cluster_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// roleOf is a member's role as m sees it, "" if it is not listed.
func roleOf(t *testing.T, m, of *clustertest.Member) string {
	t.Helper()
	for _, ns := range m.Status(testContext(t)).Nodes {
		if ns.ID == of.NodeID() {
			return ns.Role
		}
	}
	return ""
}

// votes tells whether a role has a vote: a follower may come to lead at any time.
func votes(role string) bool { return role == cluster.RoleFollower || role == cluster.RoleLeader }

func countVoters(t wire.Topology) (n int) {
	for _, node := range t.Nodes {
		if node.Voter {
			n++
		}
	}
	return n
}

func TestNewNodeJoinsAndVotes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 1, clustertest.Options{})
	for i := range 50 {
		mustPublish(t, c.Members[0], "a/b", fmt.Sprint(i))
	}
	for range 2 {
		c.Add()
	}
	leader := c.Leader()
	for _, m := range c.Members[1:] {
		c.Eventually("the node to vote", func() bool { return votes(roleOf(t, leader, m)) })
		if err := m.WaitSeq(testContext(t), 50); err != nil {
			t.Fatal(err)
		}
		if m.ClusterID() != leader.ClusterID() {
			t.Fatal("it has another cluster id")
		}
	}
	c.Eventually("a healthy cluster", func() bool { return leader.Status(testContext(t)).Healthy })
	if s := leader.Status(testContext(t)); s.FailureTolerance != 1 || s.AppliedSeq != 50 || len(s.Nodes) != 3 {
		t.Fatalf("status %+v", s)
	}
	for _, m := range c.Members { // a crash before the others know of the last promotion would leave no quorum
		c.Eventually("three voters", func() bool { return countVoters(m.Topology()) == 3 })
	}
	c.Crash(c.Members[0])
	mustPublish(t, c.Leader(), "a/b", "without the founder")
}

func TestReplicaFollowsAndNeverVotes(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 1, clustertest.Options{Configure: func(i int, o *cluster.Options) { o.Replica = i == 1 }})
	replica := c.Add()
	leader := c.Leader()
	c.Eventually("the replica", func() bool { return roleOf(t, leader, replica) == cluster.RoleReplica })
	mustPublish(t, replica, "a/b", "through the replica")
	if err := replica.WaitSeq(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
	// autopilot has had many rounds to promote it
	for i := range 20 {
		mustPublish(t, replica, "a/b", fmt.Sprint(i))
		time.Sleep(100 * time.Millisecond)
	}
	if role := roleOf(t, leader, replica); role != cluster.RoleReplica {
		t.Fatalf("the replica became %s", role)
	}
	if err := leader.TransferLeader(testContext(t), replica.NodeID()); !errors.Is(err, cluster.ErrNoNode) {
		t.Fatalf("transfer to a replica: %v", err)
	}
}

func TestRemovedNodeStaysIdle(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	leader := c.Leader()
	gone := c.Followers()[0]
	var we *wire.Error
	if err := gone.RemoveNode(testContext(t), leader.NodeID()); !errors.As(err, &we) || we.Code != wire.Code(fsm.NotLeader) {
		t.Fatalf("a follower removed the leader: %v", err)
	}
	if err := leader.RemoveNode(testContext(t), "nobody"); !errors.Is(err, cluster.ErrNoNode) {
		t.Fatal(err)
	}
	if err := leader.RemoveNode(testContext(t), gone.NodeID()); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the node to know", func() bool {
		return slices.ContainsFunc(gone.Status(testContext(t)).Nodes, func(n cluster.NodeStatus) bool {
			return n.ID == gone.NodeID() && strings.Contains(n.Problem, "removed")
		})
	})
	for _, m := range c.Members {
		if m != gone {
			select {
			case <-m.Removed():
				t.Fatal("a member says that it was removed")
			default:
			}
		}
	}
	select {
	case <-gone.Removed():
	case <-testContext(t).Done():
		t.Fatal("the node does not say that it was removed")
	}
	mustPublish(t, leader, "a/b", "goes on")
	if err := leader.AddNode(testContext(t), gone.NodeID(), gone.RaftAddr(), true); err == nil {
		t.Fatal("a removed id came back")
	}
	time.Sleep(2 * time.Second) // several rounds of the leader's reconciliation
	if n := len(leader.Topology().Nodes); n != 2 {
		t.Fatalf("the cluster has %d nodes", n)
	}
}

// A change that would leave no majority is refused: no further change could mend it.
func TestMembershipChangesKeepAMajority(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	leader := c.Leader()
	stranger := "5d4a3c61-6b0f-4f0e-9a53-0d0f4c9f7a11"
	if err := leader.AddNode(testContext(t), stranger, "127.0.0.1:1", true); err == nil {
		t.Error("a voter that nobody sees was added")
	}
	if err := leader.AddNode(testContext(t), stranger, "no address", false); err == nil {
		t.Error("a node without an address was added")
	}
	followers := c.Followers()
	dead, needed := followers[0].NodeID(), followers[1].NodeID()
	c.Crash(followers[0])
	if err := leader.RemoveNode(testContext(t), needed); err == nil {
		t.Error("the one voter that the majority needs was removed")
	}
	mustPublish(t, leader, "a/b", "goes on")
	if err := leader.RemoveNode(testContext(t), dead); err != nil {
		t.Error(err)
	}
	mustPublish(t, leader, "a/b", "goes on with two")
}

// A node with an empty disk at a dead voter's address does not answer in its name: the other voter is needed still, and is not barred.
func TestNewNodeAtAnOldAddressIsNoVoter(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	leader, followers := c.Leader(), c.Followers()
	c.Crash(followers[0])
	if err := os.RemoveAll(followers[0].Dir); err != nil {
		t.Fatal(err)
	}
	c.Restart(followers[0])
	if err := leader.RemoveNode(testContext(t), followers[1].NodeID()); err == nil && len(leader.Topology().Nodes) < 2 {
		t.Error("the one voter that the majority needs was removed")
	}
	mustPublish(t, leader, "a/b", "goes on")
	select {
	case <-followers[1].Removed():
		if leader.Ready() != nil {
			t.Error("a node was barred whose removal failed")
		}
	default:
	}
}

// A single node is not brought down by a voter that does not exist.
func TestAbsentVoterIsRefused(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{})
	if err := c.Leader().AddNode(testContext(t), "x", "127.0.0.1:1", true); err == nil {
		t.Error("a voter that nobody sees was added")
	}
	mustPublish(t, c.Leader(), "a/b", "goes on")
}

// A node that lost its disk comes back at its old address under a new id and takes the old one's place.
func TestNodeThatLostItsDiskIsReplaced(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{})
	mustPublish(t, c.Leader(), "a/b", "before")
	m := c.Followers()[0]
	old := m.NodeID()
	c.Crash(m)
	if err := os.RemoveAll(m.Dir); err != nil {
		t.Fatal(err)
	}
	c.Restart(m)
	leader := c.Leader()
	c.Eventually("the node to vote under its new id", func() bool { return votes(roleOf(t, leader, m)) })
	if m.NodeID() == old || len(leader.Topology().Nodes) != 3 {
		t.Fatalf("topology %+v", leader.Topology())
	}
	if err := m.WaitSeq(testContext(t), 1); err != nil {
		t.Fatal(err)
	}
}

// A node's folder moves to other ports: raft finds it by gossip.
func TestNodeComesBackAtAnotherAddress(t *testing.T) {
	t.Parallel()
	move := false
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(_ int, o *cluster.Options) {
		if move {
			o.RaftListen, o.GossipListen = "127.0.0.1:0", "127.0.0.1:0"
		}
	}})
	mustPublish(t, c.Leader(), "a/b", "before")
	members := c.Running()
	move = true
	for _, m := range members {
		c.Close(m)
	}
	for _, m := range members {
		c.Restart(m)
	}
	mustPublish(t, c.Leader(), "a/b", "after")
}

func TestFolderOfAnotherClusterFails(t *testing.T) {
	one := clustertest.Start(t, 1, clustertest.Options{})
	stray := clustertest.Start(t, 1, clustertest.Options{})
	m := stray.Members[0]
	stray.Close(m)
	o := clustertest.Defaults(m.Dir)
	o.Join = []string{one.Members[0].GossipAddr()}
	n, err := cluster.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.Close() }()
	// It may lead its own cluster of one meanwhile: then it only refuses the others.
	one.Eventually("a refusal", func() bool { return len(one.Members[0].Topology().Nodes) == 1 && (n.Err() != nil || n.Ready() == nil) })
	if err := n.Err(); err != nil && !errors.Is(err, cluster.ErrForeignCluster) {
		t.Fatal(err)
	}
	if one.Members[0].Err() != nil {
		t.Fatalf("the stranger failed a healthy node: %v", one.Members[0].Err())
	}
}

func TestWithoutQuorumPublishesAreRefusedTruly(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(_ int, o *cluster.Options) { o.PublishWait = time.Second }})
	leader := c.Leader()
	mustPublish(t, leader, "a/b", "acked")
	for _, m := range c.Followers() {
		c.Crash(m)
	}
	results := map[string]fsm.Code{}
	for i := range 5 {
		payload := fmt.Sprint(i)
		r, err := clustertest.Publish(testContext(t), leader, clustertest.Message{Topic: "a/b", Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		if _, known := r.Code.Executed(); r.Code != fsm.Unknown && r.Code != fsm.Unavailable || known && r.Code == fsm.Unknown {
			t.Fatalf("without a quorum: %v", r.Code)
		}
		results[payload] = r.Code
	}
	if s := leader.Status(testContext(t)); s.Healthy || len(s.Problems) == 0 {
		t.Fatalf("status says healthy: %+v", s)
	}
	for _, m := range c.Members {
		if m.Node == nil {
			c.Restart(m)
		}
	}
	mustPublish(t, c.Leader(), "a/b", "acked too")
	got := map[string]int{}
	if err := leader.Barrier(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for _, m := range mustRead(t, leader.Stream(), "**") {
		got[m.Payload]++
	}
	for payload, code := range results {
		if code == fsm.Unavailable && got[payload] != 0 {
			t.Errorf("%s was refused as not executed and is there", payload)
		}
	}
	if got["acked"] != 1 || got["acked too"] != 1 {
		t.Errorf("read %v", got)
	}
}

func TestLeaderWithFullDiskStepsAside(t *testing.T) {
	var full atomic.Int64
	full.Store(-1)
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		o.MinFreeBytes = 1000
		o.FreeBytes = func(string) (int64, error) {
			if full.Load() == int64(i) {
				return 999, nil
			}
			return 1 << 40, nil
		}
	}})
	old := c.Leader()
	full.Store(int64(old.Index))
	c.Eventually("another leader", func() bool { return c.Leader() != old })
	mustPublish(t, old, "a/b", "by way of the new leader")
}

func TestFullDiskOfASingleNodeRefuses(t *testing.T) {
	var free atomic.Int64
	free.Store(1 << 40)
	c := clustertest.Start(t, 1, clustertest.Options{Configure: func(_ int, o *cluster.Options) {
		o.MinFreeBytes, o.FreeBytes = 1000, func(string) (int64, error) { return free.Load(), nil }
	}})
	m := c.Members[0]
	mustPublish(t, m, "a/b", "1")
	free.Store(1)
	c.Eventually("a refusal", func() bool {
		r, err := clustertest.Publish(testContext(t), m, clustertest.Message{Topic: "a/b", Payload: "x"})
		return err == nil && r.Code == fsm.DiskFull
	})
	free.Store(1 << 40)
	c.Eventually("room again", func() bool {
		r, err := clustertest.Publish(testContext(t), m, clustertest.Message{Topic: "a/b", Payload: "y"})
		return err == nil && r.Code == fsm.OK
	})
}

func TestProducersThroughAFollower(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{})
	f := c.Followers()[0]
	ctx := testContext(t)
	id := record.ProducerID{7}
	r, err := f.OpenProducer(ctx, id)
	if err != nil || r.Code != fsm.OK || r.Epoch != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	for i, want := range []fsm.Code{fsm.OK, fsm.Duplicate} {
		r, err := clustertest.PublishAs(ctx, f, id, 1, 1, clustertest.Message{Topic: "a/b", Payload: "once"})
		if err != nil || r.Code != want || r.FirstSeq != 1 {
			t.Fatalf("attempt %d: %+v %v", i, r, err)
		}
	}
}
