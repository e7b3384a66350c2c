package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

// askLimit bounds a question to one node's control plane.
const askLimit = 800 * time.Millisecond

// Status is what of a node's status the harness uses.
type Status struct {
	NodeID     string `json:"node_id"`
	Leader     string `json:"leader"`
	Term       uint64 `json:"term"`
	FirstSeq   uint64 `json:"first_seq"`
	AppliedSeq uint64 `json:"applied_seq"`
	History    *struct {
		LastScrub int64    `json:"last_scrub"` // end, in Unix nanoseconds
		Damaged   []string `json:"damaged"`
	} `json:"history"`
	Nodes []struct {
		ID    string `json:"id"`
		Name  string `json:"name"`
		Role  string `json:"role"`
		Alive bool   `json:"alive"`
	} `json:"nodes"`
}

// ask runs one request against this node.
func (n *Node) ask(ctx context.Context, f func(context.Context, *control.Client) error) error {
	c, err := control.New([]string{n.Place.Listen.HTTP})
	if err != nil {
		return err
	}
	defer c.Close()
	return f(ctx, c)
}

// Status asks the node.
func (n *Node) Status(ctx context.Context) (s Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	pid := n.PID()
	err = n.ask(ctx, func(ctx context.Context, c *control.Client) error { return c.Get(ctx, "/v1/status", &s) })
	if err == nil && s.NodeID != "" {
		n.learn(s.NodeID, pid)
	}
	return s, err
}

// Get asks a node's control plane for a path.
func (n *Node) Get(ctx context.Context, path string, v any) error {
	return n.ask(ctx, func(ctx context.Context, c *control.Client) error { return c.Get(ctx, path, v) })
}

// Post asks a node's control plane for a change.
func (n *Node) Post(ctx context.Context, path string, body, v any) error {
	return n.ask(ctx, func(ctx context.Context, c *control.Client) error { return c.Post(ctx, path, body, v) })
}

// Leader is the node that leads in the highest term that any node tells of; nil if no node knows one.
func (c *Cluster) Leader(ctx context.Context) *Node {
	type answer struct {
		Status
		err error
	}
	answers := make(chan answer, len(c.Nodes))
	asked := 0
	for _, n := range c.Nodes {
		if n.State() != history.NodeUp {
			continue
		}
		asked++
		go func() {
			s, err := n.Status(ctx)
			answers <- answer{s, err}
		}()
	}
	var best Status
	for range asked {
		if a := <-answers; a.err == nil && a.Leader != "" && a.Term >= best.Term {
			best = a.Status
		}
	}
	i := slices.IndexFunc(c.Nodes, func(n *Node) bool { return best.Leader != "" && n.ID() == best.Leader })
	if i < 0 {
		return nil
	}
	return c.Nodes[i]
}

// WaitLeader waits until a leader is known.
func (c *Cluster) WaitLeader(ctx context.Context) (*Node, error) {
	for {
		if n := c.Leader(ctx); n != nil {
			return n, nil
		}
		if !pause.For(ctx, 50*time.Millisecond) {
			return nil, fmt.Errorf("no node knows a leader: %w", ctx.Err())
		}
	}
}

// Transfer asks for another leader, any if to is nil.
func (c *Cluster) Transfer(ctx context.Context, to *Node) error {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return err
	}
	body := map[string]string{}
	if to != nil {
		body["to"] = to.ID()
	}
	return leader.Post(ctx, "/v1/leader/transfer", body, nil)
}

// Remove takes a member out. One that is none any more is no error: the cluster removes by itself whose place another has taken.
func (c *Cluster) Remove(ctx context.Context, id string) error {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return err
	}
	err = leader.ask(ctx, func(ctx context.Context, c *control.Client) error {
		return c.Delete(ctx, "/v1/nodes/"+url.PathEscape(id), nil)
	})
	var refused *control.Refused
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// Members gives each member's role by its id, as the leader tells.
func (c *Cluster) Members(ctx context.Context) (roles map[string]string, err error) {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return nil, err
	}
	s, err := leader.Status(ctx)
	roles = map[string]string{}
	for _, n := range s.Nodes {
		roles[n.ID] = n.Role
	}
	return roles, err
}

// verification is a node's answer to /v1/verify.
type verification struct {
	Seq   uint64 `json:"seq"`
	Equal bool   `json:"equal"`
	Nodes []struct {
		ID    string            `json:"id"`
		Seq   uint64            `json:"seq"`
		Parts map[string]string `json:"parts"`
		Error string            `json:"error"`
	} `json:"nodes"`
}

// Verify compares the replicas. equal: all answered and agree. The answers are not recorded.
func (c *Cluster) Verify(ctx context.Context) (e *history.Verify, equal bool, err error) {
	leader, err := c.WaitLeader(ctx)
	if err != nil {
		return nil, false, err
	}
	var v verification
	if err := leader.Get(ctx, "/v1/verify", &v); err != nil {
		return nil, false, err
	}
	e = &history.Verify{At: c.o.Record.Now()}
	for _, d := range v.Nodes {
		name := d.ID
		for _, n := range c.Nodes {
			if n.ID() == d.ID {
				name = n.Name
			}
		}
		e.Nodes = append(e.Nodes, history.NodeDigests{Node: name, Seq: d.Seq, Digests: d.Parts, Error: d.Error})
	}
	return e, v.Equal, nil
}
