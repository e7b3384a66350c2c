package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

const askAgain = 100 * time.Millisecond

// TryClaim makes the caller the one who may start, stop and hurt the node, unless somebody is already.
func (n *Node) TryClaim() bool { return n.claimed.CompareAndSwap(false, true) }

// Release ends a claim.
func (n *Node) Release() { n.claimed.Store(false) }

// TryOperate makes the caller the only one who takes synced data away, unless somebody is already: two at a time are more than
// a cluster can outlive. release ends it.
func (c *Cluster) TryOperate() (release func(), ok bool) {
	if !c.operating.CompareAndSwap(false, true) {
		return nil, false
	}
	return func() { c.operating.Store(false) }, true
}

// WaitVoters waits until each node that is meant to be a member is ready and votes, and nobody else does. Ids that are nobody's any
// more, such as those that nodes had before they stepped aside, it removes.
func (c *Cluster) WaitVoters(ctx context.Context) error {
	for {
		missing, strangers := c.missing(ctx)
		for _, id := range strangers {
			if err := c.Remove(ctx, id); err != nil {
				missing = err.Error()
			}
		}
		if missing == "" {
			for _, n := range c.Voters() {
				n.setOutside(false)
			}
			return nil
		}
		if !pause.For(ctx, askAgain) {
			return fmt.Errorf("%s: %w", missing, ctx.Err())
		}
	}
}

// missing says what lacks to a cluster in which every member votes, and which members are no node's: those are known when all nodes
// are up, as one that starts may have an id that it has not told yet.
func (c *Cluster) missing(ctx context.Context) (what string, strangers []string) {
	roles, err := c.Members(ctx)
	if err != nil {
		return err.Error(), nil
	}
	for _, n := range c.Voters() {
		if !n.well() {
			return n.Name + " is " + string(n.State()), nil
		}
		if _, err := n.Status(ctx); err != nil { // which tells its id, too
			return err.Error(), nil
		}
		if role := roles[n.ID()]; role != "leader" && role != "follower" {
			what = fmt.Sprintf("%s has the role %q", n.Name, role)
		}
	}
	return what, c.strangers(roles)
}

// strangers are the members whose id is no node's.
func (c *Cluster) strangers(roles map[string]string) (ids []string) {
	known := map[string]bool{}
	for _, n := range c.Nodes {
		if s := n.State(); s == history.NodeStarting || s == history.NodePaused {
			return nil
		}
		known[n.ID()] = true
	}
	for id := range roles {
		if !known[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// Replace kills a member, gives it an empty disk, removes its old id and waits until it votes again under a new one.
func (c *Cluster) Replace(ctx context.Context, n *Node) error {
	old := n.ID()
	n.Kill()
	if err := errors.Join(n.Wipe(), n.Start()); err != nil {
		return err
	}
	return c.Adopt(ctx, n, old)
}

// Adopt removes the old id of a member that was started with an empty disk, and waits until it votes under its new one.
func (c *Cluster) Adopt(ctx context.Context, n *Node, old string) error {
	for old != "" {
		err := c.Remove(ctx, old)
		if err == nil {
			break
		}
		if !pause.For(ctx, askAgain) {
			return fmt.Errorf("remove the old id of %s: %w", n.Name, err)
		}
	}
	return c.WaitVoters(ctx)
}
