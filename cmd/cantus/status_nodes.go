package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cantus-bus/cantus/cluster"
)

// printNodes prints how the nodes are, in a table that fits a terminal, and below it their ids and addresses, which must stay whole. What is
// wrong with them is for a list of the caller's: it is too long for a cell.
func (a *app) printNodes(nodes []cluster.NodeStatus) {
	nodes = slices.SortedStableFunc(slices.Values(nodes), func(a, b cluster.NodeStatus) int { return strings.Compare(a.Name, b.Name) })
	state, places := make([][]any, len(nodes)), make([][2]string, len(nodes))
	for i, n := range nodes {
		var seq, lag, heard any = n.AppliedSeq, n.LagEntries, "unknown"
		if n.LastContactMS >= 0 {
			heard = fmt.Sprintf("%dms ago", n.LastContactMS)
		} else if n.AppliedIndex == 0 && n.Problem != "" { // it did not answer: its positions are not known
			seq, lag = "unknown", "unknown"
		}
		name := n.Name
		if name == "" {
			name = n.ID
		}
		state[i] = []any{name, n.Role, nodeHealth(n), seq, lag, heard}
		places[i] = [2]string{n.Name, fmt.Sprintf("id=%s client=%s http=%s raft=%s", n.ID, orNone(n.ClientAddr), orNone(n.HTTPAddr), orNone(n.RaftAddr))}
	}
	a.Table([]string{"name", "role", "health", "applied seq", "lag", "heard leader"}, []int{3, 4, 5}, state)
	a.Printf("")
	a.Fields(places...)
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

// leaderText names the leader by name and id.
func leaderText(s cluster.Status) string {
	for _, n := range s.Nodes {
		if n.ID == s.Leader && n.Name != "" {
			return fmt.Sprintf("%s (%s), term %d", n.Name, n.ID, s.Term)
		}
	}
	return fmt.Sprintf("%s, term %d", orNone(s.Leader), s.Term)
}
