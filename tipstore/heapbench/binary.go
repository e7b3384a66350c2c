package heapbench

// binary is an unboxed binary heap: a slice of items, the least replaced in place and sifted down with a hole instead of
// swaps. It stops early when the same list wins again.
type binary struct {
	feed
	items []item
}

func (m *binary) Reset(l *Lists) {
	m.reset(l)
	m.items = m.firsts(m.items[:0])
	for i := len(m.items)/2 - 1; i >= 0; i-- {
		m.down(i, m.items[i])
	}
}

func (m *binary) Fill(dst []uint64) int {
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

func (m *binary) pop() {
	last := m.items[len(m.items)-1]
	m.items = m.items[:len(m.items)-1]
	if len(m.items) > 0 {
		m.down(0, last)
	}
}

// down puts x into the hole at i or below.
func (m *binary) down(i int, x item) {
	items := m.items
	for {
		child := 2*i + 1
		if child >= len(items) {
			break
		}
		if right := child + 1; right < len(items) && items[right].key < items[child].key {
			child = right
		}
		if items[child].key >= x.key {
			break
		}
		items[i] = items[child]
		i = child
	}
	items[i] = x
}
