package compare

import (
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

// Measures are what a grouping costs.
type Measures struct {
	Stores        int     `json:"stores"`                // of all partitions
	ReadCost      uint64  `json:"read_cost"`             // bytes of all stores read when every topic is read once
	Amplification float64 `json:"amplification"`         // ReadCost over the bytes of all topics
	SubtreeReads  float64 `json:"subtree_amplification"` // the same when every subtree with more than a topic is read once
	AllReads      float64 `json:"all_amplification"`     // the same when every topic and every such subtree is read once
	MaxStoreBytes uint64  `json:"max_store_bytes"`       // the largest store
	FanInMean     float64 `json:"fan_in_mean"`           // stores that the read of a subtree merges
	FanInMax      int     `json:"fan_in_max"`            // the most of them
}

// measure reads every topic once, and every subtree of a partition once: each node that has nodes below it, the
// partition's own node included, but none above it.
func measure(t *topic.Table, g *grouping) (m Measures) {
	bytes := make([]uint64, len(g.names))
	topics := make([]uint64, len(g.names))
	total := uint64(0)
	for id, s := range g.store {
		if s >= 0 {
			_, b, _ := t.Stats(topic.ID(id))
			bytes[s], topics[s], total = bytes[s]+b, topics[s]+1, total+b
		}
	}
	m.Stores = len(g.names)
	for s, b := range bytes {
		m.ReadCost += topics[s] * b
		m.MaxStoreBytes = max(m.MaxStoreBytes, b)
	}
	subtrees, wanted := innerNodes(t, len(g.store))
	touched := touches(t, g, subtrees)
	read, fan, last := uint64(0), 0, -1
	for i, pair := range touched {
		if node := int(pair >> 32); node != last {
			fan, last = 0, node
		}
		fan++
		m.FanInMax = max(m.FanInMax, fan)
		read += bytes[uint32(touched[i])]
	}
	inner := 0
	for _, is := range subtrees {
		if is {
			inner++
		}
	}
	m.Amplification = ratio(m.ReadCost, total)
	m.SubtreeReads = ratio(read, wanted)
	m.AllReads = ratio(m.ReadCost+read, total+wanted)
	m.FanInMean = float64(len(touched)) / float64(max(1, inner))
	return m
}

func ratio(a, b uint64) float64 { return float64(a) / float64(max(1, b)) }

// innerNodes marks the subtrees, and sums their bytes.
func innerNodes(t *topic.Table, nodes int) (inner []bool, bytes uint64) {
	inner = make([]bool, nodes)
	below := make([]uint64, nodes)
	for id := nodes - 1; id > 0; id-- { // a child's id is above its parent's
		node := topic.ID(id)
		_, b, _ := t.Stats(node)
		below[id] += b
		if t.Depth(node) > 2 {
			up := t.Parent(node)
			inner[up] = true
			below[up] += below[id]
		}
		if inner[id] {
			bytes += below[id]
		}
	}
	return inner, bytes
}

// touches lists each subtree with each store that holds a topic of it: node<<32 | store, sorted.
func touches(t *topic.Table, g *grouping, inner []bool) (pairs []uint64) {
	for id, s := range g.store {
		if s < 0 {
			continue
		}
		for v := topic.ID(id); t.Depth(v) >= 2; v = t.Parent(v) {
			if inner[v] {
				pairs = append(pairs, uint64(v)<<32|uint64(s))
			}
		}
	}
	slices.Sort(pairs)
	return slices.Compact(pairs)
}
