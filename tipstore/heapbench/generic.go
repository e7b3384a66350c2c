package heapbench

// genericHeap is a binary heap of any type, ordered by a function: what one writes when a library should do it.
type genericHeap[T any] struct {
	items []T
	less  func(a, b T) bool
}

func (h *genericHeap[T]) init() {
	for i := len(h.items)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// pop drops the least.
func (h *genericHeap[T]) pop() {
	last := len(h.items) - 1
	h.items[0] = h.items[last]
	h.items = h.items[:last]
	h.down(0)
}

func (h *genericHeap[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			return
		}
		if right := child + 1; right < len(h.items) && h.less(h.items[right], h.items[child]) {
			child = right
		}
		if !h.less(h.items[child], h.items[i]) {
			return
		}
		h.items[i], h.items[child] = h.items[child], h.items[i]
		i = child
	}
}

type generic struct {
	feed
	heap genericHeap[item]
}

func newGeneric() *generic {
	return &generic{heap: genericHeap[item]{less: func(a, b item) bool { return a.key < b.key }}}
}

func (m *generic) Reset(l *Lists) {
	m.reset(l)
	m.heap.items = m.firsts(m.heap.items[:0])
	m.heap.init()
}

func (m *generic) Fill(dst []uint64) int {
	for i := range dst {
		if len(m.heap.items) == 0 {
			return i
		}
		top := &m.heap.items[0]
		dst[i] = top.key
		if key := m.take(top.id); key != none {
			top.key = key
			m.heap.down(0)
		} else {
			m.heap.pop()
		}
	}
	return len(dst)
}
