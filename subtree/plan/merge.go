package plan

import (
	"slices"

	"github.com/cantus-bus/cantus/subtree/plan/cluster"
)

// mergePieces joins pieces of one partition into at most k stores: runs of pieces by weight per topic, the best ones.
// Pieces of several topics cannot be cut, so the best runs are only close to the best of all groupings. It returns the
// stores as lists of pieces, and reorders the pieces.
func mergePieces(pieces []piece, k int) [][]piece {
	slices.SortStableFunc(pieces, func(a, b piece) int {
		return compareDensity(a.weight, max(1, a.topics), b.weight, max(1, b.topics))
	})
	if len(pieces) <= k {
		stores := make([][]piece, len(pieces))
		for i := range pieces {
			stores[i] = pieces[i : i+1]
		}
		return stores
	}
	items := make([]cluster.Item, len(pieces))
	for i, p := range pieces {
		items[i] = cluster.Item{Topics: uint64(p.topics), Weight: p.weight}
	}
	runs := cluster.NewRuns(items)
	for runs.Len() < k {
		runs.Grow()
	}
	cut := runs.Cut(k)
	stores := make([][]piece, len(cut)-1)
	for i := range stores {
		stores[i] = pieces[cut[i]:cut[i+1]]
	}
	return stores
}

// sum adds pieces up.
func sum(pieces []piece) (n uint32, weight uint64) {
	for _, p := range pieces {
		n, weight = n+p.topics, weight+p.weight
	}
	return n, weight
}
