package client

import (
	"math/rand/v2"
	"slices"

	"github.com/cantus-bus/cantus/internal/wire"
)

// Node is a server of the cluster as the cluster tells.
type Node struct {
	ID       string
	Addr     string // for clients, host:port
	HTTPAddr string
	Voter    bool // false: a read replica, or one that is still joining
	Alive    bool
}

// Topology is who is in the cluster and who leads it.
type Topology struct {
	ClusterID string
	LeaderID  string // "" while there is none
	Term      uint64 // grows with every election
	Nodes     []Node
}

// Leader returns the leading node, if it is known.
func (t *Topology) Leader() (Node, bool) {
	i := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == t.LeaderID })
	if t.LeaderID == "" || i < 0 {
		return Node{}, false
	}
	return t.Nodes[i], true
}

// clone returns a copy that shares nothing.
func (t *Topology) clone() Topology {
	c := *t
	c.Nodes = slices.Clone(t.Nodes)
	return c
}

func fromWire(w *wire.Topology) Topology {
	t := Topology{ClusterID: w.ClusterID, LeaderID: w.LeaderID, Term: w.Term, Nodes: make([]Node, len(w.Nodes))}
	for i, n := range w.Nodes {
		t.Nodes[i] = Node{ID: n.ID, Addr: n.ClientAddr, HTTPAddr: n.HTTPAddr, Voter: n.Voter, Alive: n.Alive}
	}
	return t
}

// newer says whether n replaces t: nodes hear of a new leader at different times, and a node that was cut off tells
// what was true long ago. Within a term a view that knows the leader beats one that does not.
func (t *Topology) newer(n *Topology) bool {
	switch {
	case n.Term != t.Term:
		return n.Term > t.Term
	case t.LeaderID != "" && n.LeaderID == "":
		return false
	}
	return true
}

// equal says whether both views are the same.
func (t *Topology) equal(n *Topology) bool {
	return t.ClusterID == n.ClusterID && t.LeaderID == n.LeaderID && t.Term == n.Term && slices.Equal(t.Nodes, n.Nodes)
}

// followers lists the living nodes that do not lead, in random order.
func followers(t *Topology) []Node {
	var list []Node
	for _, n := range t.Nodes {
		if n.Alive && n.ID != t.LeaderID {
			list = append(list, n)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
