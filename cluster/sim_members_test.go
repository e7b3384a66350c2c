package cluster

import (
	"context"
	"errors"
	"time"

	"github.com/hashicorp/raft"

	trace "github.com/cantus-bus/cantus/jepsen/history"
)

// simFounders is how many nodes a cluster begins with.
const simFounders = 3

// members are the machines that are to be in the cluster.
func (c *simCluster) members() (list []*simNode) {
	for _, n := range c.nodes {
		if !n.isOut() {
			list = append(list, n)
		}
	}
	return list
}

// begin tells whether a change of members may begin: none is under way.
func (c *simCluster) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changing {
		return false
	}
	c.changing = true
	return true
}

// beginWhen waits for a moment at which a change may begin, until faults end.
func (c *simCluster) beginWhen(may func() bool) bool {
	for ; !c.mended(); time.Sleep(simPause) {
		if !c.begin() {
			continue
		}
		if may() {
			return true
		}
		c.giveUp()
	}
	return false
}

func (c *simCluster) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changing = false
}

// done waits until raft's configuration is what it should be, and notes a change of members.
func (c *simCluster) done(action string, n *simNode, began time.Duration) {
	outcome := trace.OK
	for end := time.Now().Add(simChange); !c.agreed(); time.Sleep(200 * time.Millisecond) {
		if c.mended() && time.Now().After(end) {
			outcome = trace.Unknown
			c.wrong("%s of %s: the cluster does not come to it: %v", action, n.name, c.servers())
			break
		}
	}
	c.record(&trace.MembershipChanged{Invoke: began, Return: c.now(), Action: action, Node: n.name, Outcome: outcome})
	c.giveUp()
	c.noteQuorum()
}

// mended tells whether faults have ended.
func (c *simCluster) mended() bool { return c.now() > c.limit }

func (c *simCluster) underChange() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changing
}

// servers are raft's, as the leader has them.
func (c *simCluster) servers() []raft.Server {
	if n := c.leader(); n != nil {
		if p := n.hold(); p != nil {
			defer p.readers.Done()
			return p.node.servers()
		}
	}
	return nil
}

// agreed tells whether all members run, and are the voters.
func (c *simCluster) agreed() bool {
	servers, members := c.servers(), c.members()
	voters := map[string]bool{}
	for _, s := range servers {
		voters[string(s.ID)] = s.Suffrage == raft.Voter
	}
	for _, n := range members {
		if p := n.process(); p == nil || !voters[p.node.NodeID()] {
			return false
		}
	}
	return len(servers) == len(members)
}

// addNode starts a machine that is no member, as a new node.
func (c *simCluster) addNode(simFault) func() {
	for _, n := range c.nodes {
		if !n.isOut() || !c.begin() {
			continue
		}
		began := c.now()
		n.wipe()
		n.change(func() bool { n.out = false; return true })
		return func() {
			n.start()
			c.done("add", n, began)
			c.count(simSeenPromoted)
		}
	}
	return nil
}

// removeNode removes a member for good, when there are more than the founders were.
func (c *simCluster) removeNode(f simFault) func() {
	if !c.beginWhen(func() bool { return len(c.members()) > simFounders && c.agreed() }) {
		return nil
	}
	members := c.members()
	began, n := c.now(), members[int(f.amount*float64(len(members)))]
	return func() {
		for id := ""; ; time.Sleep(200 * time.Millisecond) {
			if p := n.process(); p != nil {
				id = p.node.NodeID()
			}
			if id != "" && c.removed(id) {
				break
			}
			if c.mended() && c.now() > began+2*simChange {
				c.wrong("%s cannot be removed: %v", n.name, c.servers())
				break
			}
		}
		n.leave(f.amount < 0.5)
		c.done("remove", n, began)
	}
}

// holdLeader keeps the leader's process from ending until its readers are done; nil if there is none.
func (c *simCluster) holdLeader() *simProcess {
	if n := c.leader(); n != nil {
		return n.hold()
	}
	return nil
}

// removed asks the leader to remove a node, and tells whether it is done for certain.
func (c *simCluster) removed(id string) bool {
	p := c.holdLeader()
	if p == nil {
		return false
	}
	defer p.readers.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := p.node.RemoveNode(ctx, id)
	if errors.Is(err, ErrNoNode) && p.node.Barrier(ctx) == nil { // the removal before this was committed, unless it was taken back
		_, there := p.node.server(id)
		return !there && p.node.isLeader()
	}
	return err == nil
}

// replaceDisk takes a member's disk away, when all that was ever committed is on every disk, and puts an empty one in its place.
func (c *simCluster) replaceDisk(f simFault) func() {
	n := c.nodes[f.node]
	if !c.beginWhen(func() bool { return !n.isOut() && c.agreed() && c.everywhere() }) {
		return nil
	}
	began := c.now()
	if !n.stop(true) {
		c.giveUp()
		return nil
	}
	n.wipe()
	return func() {
		n.start()
		c.done("replace", n, began)
	}
}

// everywhere tells whether everything that was committed up to now is in the log of every member.
func (c *simCluster) everywhere() bool {
	p := c.holdLeader()
	if p == nil {
		return false
	}
	defer p.readers.Done()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if p.node.Barrier(ctx) != nil {
		return false
	}
	committed := p.node.raft.CommitIndex()
	for _, m := range c.members() {
		if o := m.process(); o == nil || o.node.raft.LastIndex() < committed {
			return false
		}
	}
	return true
}
