package plan

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxListed is how many rules one piece may take. A crowd of small siblings is spread by a hash instead, with one rule,
// so that a plan's size follows its stores and not its topics.
const maxListed = 8

// limit says when topics may share a piece.
type limit struct {
	cost   uint64 // topics*weight of a piece, at most
	weight uint64 // a piece of no more weight may always stay together: less is not worth a store
}

func (l limit) fits(n uint32, weight uint64) bool {
	return cost(n, weight) <= l.cost || weight <= l.weight
}

// refKind says what a ref names.
type refKind uint8

const (
	refTopic refKind = iota // the topic of the node itself
	refTree                 // the node and all below
	refPart                 // the part-th of a spread of the node's subtree
)

// ref is one rule of a piece.
type ref struct {
	node  uint32
	part  uint16
	parts uint16 // of a refPart, else 0
	kind  refKind
}

// piece is a set of topics that are read together: what a greedy pass makes, and later merges make stores of.
type piece struct {
	weight uint64
	topics uint32
	refs   []ref
}

// item is what a node has to place: its own topic, or what a child left over.
type item struct {
	weight uint64
	topics uint32
	ref    ref
}

// greedy cuts one partition's tree into pieces that fit a limit, in one walk from the leaves up.
//
// A subtree that fits stays whole. Where it does not, the node's own topic and its children's leftovers are sorted by
// weight per topic and filled into pieces in that order: heavy topics part from light ones, as in the best clustering
// without a tree. All pieces but the last are closed; the last, lightest one is the node's leftover and goes up, where it
// may join siblings. Whatever is not closed on the way is the partition's default piece.
type greedy struct {
	f      *forest
	limit  limit
	record bool // collect pieces; else only count
	count  int
	pieces []piece
	items  []item // stack of the nodes being walked
	late   []item // stack: leftovers of children that were split
}

// run walks the partition below root and returns the number of its pieces, which stand in pieces if record was asked for.
func (g *greedy) run(root uint32, l limit, record bool) int {
	g.limit, g.record, g.count, g.pieces = l, record, 0, nil
	n, weight := g.split(root)
	if n > 0 || g.count == 0 {
		g.close(n, weight, ref{node: root, kind: refTree})
	}
	return g.count
}

// close makes a piece of one ref.
func (g *greedy) close(n uint32, weight uint64, r ref) {
	g.count++
	if g.record {
		g.pieces = append(g.pieces, piece{weight, n, []ref{r}})
	}
}

// split closes pieces below v until the rest fits, and returns the rest. The rest may be over the limit only when it
// cannot be cut, or be nothing when a spread took it.
func (g *greedy) split(v uint32) (n uint32, weight uint64) {
	n, weight = g.f.topics[v], g.f.weight[v]
	if g.limit.fits(n, weight) || n == 1 {
		return n, weight
	}
	base := len(g.items)
	g.gather(v)
	n, weight = g.fill(v, g.items[base:])
	g.items = g.items[:base]
	return n, weight
}

// gather pushes the items of v, sorted by density.
func (g *greedy) gather(v uint32) {
	base, lateBase := len(g.items), len(g.late)
	ownN, ownWeight := g.f.topics[v], g.f.weight[v]
	for _, k := range g.f.children(v) {
		ownN, ownWeight = ownN-k.topics, ownWeight-k.weight
		r := ref{node: k.node, kind: refTree}
		if g.limit.fits(k.topics, k.weight) || k.topics <= 1 {
			if k.topics > 0 {
				g.items = append(g.items, item{k.weight, k.topics, r})
			}
			continue
		}
		if n, weight := g.split(k.node); n > 0 {
			g.late = append(g.late, item{weight, n, r})
		}
	}
	if ownN > 0 {
		g.late = append(g.late, item{ownWeight, ownN, ref{node: v, kind: refTopic}})
	}
	g.merge(base, lateBase)
}

// merge sorts the late items and merges them into items[base:], which are sorted already.
func (g *greedy) merge(base, lateBase int) {
	late := g.late[lateBase:]
	slices.SortFunc(late, compareItems)
	i := len(g.items) - 1
	g.items = append(g.items, late...)
	for to, j := len(g.items)-1, len(late)-1; j >= 0; to-- {
		if i >= base && compareItems(g.items[i], late[j]) > 0 {
			g.items[to], i = g.items[i], i-1
		} else {
			g.items[to], j = late[j], j-1
		}
	}
	g.late = g.late[:lateBase]
}

func compareItems(a, b item) int {
	return cmp.Or(compareDensity(a.weight, a.topics, b.weight, b.topics), cmp.Compare(a.ref.node, b.ref.node))
}

// fill closes pieces of v's items in their order and returns the last one, unclosed.
func (g *greedy) fill(v uint32, items []item) (n uint32, weight uint64) {
	start := 0
	for i, it := range items {
		if i > start && !g.limit.fits(n+it.topics, weight+it.weight) {
			if i-start > maxListed {
				return g.spread(v, items[start:])
			}
			g.closeItems(n, weight, items[start:i])
			start, n, weight = i, 0, 0
		}
		n, weight = n+it.topics, weight+it.weight
	}
	return n, weight
}

func (g *greedy) closeItems(n uint32, weight uint64, items []item) {
	g.count++
	if !g.record {
		return
	}
	refs := make([]ref, len(items))
	for i, it := range items {
		refs[i] = it.ref
	}
	g.pieces = append(g.pieces, piece{weight, n, refs})
}

// spread closes all that is left of v as parts of near equal size, if it is worth two.
func (g *greedy) spread(v uint32, items []item) (n uint32, weight uint64) {
	for _, it := range items {
		n, weight = n+it.topics, weight+it.weight
	}
	parts := g.parts(n, weight, len(items))
	if parts < 2 {
		return n, weight
	}
	g.count += parts
	if !g.record {
		return 0, 0
	}
	at, pathLen := len(g.pieces), len(g.f.name(v))
	for i := range parts {
		g.pieces = append(g.pieces, piece{refs: []ref{{v, uint16(i), uint16(parts), refPart}}})
	}
	for _, it := range items {
		i := 0
		if it.ref.kind == refTree {
			i = jump(g.f.hash(it.ref.node, pathLen), parts)
		}
		p := &g.pieces[at+i]
		p.topics, p.weight = p.topics+it.topics, p.weight+it.weight
	}
	return 0, 0
}

// parts is how many parts of n topics bring each under the limit: m parts cost 1/m² each.
func (g *greedy) parts(n uint32, weight uint64, items int) int {
	m := root(cost(n, weight)/max(1, g.limit.cost)) + 1
	if g.limit.weight > 0 {
		m = min(m, weight/g.limit.weight)
	}
	return int(min(m, uint64(items/2), MaxStores))
}

// root is the integer square root.
func root(x uint64) uint64 {
	r := uint64(0)
	for b := uint64(1) << (bits.Len64(x) / 2); b > 0; b >>= 1 {
		if (r+b)*(r+b) <= x {
			r += b
		}
	}
	return r
}
