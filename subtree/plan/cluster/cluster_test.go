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
func checkCut(t *rapid.T, r *Runs, k int, items []Item) {
	cut := r.Cut(k)
	if len(cut) > k+1 || cut[0] != 0 || cut[len(cut)-1] != len(items) {
		t.Fatalf("%d items in %d runs are cut at %v", len(items), k, cut)
	}
	var total uint64
	for i, start := range cut[:len(cut)-1] {
		if start >= cut[i+1] {
			t.Fatalf("an empty run in %v", cut)
		}
		total += cost(items[start:cut[i+1]])
	}
	if total != r.Cost(k) {
		t.Fatalf("cost %d, the runs cost %d", r.Cost(k), total)
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
		for r.Len() < 6 {
			r.Grow()
		}
		for k := 1; k <= r.Len(); k++ {
			if want := bestRuns(items, k); r.Cost(k) != want {
				t.Fatalf("%d runs cost %d, the best %d", k, r.Cost(k), want)
			}
			checkCut(t, r, k, items)
			if k > 2 && r.Cost(k-1)-r.Cost(k) > r.Cost(k-2)-r.Cost(k-1) {
				t.Fatalf("costs %d, %d, %d: run %d saves more than the one before", r.Cost(k-2), r.Cost(k-1), r.Cost(k), k)
			}
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
			if want := bestGrouping(items, k); r.Cost(k) != want {
				t.Fatalf("%d groups cost %d, the best %d", k, r.Cost(k), want)
			}
			r.Grow()
		}
	})
}
