package plan

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// forest is a copy of the topic tables' volumes in the shape that planning walks: the tree of each partition, cut from
// what is above it. Nodes have the table's ids.
type forest struct {
	names *topic.Table
	// weight and topics count what is at or below each node, but never across the border of a partition. A weight is
	// bytes shifted right by shift and rounded up. Invariant: topics*weight of any set of nodes of one partition is below
	// 1<<costBits.
	weight []uint64
	topics []uint32
	shift  uint

	// Invariant: the children of node v are kids[first[v]:first[v+1]], by id until sorted[v], then by compareDensity.
	first  []uint32
	kids   []kid
	sorted []bool

	roots []uint32 // of partition p

	// hashSegment of a node's last segment, 0: not asked for yet. Names lie all over the table; each is read once.
	hashes []uint64
}

// kid is a child with its sums, laid out so that a pass over many siblings reads memory in order.
type kid struct {
	weight uint64
	topics uint32
	node   uint32
}

const costBits = 52

// newForest copies the table in four passes over its nodes. Beside a running writer it sees each topic at some moment of
// the copy.
func newForest(t *topic.Table) *forest {
	parts := t.Partitions()
	nodes := t.Nodes()
	f := &forest{
		names:  t,
		weight: make([]uint64, nodes),
		topics: make([]uint32, nodes),
		first:  make([]uint32, nodes+1),
		sorted: make([]bool, nodes),
		roots:  make([]uint32, 0, parts),
	}
	for p := range parts {
		if node := t.PartitionNode(topic.PartitionID(p)); int(node) < nodes {
			f.roots = append(f.roots, uint32(node))
		}
	}
	parents := f.load()
	f.scale()
	f.sum(parents)
	f.link(parents)
	return f
}

// load reads each topic's bytes, and the parent of each node that has one in its partition.
func (f *forest) load() (parents []uint32) {
	parents = make([]uint32, len(f.weight))
	for id := range parents {
		node := topic.ID(id)
		if f.names.IsTopic(node) {
			_, bytes, _ := f.names.Stats(node)
			f.weight[id], f.topics[id] = bytes, 1
		}
		if f.names.Depth(node) > 2 {
			parents[id] = uint32(f.names.Parent(node))
		}
	}
	return parents
}

// scale finds the least shift that keeps all products in range: one for all partitions, so that costs compare.
func (f *forest) scale() {
	var total uint64
	var topics uint64
	for id, w := range f.weight {
		sum, carry := bits.Add64(total, w, 0)
		total = sum | -carry // saturates
		topics += uint64(f.topics[id])
	}
	f.shift = uint(max(0, bits.Len64(total)+bits.Len64(topics)+1-costBits))
	for id, w := range f.weight {
		f.weight[id] = w>>f.shift + min(1, w&(1<<f.shift-1))
	}
}

// sum adds children to parents; a child's id is above its parent's.
func (f *forest) sum(parents []uint32) {
	for id := len(parents) - 1; id > 0; id-- {
		if up := parents[id]; up != 0 {
			f.weight[up] += f.weight[id]
			f.topics[up] += f.topics[id]
		}
	}
}

// link sorts the nodes by parent, by counting.
func (f *forest) link(parents []uint32) {
	for _, up := range parents {
		if up != 0 {
			f.first[up]++
		}
	}
	at := uint32(0)
	for v := range f.first {
		at += f.first[v]
		f.first[v] = at
	}
	f.kids = make([]kid, at)
	for id := len(parents) - 1; id > 0; id-- {
		if up := parents[id]; up != 0 {
			f.first[up]--
			f.kids[f.first[up]] = kid{f.weight[id], f.topics[id], uint32(id)}
		}
	}
}

// children lists the children of v, heaviest per topic first.
func (f *forest) children(v uint32) []kid {
	list := f.kids[f.first[v]:f.first[v+1]]
	if !f.sorted[v] {
		slices.SortFunc(list, func(a, b kid) int {
			return cmp.Or(compareDensity(a.weight, a.topics, b.weight, b.topics), cmp.Compare(a.node, b.node))
		})
		f.sorted[v] = true
	}
	return list
}

// compareDensity orders by weight per topic, the heavier first.
func compareDensity(aw uint64, an uint32, bw uint64, bn uint32) int {
	return cmp.Compare(bw*uint64(an), aw*uint64(bn))
}

// cost is what reading each of n topics once costs when all of them share one store: the store's weight, n times.
func cost(n uint32, weight uint64) uint64 { return uint64(n) * weight }

// name is the path of a node.
func (f *forest) name(v uint32) string { return f.names.Name(topic.ID(v)) }

// hash is hashSegment of the last segment of v, whose parent's path is above bytes long.
func (f *forest) hash(v uint32, above int) uint64 {
	if f.hashes == nil {
		f.hashes = make([]uint64, len(f.topics))
	}
	if f.hashes[v] == 0 {
		f.hashes[v] = hashSegment(f.name(v)[above:])
	}
	return f.hashes[v]
}

// below is what follows the path of an ancestor in the path of v: "/segment...".
func (f *forest) below(ancestor, v uint32) string { return f.name(v)[len(f.name(ancestor)):] }
