package plan

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/topic"
)

// segments are few, so that trees share prefixes, and one is a prefix of another.
var segments = rapid.SampledFrom([]string{"a", "b", "ab", "c-1", "ü", " ", "d.e"})

func drawTopic(t *rapid.T) string {
	return strings.Join(rapid.SliceOfN(segments, 1, 7).Draw(t, "topic"), "/")
}

// drawVolumes makes a few deep and shared paths, and at times a crowd of siblings that is spread.
func drawVolumes(t *rapid.T) (list []Volume) {
	size := rapid.OneOf(rapid.Uint64Range(0, 50), rapid.Uint64Range(0, 1<<20), rapid.Just(uint64(1<<44)))
	for range rapid.IntRange(0, 60).Draw(t, "topics") {
		list = append(list, Volume{drawTopic(t), 1, size.Draw(t, "bytes")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "crowds") {
		above, volume := drawTopic(t), rapid.Uint64Range(1, 1000).Draw(t, "each")
		for i := range rapid.IntRange(2, 200).Draw(t, "crowd") {
			list = append(list, Volume{fmt.Sprintf("%s/%d", above, i), 1, volume + uint64(i%7)})
		}
	}
	return list
}

func drawOptions(t *rapid.T) Options {
	return Options{
		Budget:        rapid.IntRange(1, 20).Draw(t, "budget"),
		Even:          rapid.Bool().Draw(t, "even"),
		MaxStores:     rapid.IntRange(1, 40).Draw(t, "max"),
		MinStoreBytes: rapid.SampledFrom([]uint64{0, 0, 100, 1 << 16}).Draw(t, "min"),
	}
}

func mustTable(t *rapid.T, volumes []Volume) *topic.Table {
	table, err := TableOf(volumes)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func mustCompute(t *rapid.T, table *topic.Table, previous []*Plan, o Options) *Result {
	r, err := Compute(table, previous, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func encoded(plans []*Plan) (all []byte) {
	for _, p := range plans {
		all = p.Append(all)
	}
	return all
}

// storeByRules applies the words of the documentation: the longest path wins, Exact before the others.
func storeByRules(p *Plan, name string) int {
	best, store := -1, -1
	for _, r := range p.rules {
		switch {
		case r.Kind == Exact && r.Path == name:
			return r.Stores[0]
		case r.Kind != Exact && len(r.Path) > best && (r.Path == name || strings.HasPrefix(name, r.Path+"/")):
			best, store = len(r.Path), r.Stores[0]
			if r.Kind == Spread && r.Path != name {
				child, _, _ := strings.Cut(name[len(r.Path)+1:], "/")
				store = r.Stores[part("/"+child, len(r.Stores))]
			}
		}
	}
	return store
}

func TestEveryTopicHasOneStore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := mustTable(t, drawVolumes(t))
		r := mustCompute(t, table, nil, drawOptions(t))
		names := []string{drawTopic(t), drawTopic(t) + "/later"}
		for id := range topic.ID(table.Nodes()) {
			if id != topic.Root {
				names = append(names, table.Name(id), table.Name(id)+"/later")
			}
		}
		for _, name := range names {
			plans := 0
			for _, p := range r.Plans {
				store := p.StoreOf(name)
				if topic.PartitionOf(name) != p.Partition() {
					if store != -1 {
						t.Fatalf("%q is in store %d of another partition, %s", name, store, p.Partition())
					}
					continue
				}
				plans++
				if want := storeByRules(p, name); store != want || store < 0 || store >= p.Len() {
					t.Fatalf("%q: store %d of %d, by the rules %d: %v", name, store, p.Len(), want, p.Rules())
				}
			}
			if plans > 1 {
				t.Fatalf("%d plans for %q", plans, name)
			}
		}
	})
}

// TestUnder holds the stores of a subtree against the rules, one by one: those at or below the path, and what the path
// has without them.
func TestUnder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := mustTable(t, drawVolumes(t))
		plans := mustCompute(t, table, nil, drawOptions(t)).Plans
		path := drawTopic(t)
		if n := table.Nodes(); n > 1 && rapid.Bool().Draw(t, "known") {
			path = table.Name(topic.ID(rapid.IntRange(0, n-1).Draw(t, "node")))
		}
		for _, p := range plans {
			want := map[int]bool{}
			own := false
			for _, r := range p.rules {
				if path == "" || strings.HasPrefix(r.Path+"/", path+"/") {
					own = own || r.Path == path && r.Kind != Exact
					for _, s := range r.Stores {
						want[s] = true
					}
				}
			}
			if path != "" && topic.PartitionOf(path) == p.partition && !own {
				want[p.inherited(path)] = true
			}
			got := p.Under([]int{-5}, path)
			if got[0] != -5 || len(got)-1 != len(want) || !slices.IsSorted(got) {
				t.Fatalf("under %q: %v, want %v: %v", path, got, want, p.rules)
			}
			for _, s := range got[1:] {
				if !want[s] {
					t.Fatalf("under %q: %v, want %v: %v", path, got, want, p.rules)
				}
			}
			for id := range topic.ID(table.Nodes()) {
				name := table.Name(id)
				if s := p.StoreOf(name); s >= 0 && (path == "" || strings.HasPrefix(name+"/", path+"/")) && !slices.Contains(got[1:], s) {
					t.Fatalf("%q is in store %d, under %q are %v", name, s, path, got)
				}
			}
		}
	})
}

func TestBudgetIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := drawOptions(t)
		var plans []*Plan
		if rapid.Bool().Draw(t, "planned before") {
			plans = mustCompute(t, mustTable(t, drawVolumes(t)), nil, drawOptions(t)).Plans
		}
		table := mustTable(t, drawVolumes(t))
		r := mustCompute(t, table, plans, o)
		topics := map[string]int{}
		for id := range topic.ID(table.Nodes()) {
			if table.IsTopic(id) {
				topics[topic.PartitionOf(table.Name(id))]++
			}
		}
		stores := len(topics)
		for _, p := range r.Plans {
			stores += p.Len() - 1
			if most := min(o.Budget, topics[p.Partition()]); o.Even && p.Len() > most {
				t.Fatalf("%s: %d stores, at most %d", p.Partition(), p.Len(), most)
			}
			if !o.Even && p.Len() > o.MaxStores {
				t.Fatalf("%s: %d stores, at most %d", p.Partition(), p.Len(), o.MaxStores)
			}
		}
		budget := 0
		for _, n := range topics {
			budget += min(n, o.Budget)
		}
		if r.Stores != stores || r.Budget != budget || stores > budget {
			t.Fatalf("told %d stores of %d, there are %d of %d", r.Stores, r.Budget, stores, budget)
		}
	})
}

func TestPlansDoNotDependOnInputOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		volumes, o := drawVolumes(t), drawOptions(t)
		first := mustCompute(t, mustTable(t, volumes), nil, o)
		second := mustCompute(t, mustTable(t, rapid.Permutation(volumes).Draw(t, "order")), nil, o)
		if !bytes.Equal(encoded(first.Plans), encoded(second.Plans)) {
			t.Fatal("another order of the same volumes, other plans")
		}
	})
}

func TestPlansInForceStay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, o := mustTable(t, drawVolumes(t)), drawOptions(t)
		first := mustCompute(t, table, nil, o)
		second := mustCompute(t, table, first.Plans, o)
		if second.Kept != len(first.Plans) || !slices.Equal(first.Plans, second.Plans) {
			t.Fatalf("the same volumes, and only %d of %d plans were kept", second.Kept, len(first.Plans))
		}
	})
}

