package compare

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree/plan"
)

// drawTable makes up to most topics in few partitions.
func drawTable(t *rapid.T, most int) *topic.Table {
	segment := rapid.SampledFrom([]string{"a", "b", "ab", "c"})
	var volumes []plan.Volume
	for range rapid.IntRange(1, most).Draw(t, "topics") {
		name := strings.Join(rapid.SliceOfN(segment, 1, 5).Draw(t, "topic"), "/")
		volumes = append(volumes, plan.Volume{Topic: name, Messages: 1, Bytes: rapid.Uint64Range(0, 1000).Draw(t, "bytes")})
	}
	table, err := plan.TableOf(volumes)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func group(t *rapid.T, table *topic.Table, name string, o Options) *grouping {
	a, err := newAlgorithm(name, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.decide(table); err != nil {
		t.Fatal(err)
	}
	return a.group(table)
}

// readByName does every read by comparing names, and counts what its stores hold.
func readByName(t *topic.Table, g *grouping) (reads map[string]map[int32]bool, wanted map[string]uint64, bytes map[int32]uint64) {
	reads, wanted, bytes = map[string]map[int32]bool{}, map[string]uint64{}, map[int32]uint64{}
	for id := range topic.ID(t.Nodes()) {
		for other := range topic.ID(t.Nodes()) {
			name, below := t.Name(other), t.Name(id)
			inPartition := t.Depth(other) >= 2
			isAbove := t.Depth(id) > t.Depth(other) && strings.HasPrefix(below, name+"/")
			if inPartition && isAbove && reads[name] == nil {
				reads[name] = map[int32]bool{}
			}
		}
	}
	for id := range topic.ID(t.Nodes()) {
		if !t.IsTopic(id) {
			continue
		}
		_, b, _ := t.Stats(id)
		bytes[g.store[id]] += b
		for name, stores := range reads {
			if strings.HasPrefix(t.Name(id)+"/", name+"/") {
				stores[g.store[id]] = true
				wanted[name] += b
			}
		}
	}
	return reads, wanted, bytes
}

// TestMeasure holds the measures against reads done one by one.
func TestMeasure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t, 20)
		g := group(t, table, rapid.SampledFrom(Names()).Draw(t, "algorithm"), Options{Budget: rapid.IntRange(1, 4).Draw(t, "budget"), MaxStores: 8})
		reads, wanted, bytes := readByName(table, g)
		want := Measures{Stores: len(bytes), FanInMean: 0}
		var total, read, all, fan uint64
		for id, s := range g.store {
			if s >= 0 {
				_, b, _ := table.Stats(topic.ID(id))
				total += b
				want.ReadCost += bytes[s]
				want.MaxStoreBytes = max(want.MaxStoreBytes, bytes[s])
			}
		}
		for name, stores := range reads {
			all += wanted[name]
			fan += uint64(len(stores))
			want.FanInMax = max(want.FanInMax, len(stores))
			for s := range stores {
				read += bytes[s]
			}
		}
		want.Amplification, want.SubtreeReads = ratio(want.ReadCost, total), ratio(read, all)
		want.AllReads, want.FanInMean = ratio(want.ReadCost+read, total+all), ratio(fan, uint64(len(reads)))
		if got := measure(table, g); got != want {
			t.Fatalf("%+v, read one by one %+v", got, want)
		}
	})
}

// TestNothingBeatsTheOptimum, with the same stores to spend.
func TestNothingBeatsTheOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t, 60)
		o := Options{Budget: rapid.IntRange(1, 6).Draw(t, "budget"), MaxStores: rapid.IntRange(1, 12).Draw(t, "most")}
		for best, other := range map[string]string{Optimum: AdaptiveEven, OptimumShared: Adaptive} {
			b, a := measure(table, group(t, table, best, o)), measure(table, group(t, table, other, o))
			if b.ReadCost > a.ReadCost {
				t.Fatalf("%s costs %d with %d stores, %s %d with %d", best, b.ReadCost, b.Stores, other, a.ReadCost, a.Stores)
			}
		}
	})
}

// bestOfAll tries all ways to put each partition's topics into at most most stores, budget in all.
func bestOfAll(t *topic.Table, most, budget int) uint64 {
	type store struct{ n, bytes uint64 }
	stores := make([][]store, t.Partitions())
	best := ^uint64(0)
	var place func(id topic.ID, used int)
	place = func(id topic.ID, used int) {
		if int(id) == t.Nodes() {
			var total uint64
			for _, list := range stores {
				for _, s := range list {
					total += s.n * s.bytes
				}
			}
			best = min(best, total)
			return
		}
		if !t.IsTopic(id) {
			place(id+1, used)
			return
		}
		_, b, _ := t.Stats(id)
		list := &stores[t.Partition(id)]
		for i := range *list {
			s := &(*list)[i]
			s.n, s.bytes = s.n+1, s.bytes+b
			place(id+1, used)
			s = &(*list)[i]
			s.n, s.bytes = s.n-1, s.bytes-b
		}
		if len(*list) < most && used < budget {
			*list = append(*list, store{1, b})
			place(id+1, used+1)
			*list = (*list)[:len(*list)-1]
		}
	}
	place(topic.Root, 0)
	return best
}

// TestOptimumIsTheBest holds both yardsticks against all that can be done.
func TestOptimumIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t, 7)
		o := Options{Budget: rapid.IntRange(1, 3).Draw(t, "budget"), MaxStores: rapid.IntRange(1, 4).Draw(t, "most")}
		topics := make([]int, table.Partitions())
		for id := range topic.ID(table.Nodes()) {
			if table.IsTopic(id) {
				topics[table.Partition(id)]++
			}
		}
		budget := 0
		for _, n := range topics {
			budget += min(n, o.Budget)
		}
		if got, want := measure(table, group(t, table, Optimum, o)).ReadCost, bestOfAll(table, o.Budget, 1<<30); got != want {
			t.Fatalf("each its own budget: %d, the best is %d", got, want)
		}
		if got, want := measure(table, group(t, table, OptimumShared, o)).ReadCost, bestOfAll(table, o.MaxStores, budget); got != want {
			t.Fatalf("a shared budget of %d: %d, the best is %d", budget, got, want)
		}
	})
}

func TestChurn(t *testing.T) {
	table := topic.NewTable(0)
	ids := make([]topic.ID, 6)
	for i := range ids {
		ids[i], _, _ = table.Intern(fmt.Appendf(nil, "a/b/%d", i))
		table.Add(ids[i], 1, uint64(1+i), 0)
	}
	of := func(stores ...uint64) *grouping {
		return newGrouping(table, func(id topic.ID) uint64 { return stores[id-ids[0]] })
	}
	old := of(1, 1, 2, 2, 3, 3)
	if c := churn(table, old, of(1, 1, 2, 2, 3, 3)); c != 0 {
		t.Errorf("nothing moved, churn %f", c)
	}
	if c := churn(table, old, of(1, 1, 2, 2, 3, 2)); c != 6.0/21 {
		t.Errorf("6 of 21 bytes moved, churn %f", c)
	}
	renamed := of(7, 7, 1, 1, 2, 1)
	if c := churn(table, old, renamed); c != 1 {
		t.Errorf("all names are others, churn %f", c)
	}
	// The store of 3, 4 and 6 bytes goes on with the name of 3 and 4, not of 5 and 6: the last topic has moved.
	if renamed.follow(table, old); churn(table, old, renamed) != 6.0/21 {
		t.Errorf("followed as far as can be, churn %f", churn(table, old, renamed))
	}
}
