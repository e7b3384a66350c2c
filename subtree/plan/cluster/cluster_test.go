package cluster

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawItems(t *rapid.T, maxTopics uint64) []Item {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Item {
		return Item{Topics: rapid.Uint64Range(0, maxTopics).Draw(t, "topics"), Weight: rapid.Uint64Range(0, 100).Draw(t, "weight")}
	}), 1, 9).Draw(t, "items")
}

func cost(items []Item) uint64 {
	var sum Item
	for _, it := range items {
		sum.Topics, sum.Weight = sum.Topics+it.Topics, sum.Weight+it.Weight
	}
	return sum.Topics * sum.Weight
}

// checkCut sums the runs up and compares with what is told.
func checkCut(t *rapid.T, r *Runs, items []Item) {
	starts := r.Starts()
	if len(starts) > r.Len() || starts[0] != 0 || !slices.IsSorted(starts) || len(slices.Compact(slices.Clone(starts))) != len(starts) {
		t.Fatalf("runs begin at %v, there are at most %d", starts, r.Len())
	}
	var total uint64
	for i, end := range append(starts[1:], len(items)) {
		total += cost(items[append([]int{0}, starts[1:]...)[i]:end])
	}
	if total != r.Cost() {
		t.Fatalf("cost %d, the runs cost %d", r.Cost(), total)
	}
}

// bestRuns tries all cuts into at most k runs.
func bestRuns(items []Item, k int) uint64 {
	best := cost(items)
	for i := 1; i < len(items) && k > 1; i++ {
		best = min(best, bestRuns(items[:i], k-1)+cost(items[i:]))
	}
	return best
}

func TestBestRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 9)
		r := NewRuns(items)
		saved := ^uint64(0)
		for k := 1; k <= 6; k++ {
			if want := bestRuns(items, k); r.Cost() != want {
				t.Fatalf("%d runs cost %d, the best %d", k, r.Cost(), want)
			}
			checkCut(t, r, items)
			before := r.Cost()
			r.Grow()
			if before-r.Cost() > saved {
				t.Fatalf("run %d saves %d, the one before saved %d", k+1, before-r.Cost(), saved)
			}
			saved = before - r.Cost()
		}
	})
}

// bestGrouping tries all groupings into at most k groups, in any order.
func bestGrouping(items []Item, k int) uint64 {
	best := ^uint64(0)
	groups := make([][]Item, k)
	var place func(i, used int)
	place = func(i, used int) {
		if i == len(items) {
			var total uint64
			for _, g := range groups {
				total += cost(g)
			}
			best = min(best, total)
			return
		}
		for g := range min(used+1, k) {
			groups[g] = append(groups[g], items[i])
			place(i+1, max(used, g+1))
			groups[g] = groups[g][:len(groups[g])-1]
		}
	}
	place(0, 0)
	return best
}

// TestTopicsInRunsAreTheBestOfAll: for single topics by weight, no other grouping is cheaper.
func TestTopicsInRunsAreTheBestOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := drawItems(t, 1)
		for i := range items {
			items[i].Topics = 1
		}
		slices.SortFunc(items, func(a, b Item) int { return cmp.Compare(b.Weight, a.Weight) })
		r := NewRuns(items)
		for k := 1; k <= 4; k++ {
			if want := bestGrouping(items, k); r.Cost() != want {
				t.Fatalf("%d groups cost %d, the best %d", k, r.Cost(), want)
			}
			r.Grow()
		}
	})
}
