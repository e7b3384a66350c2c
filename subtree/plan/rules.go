package plan

import (
	"cmp"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// ruleset turns pieces with stores into the rules of a plan, leaving out those that change nothing.
type ruleset struct {
	f    *forest
	root uint32
	at   map[uint32]nodeRules
}

// nodeRules is what the pieces say about one node.
type nodeRules struct {
	exact int   // store, -1: no rule
	below []int // stores, empty: no rule
}

// newRuleset gathers the refs of stores[i], which is store number i.
func newRuleset(f *forest, root uint32, stores [][]piece) *ruleset {
	s := &ruleset{f: f, root: root, at: map[uint32]nodeRules{}}
	for i, pieces := range stores {
		for _, p := range pieces {
			for _, r := range p.refs {
				s.add(r, i)
			}
		}
	}
	if len(s.get(root).below) == 0 {
		// Spreads took all that there is: what comes beside them goes to the lightest store.
		s.add(ref{node: root, kind: refTree}, len(stores)-1)
	}
	return s
}

func (s *ruleset) get(v uint32) nodeRules {
	if n, ok := s.at[v]; ok {
		return n
	}
	return nodeRules{exact: -1}
}

func (s *ruleset) add(r ref, store int) {
	n := s.get(r.node)
	switch r.kind {
	case refTopic:
		n.exact = store
	case refTree:
		n.below = []int{store}
	case refPart:
		if n.below == nil {
			n.below = make([]int, r.parts)
		}
		n.below[r.part] = store
	}
	s.at[r.node] = n
}

// list returns the rules, sorted.
func (s *ruleset) list() []Rule {
	rules := make([]Rule, 0, len(s.at))
	for v, n := range s.at {
		below := n.below
		if len(below) > 1 && !slices.ContainsFunc(below, func(store int) bool { return store != below[0] }) {
			below = below[:1]
		}
		path := s.f.name(v)
		switch {
		case len(below) > 1:
			rules = append(rules, Rule{path, Spread, below})
		case len(below) == 1 && (v == s.root || s.inherited(v) != below[0]):
			rules = append(rules, Rule{path, Subtree, below})
		}
		if n.exact >= 0 && n.exact != s.ofTopic(v, below) {
			rules = append(rules, Rule{path, Exact, []int{n.exact}})
		}
	}
	slices.SortFunc(rules, compareRules)
	return rules
}

// ofTopic is the store of the topic v but for its exact rule.
func (s *ruleset) ofTopic(v uint32, below []int) int {
	if len(below) > 0 {
		return below[0]
	}
	return s.inherited(v)
}

// inherited is the store of v but for v's own rules. v is below the root.
func (s *ruleset) inherited(v uint32) int {
	for up := v; ; {
		up = uint32(s.f.names.Parent(topic.ID(up)))
		if below := s.get(up).below; len(below) > 0 {
			return pick(below, s.f.below(up, v))
		}
	}
}

// plan makes the plan of a partition whose store number i has ids[i]. Every store must be reachable by a rule; New puts
// the stores in the order of their ids.
func (s *ruleset) plan(ids []uint32) (*Plan, error) {
	order := make([]int, len(ids))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
	place := make([]int, len(ids))
	sorted := make([]uint32, len(ids))
	for to, from := range order {
		place[from], sorted[to] = to, ids[from]
	}
	rules := s.list()
	for i := range rules {
		stores := make([]int, len(rules[i].Stores))
		for j, store := range rules[i].Stores {
			stores[j] = place[store]
		}
		rules[i].Stores = stores
	}
	return New(s.f.name(s.root), sorted, rules)
}
