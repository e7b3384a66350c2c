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

func (m *shipped) Fill(dst []uint64) int {
	for i := range dst {
		if m.tree.Empty() {
			return i
		}
		key, id := m.tree.Top()
		dst[i] = key
		if next := m.take(id); next != none {
			m.tree.Replace(next)
		} else {
			m.tree.Pop()
		}
	}
	return len(dst)
}
