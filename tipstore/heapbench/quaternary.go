package heapbench

// quaternary is an unboxed heap with four children a node, which lie in one cache line: half the levels of a binary heap,
// three comparisons more at each.
type quaternary struct {
	feed
	items []item
}

func (m *quaternary) Reset(l *Lists) {
	m.reset(l)
	m.items = m.firsts(m.items[:0])
	for i := (len(m.items) - 2) / 4; i >= 0 && len(m.items) > 1; i-- {
		m.down(i, m.items[i])
	}
}

func (m *quaternary) Fill(dst []uint64) int {
	for i := range dst {
		if len(m.items) == 0 {
			return i
		}
		top := m.items[0]
		dst[i] = top.key
		if key := m.take(top.id); key != none {
			m.down(0, item{key, top.id})
		} else {
			m.pop()
		}
	}
	return len(dst)
}

func (m *quaternary) pop() {
	last := m.items[len(m.items)-1]
	m.items = m.items[:len(m.items)-1]
	if len(m.items) > 0 {
		m.down(0, last)
	}
}

// down puts x into the hole at i or below.
func (m *quaternary) down(i int, x item) {
	items := m.items
	for {
		first := 4*i + 1
		if first >= len(items) {
			break
		}
		child, least := first, items[first].key
		for j, sibling := range items[first+1 : min(first+4, len(items))] {
			if sibling.key < least {
				child, least = first+1+j, sibling.key
			}
		}
		if least >= x.key {
			break
		}
		items[i] = items[child]
		i = child
	}
	items[i] = x
}
