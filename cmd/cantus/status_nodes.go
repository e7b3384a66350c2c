package main

import (
	"fmt"

	"github.com/cantus-bus/cantus/cluster"
)

// printNodes prints how the nodes are and where they are, in two tables that fit a terminal. What is wrong with them is for a list below:
// it is too long for a cell.
func (a *app) printNodes(nodes []cluster.NodeStatus) {
	state, places := make([][]any, len(nodes)), make([][]any, len(nodes))
	for i, n := range nodes {
		contact := "unknown"
		if n.LastContactMS >= 0 {
			contact = fmt.Sprintf("%dms ago", n.LastContactMS)
		}
		state[i] = []any{n.ID, n.Name, n.Role, nodeHealth(n), n.AppliedSeq, n.LagEntries, contact}
		places[i] = []any{n.ID, orNone(n.ClientAddr), orNone(n.HTTPAddr), orNone(n.RaftAddr)}
	}
	a.Table([]string{"id", "name", "role", "health", "applied seq", "lag", "leader heard"}, []int{4, 5, 6}, state)
	a.Printf("")
	a.Table([]string{"id", "client", "http", "raft"}, nil, places)
}

func nodeHealth(n cluster.NodeStatus) string {
	switch {
	case n.Healthy:
		return "ok"
	case n.Role == cluster.RoleLeft && n.Problem == "":
		return "no member"
	}
	return "bad"
}

func nodeTitle(n cluster.NodeStatus) string {
	if n.Name == "" {
		return "node " + n.ID
	}
	return fmt.Sprintf("node %s (%s)", n.ID, n.Name)
}

// nodeProblems are those of the nodes, each with the node's name.
func nodeProblems(nodes []cluster.NodeStatus) (texts []string) {
	for _, n := range nodes {
		if n.Problem != "" {
			texts = append(texts, nodeTitle(n)+": "+n.Problem)
		}
	}
	return texts
}

// asideTexts tell which nodes moved damaged files away, and where these lie. The node that answers gives its reason whole.
func asideTexts(s cluster.Status) (texts []string) {
	for _, n := range s.Nodes {
		aside := n.Aside
		if n.ID == s.NodeID && s.Aside != nil {
			aside = s.Aside
		}
		if aside != nil {
			texts = append(texts, fmt.Sprintf("%s: %s; once it is well and nobody needs that folder any more, remove it, and this is said no more", nodeTitle(n), aside))
		}
	}
	return texts
}
