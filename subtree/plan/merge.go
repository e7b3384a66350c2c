package plan

import (
	"cmp"
	"math"
	"slices"
)

// merger joins pieces of one partition into at most k stores at the least cost.
//
// Sorted by weight per topic, single topics are best stored in runs: where two stores cross in that order, exchanging
// topics makes one of them cheaper. Pieces of several topics cannot be cut, so for them the best runs are only close to
// the best of all groupings. The cost of a run satisfies the quadrangle inequality, so that the last run of a shorter
// prefix never begins to the right of a longer one's; each of the k rounds is then solved by divide and conquer in
// O(n log n) (Yao 1980; one-dimensional clustering as in Wang and Song's Ckmeans.1d.dp, 2011, with another cost).
type merger struct {
	pieces  []piece
	weights []uint64 // prefix sums over pieces
	topics  []uint64
	best    []uint64 // best[j]: least cost of the first j pieces in this round's number of stores
	next    []uint64
	from    [][]int32 // from[k][j]: where the last of k+1 stores over the first j pieces begins
}

// mergePieces returns the stores as lists of pieces. The pieces are reordered.
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
	m := newMerger(pieces)
	for len(m.from) < k {
		m.round()
	}
	return m.stores()
}

func newMerger(pieces []piece) *merger {
	n := len(pieces)
	m := &merger{pieces: pieces, weights: make([]uint64, n+1), topics: make([]uint64, n+1), best: make([]uint64, n+1), next: make([]uint64, n+1)}
	for i, p := range pieces {
		m.weights[i+1] = m.weights[i] + p.weight
		m.topics[i+1] = m.topics[i] + uint64(p.topics)
	}
	for j := range m.best {
		m.best[j] = m.run(0, j)
	}
	m.from = [][]int32{make([]int32, n+1)}
	return m
}

// run is the cost of pieces [i, j) in one store.
func (m *merger) run(i, j int) uint64 {
	return (m.topics[j] - m.topics[i]) * (m.weights[j] - m.weights[i])
}

// round allows one store more.
func (m *merger) round() {
	m.from = append(m.from, make([]int32, len(m.best)))
	m.solve(1, len(m.pieces), 0, len(m.pieces)-1)
	m.best, m.next = m.next, m.best
}

// solve finds next[j] for j in [low, high], whose last stores begin in [left, right].
func (m *merger) solve(low, high, left, right int) {
	if low > high {
		return
	}
	j := low + (high-low)/2
	best, from := uint64(math.MaxUint64), left
	for i := left; i <= min(right, j-1); i++ {
		if c := m.best[i] + m.run(i, j); c < best {
			best, from = c, i
		}
	}
	m.next[j], m.from[len(m.from)-1][j] = best, int32(from)
	m.solve(low, j-1, left, from)
	m.solve(j+1, high, from, right)
}

// stores follows the last round back.
func (m *merger) stores() (list [][]piece) {
	j := len(m.pieces)
	for k := len(m.from) - 1; k >= 0 && j > 0; k-- {
		i := int(m.from[k][j])
		list = append(list, m.pieces[i:j])
		j = i
	}
	slices.Reverse(list)
	return list
}

// sum adds pieces up.
func sum(pieces []piece) (n uint32, weight uint64) {
	for _, p := range pieces {
		n, weight = n+p.topics, weight+p.weight
	}
	return n, weight
}

func compareRefs(a, b ref) int {
	return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.kind, b.kind), cmp.Compare(a.part, b.part))
}
