package plan

import (
	"cmp"
	"slices"
)

// volume is what one store of a plan holds.
type volume struct {
	topics uint32
	weight uint64
}

// eachTopic calls visit with every topic at or below v, and its own weight.
func (f *forest) eachTopic(v uint32, visit func(v uint32, weight uint64)) {
	if own := f.own(v); own.topics > 0 {
		visit(v, own.weight)
	}
	for _, k := range f.kids[f.first[v]:f.first[v+1]] {
		f.eachTopic(k.node, visit)
	}
}

// volumes tells what each store of a plan holds by now. It visits the rules, and children only where a rule spreads them.
func (f *forest) volumes(root uint32, p *Plan) []volume {
	list := make([]volume, p.Len())
	for _, r := range p.rules {
		id, ok := f.names.Lookup(r.Path)
		if !ok || int(id) >= len(f.topics) {
			continue
		}
		v := uint32(id)
		all := volume{f.topics[v], f.weight[v]}
		own := f.own(v)
		switch {
		case r.Kind == Exact:
			list[p.lookup(r.Path, len(r.Path), false)].sub(own)
			list[r.Stores[0]].add(own)
			continue
		case v != root:
			list[p.inherited(r.Path)].sub(all)
		}
		if r.Kind == Subtree {
			list[r.Stores[0]].add(all)
			continue
		}
		list[r.Stores[0]].add(own)
		for _, k := range f.kids[f.first[v]:f.first[v+1]] {
			list[r.Stores[jump(f.hash(k.node, len(r.Path)), len(r.Stores))]].add(volume{k.topics, k.weight})
		}
	}
	return list
}

// own is the volume of v's own topic.
func (f *forest) own(v uint32) volume {
	own := volume{f.topics[v], f.weight[v]}
	for _, k := range f.kids[f.first[v]:f.first[v+1]] {
		own.sub(volume{k.topics, k.weight})
	}
	return own
}

// sub may wrap around when the rule that gave comes later; the sum is right in the end.
func (s *volume) add(v volume) { s.topics, s.weight = s.topics+v.topics, s.weight+v.weight }
func (s *volume) sub(v volume) { s.topics, s.weight = s.topics-v.topics, s.weight-v.weight }

// totalCost is what reading every topic of a partition once costs.
func totalCost(stores []volume) (total uint64) {
	for _, s := range stores {
		total += cost(s.topics, s.weight)
	}
	return total
}

// inheritIDs numbers the stores of a new plan so that as many bytes as greed finds stay in a store of the same id; the
// rest get the least ids that the old plan does not use.
func (f *forest) inheritIDs(root uint32, old, fresh *Plan) []uint32 {
	shared := make([]uint64, fresh.Len()*old.Len())
	f.eachTopic(root, func(v uint32, weight uint64) {
		name := f.name(v)
		shared[fresh.StoreOf(name)*old.Len()+old.StoreOf(name)] += weight
	})
	var pairs []int
	for i, weight := range shared {
		if weight > 0 {
			pairs = append(pairs, i)
		}
	}
	slices.SortFunc(pairs, func(a, b int) int { return cmp.Or(cmp.Compare(shared[b], shared[a]), cmp.Compare(a, b)) })
	return match(pairs, old, fresh.Len())
}

// match gives new stores the ids of old ones in the order of pairs, each once.
func match(pairs []int, old *Plan, n int) []uint32 {
	const none = MaxID + 1
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = none
	}
	taken := make([]bool, old.Len())
	for _, pair := range pairs {
		if to, from := pair/old.Len(), pair%old.Len(); ids[to] == none && !taken[from] {
			ids[to], taken[from] = old.ID(from), true
		}
	}
	next, used := uint32(0), old.ids
	for i := range ids {
		if ids[i] != none {
			continue
		}
		for len(used) > 0 && used[0] <= next {
			if used[0] == next {
				next++
			}
			used = used[1:]
		}
		ids[i] = next
		next++
	}
	return ids
}
