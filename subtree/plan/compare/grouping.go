package compare

import (
	"cmp"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// grouping says which store each topic is in.
type grouping struct {
	store []int32  // of each node of the table; -1: the node is no topic
	names []uint64 // of each store: the same in two groupings if the later one goes on with the store of the earlier
}

// newGrouping gives each topic the store of its key; keys become the names of stores.
func newGrouping(t *topic.Table, key func(id topic.ID) uint64) *grouping {
	g := &grouping{store: make([]int32, t.Nodes())}
	numbers := map[uint64]int32{}
	for i := range g.store {
		g.store[i] = -1
		if id := topic.ID(i); t.IsTopic(id) {
			k := key(id)
			n, ok := numbers[k]
			if !ok {
				n = int32(len(g.names))
				numbers[k] = n
				g.names = append(g.names, k)
			}
			g.store[i] = n
		}
	}
	return g
}

// follow renames the stores so that, by greed, as many bytes as can keep the name that they have in old.
func (g *grouping) follow(t *topic.Table, old *grouping) {
	shared := map[[2]int32]uint64{} // bytes by store now and then
	for id, then := range old.store {
		if then >= 0 {
			_, bytes, _ := t.Stats(topic.ID(id))
			shared[[2]int32{g.store[id], then}] += bytes
		}
	}
	pairs := make([][2]int32, 0, len(shared))
	for pair := range shared {
		pairs = append(pairs, pair)
	}
	slices.SortFunc(pairs, func(a, b [2]int32) int {
		return cmp.Or(cmp.Compare(shared[b], shared[a]), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	g.rename(old, pairs)
}

// rename gives names in the order of pairs, each once. Other stores get names that old does not have.
func (g *grouping) rename(old *grouping, pairs [][2]int32) {
	named := make([]bool, len(g.names))
	taken := make([]bool, len(old.names))
	for _, pair := range pairs {
		if now, then := pair[0], pair[1]; !named[now] && !taken[then] {
			g.names[now], named[now], taken[then] = old.names[then], true, true
		}
	}
	next := uint64(0)
	if len(old.names) > 0 {
		next = slices.Max(old.names) + 1
	}
	for i := range g.names {
		if !named[i] {
			g.names[i] = next
			next++
		}
	}
}

// churn is the share of the bytes, of topics that both groupings know, whose store has another name.
func churn(t *topic.Table, old, now *grouping) float64 {
	var moved, all uint64
	for id, then := range old.store {
		if then < 0 {
			continue
		}
		_, bytes, _ := t.Stats(topic.ID(id))
		all += bytes
		if old.names[then] != now.names[now.store[id]] {
			moved += bytes
		}
	}
	return float64(moved) / float64(max(1, all))
}
