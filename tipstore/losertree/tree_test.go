package losertree

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// merge drains the lists through a tree and checks that each key comes with its list's id.
func merge(t *rapid.T, tree *Tree, lists [][]uint64, low uint64) (merged []uint64) {
	rest := slices.Clone(lists)
	tree.Reset(len(lists), low, low+301)
	for i, l := range lists {
		if len(l) > 0 {
			tree.Add(l[0], uint32(1000+i))
		}
	}
	tree.Build()
	for !tree.Empty() {
		key, id := tree.Top()
		list := &rest[id-1000]
		if len(*list) == 0 || (*list)[0] != key {
			t.Fatalf("key %d is not the next of list %d: %v", key, id, *list)
		}
		merged = append(merged, key)
		if lead := tree.Lead(); lead != second(rest, id-1000) {
			t.Fatalf("lead %d, the second key is %d", lead, second(rest, id-1000))
		}
		if *list = (*list)[1:]; len(*list) > 0 {
			tree.Replace((*list)[0])
		} else {
			tree.Pop()
		}
	}
	return merged
}

// second is the least next key of the lists but one.
func second(rest [][]uint64, but uint32) uint64 {
	least := outOfGame
	for i, l := range rest {
		if uint32(i) != but && len(l) > 0 {
			least = min(least, l[0])
		}
	}
	return least
}

// TestAgainstSort merges random lists, among them empty ones and equal keys, with one tree again and again.
func TestAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tree Tree
		for range 3 {
			low := rapid.SampledFrom([]uint64{0, 1 << 40, ^uint64(0) - 400}).Draw(t, "low")
			lists := rapid.SliceOfN(rapid.SliceOfN(rapid.Uint64Range(low, low+300), 0, 20), 0, 40).Draw(t, "lists")
			for _, l := range lists {
				slices.Sort(l)
			}
			want := slices.Concat(lists...)
			slices.Sort(want)
			if got := merge(t, &tree, lists, low); !slices.Equal(got, want) {
				t.Fatalf("merged %v, want %v", got, want)
			}
		}
	})
}

func TestKeysTooFarApart(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("keys and leaves that do not fit a word were accepted")
		}
	}()
	var tree Tree
	tree.Reset(2, 0, 1<<63)
	tree.Add(0, 0)
	tree.Add(1, 1)
	tree.Build()
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	var tree Tree
	round := func() {
		tree.Reset(5, 0, 200)
		for i := range uint64(5) {
			tree.Add(10*i, uint32(i))
		}
		tree.Build()
		for !tree.Empty() {
			if key, _ := tree.Top(); key < 100 {
				tree.Replace(key + 7)
			} else {
				tree.Pop()
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(10, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
