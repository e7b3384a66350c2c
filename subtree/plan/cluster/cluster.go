// Package cluster cuts a sequence of items into runs at the least cost, where a run of n topics that weigh w together
// costs n*w: that is what reading each of its topics once takes when all of them lie in one store.
//
// It promises the best cut for any number of runs, by integers only. It does not sort: the order of the items is the
// caller's, and by weight per topic is a good one. For single topics in that order the best runs are the best of all
// groupings: where two groups cross in it, exchanging topics makes one of them cheaper.
package cluster

import (
	"math"
	"slices"
)

// Item is one or more topics that stay together.
type Item struct {
	Topics uint64
	Weight uint64 // in all; the product of the sums over all items must fit 64 bits
}

// Runs is the best cut into each number of runs up to one that grows. Not for concurrent use.
//
// The cost of a run satisfies the quadrangle inequality, so that the last run of a shorter prefix of the items never
// begins to the right of a longer one's. Each round is therefore solved by divide and conquer in O(n log n) (Yao,
// "Efficient dynamic programming using quadrangle inequalities", 1980). For the same reason the saving by each further
// run is never more than by the one before.
type Runs struct {
	items   int
	topics  []uint64 // prefix sums
	weights []uint64
	best    []uint64  // best[j]: least cost of the first j items in at most Len runs
	costs   []uint64  // costs[k]: of all items in at most k+1 runs
	next    []uint64  // best of the next round, while it is solved
	from    [][]int32 // from[k][j]: where the last of k+1 runs over the first j items begins
}

// NewRuns begins with all items in one run. There must be fewer than 1<<31. Memory grows by 4 bytes an item and run.
func NewRuns(items []Item) *Runs {
	n := len(items)
	r := &Runs{items: n, topics: make([]uint64, n+1), weights: make([]uint64, n+1), best: make([]uint64, n+1), next: make([]uint64, n+1)}
	for i, it := range items {
		r.topics[i+1] = r.topics[i] + it.Topics
		r.weights[i+1] = r.weights[i] + it.Weight
	}
	for j := range r.best {
		r.best[j] = r.run(0, j)
	}
	r.from = [][]int32{make([]int32, n+1)}
	r.costs = []uint64{r.best[n]}
	return r
}

// run is the cost of items [i, j) in one run.
func (r *Runs) run(i, j int) uint64 {
	return (r.topics[j] - r.topics[i]) * (r.weights[j] - r.weights[i])
}

// Len is the most runs that are solved.
func (r *Runs) Len() int { return len(r.from) }

// Cost is the least cost of at most k runs, 1 <= k <= Len.
func (r *Runs) Cost(k int) uint64 { return r.costs[k-1] }

// Grow solves one run more.
func (r *Runs) Grow() {
	r.from = append(r.from, make([]int32, r.items+1))
	r.solve(1, r.items, 0, r.items-1)
	r.best, r.next = r.next, r.best
	r.costs = append(r.costs, r.best[r.items])
}

// solve finds next[j] for j in [low, high], whose last runs begin in [left, right].
func (r *Runs) solve(low, high, left, right int) {
	if low > high {
		return
	}
	j := low + (high-low)/2
	best, from := uint64(math.MaxUint64), left
	for i := left; i <= min(right, j-1); i++ {
		if c := r.best[i] + r.run(i, j); c < best {
			best, from = c, i
		}
	}
	r.next[j], r.from[len(r.from)-1][j] = best, int32(from)
	r.solve(low, j-1, left, from)
	r.solve(j+1, high, from, right)
}

// Cut returns the best cut into at most k runs, 1 <= k <= Len: the index at which each run begins, from 0 up, and after
// the last one the number of items. No run is empty.
func (r *Runs) Cut(k int) []int {
	cut := []int{r.items}
	for j := r.items; j > 0; k-- {
		j = int(r.from[k-1][j])
		cut = append(cut, j)
	}
	slices.Reverse(cut)
	return cut
}