// TestVolumesOfStores holds the sums over rules against a look-up of each topic, for plans that were made for other
// volumes.
func TestVolumesOfStores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		volumes := drawVolumes(t)
		plans := mustCompute(t, mustTable(t, volumes), nil, drawOptions(t)).Plans
		f := newForest(mustTable(t, slices.Concat(volumes[:len(volumes)/2], drawVolumes(t))))
		for _, p := range plans {
			root, ok := f.names.Lookup(p.Partition())
			if !ok {
				continue
			}
			want := make([]volume, p.Len())
			f.eachTopic(uint32(root), func(v uint32, weight uint64) { want[p.StoreOf(f.name(v))].add(volume{1, weight}) })
			if got := f.volumes(uint32(root), p); !slices.Equal(got, want) {
				t.Fatalf("%s: %v, topic by topic %v: %v", p.Partition(), got, want, p.Rules())
			}
		}
	})
}

// TestRulesSayWhatWasMerged: the stores that the rules describe hold what the stores hold that the merge decided on.
func TestRulesSayWhatWasMerged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newForest(mustTable(t, drawVolumes(t)))
		c := &computation{f: f, o: drawOptions(t), greedy: greedy{f: f}}
		c.share()
		for p, root := range f.roots {
			draft := draft{part: p, fresh: c.fresh(p)}
			plan, err := c.finish(&draft)
			if err != nil {
				t.Fatal(err)
			}
			got := f.volumes(root, plan)
			for i, pieces := range draft.fresh {
				if n, weight := sum(pieces); got[i] != (volume{n, weight}) {
					t.Fatalf("store %d: %v by the rules, %d topics of %d decided: %v", i, got[i], n, weight, plan.Rules())
				}
			}
		}
	})
}

func TestEncodingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, p := range mustCompute(t, mustTable(t, drawVolumes(t)), nil, drawOptions(t)).Plans {
			src := p.Append([]byte("before"))[len("before"):]
			q, err := Decode(src)
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(p.partition, p.ids, p.rules) != fmt.Sprint(q.partition, q.ids, q.rules) || !bytes.Equal(src, q.Append(nil)) {
				t.Fatalf("%v became %v", p.rules, q.rules)
			}
			cut := rapid.IntRange(0, len(src)-1).Draw(t, "cut")
			if _, err := Decode(src[:cut]); err == nil {
				t.Fatalf("%d of %d bytes were enough", cut, len(src))
			}
		}
	})
}

// TestJump holds the integer quotient against exact arithmetic, and a new part against what it may take.
func TestJump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.Uint64().Draw(t, "key")
		n := rapid.IntRange(1, MaxStores).Draw(t, "parts")
		slow := func(key uint64) int64 {
			b, j := int64(-1), int64(0)
			for j < int64(n) {
				b = j
				key = key*2862933555777941757 + 1
				q := new(big.Rat).SetFrac64((b+1)<<31, int64(key>>33)+1)
				j = new(big.Int).Quo(q.Num(), q.Denom()).Int64()
			}
			return b
		}
		got := jump(key, n)
		if int64(got) != slow(key) {
			t.Fatalf("part %d, want %d", got, slow(key))
		}
		if more := jump(key, n+1); more != got && more != n {
			t.Fatalf("with one part more, %d became %d", got, more)
		}
	})
}

func TestGrid(t *testing.T) {
	for step := 1; step < gridSteps; step++ {
		if gridLimit(step) < gridLimit(step-1) || gridLimit(step) > gridLimit(step-1)*17/16+1 {
			t.Fatalf("step %d goes from %d to %d", step, gridLimit(step-1), gridLimit(step))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Uint64Range(0, 1<<costBits).Draw(t, "x")
		if s := gridStep(x); gridLimit(s) < x || s > 0 && x > 1 && gridLimit(s-1) >= x {
			t.Fatalf("step %d for %d: limits %d, %d", s, x, gridLimit(max(0, s-1)), gridLimit(s))
		}
		if r := root(x); r*r > x || (r+1)*(r+1) <= x {
			t.Fatalf("root of %d is not %d", x, r)
		}
	})
}
