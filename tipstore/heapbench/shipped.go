package heapbench

import "github.com/cantus-bus/cantus/tipstore/losertree"

// shipped merges with the queue of the tip.
type shipped struct {
	feed
	first []item
	tree  losertree.Tree
}

func (m *shipped) Reset(l *Lists) {
	m.reset(l)
	m.first = m.firsts(m.first[:0])
	m.tree.Reset(len(m.first), 0, keyEnd)
	for _, it := range m.first {
		m.tree.Add(it.key, it.id)
	}
	m.tree.Build()
}

// Fill does as the tip's merge.
func (m *shipped) Fill(dst []uint64) int {
	n := 0
	last, lead := ^uint32(0), uint64(0)
	for n < len(dst) && !m.tree.Empty() {
		key, id := m.tree.Top()
		dst[n] = key
		n++
		if id == last {
			lead = m.tree.Lead()
		} else {
			last, lead = id, 0
		}
		for {
			next := m.take(id)
			if next == none {
				m.tree.Pop()
				break
			}
			if next >= lead || n == len(dst) {
				m.tree.Replace(next)
				break
			}
			dst[n] = next
			n++
		}
	}
	return n
}
