package heapbench

import "container/heap"

// boxed is a heap for container/heap.
type boxed []item

func (h boxed) Len() int           { return len(h) }
func (h boxed) Less(i, j int) bool { return h[i].key < h[j].key }
func (h boxed) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *boxed) Push(x any)        { *h = append(*h, x.(item)) }
func (h *boxed) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// containerPush uses container/heap as its documentation shows: Pop the least, Push the list's next. Both box the item.
type containerPush struct {
	feed
	heap boxed
}

func (m *containerPush) Reset(l *Lists) {
	m.reset(l)
	m.heap = m.firsts(m.heap[:0])
	heap.Init(&m.heap)
}

func (m *containerPush) Fill(dst []uint64) int {
	for i := range dst {
		if len(m.heap) == 0 {
			return i
		}
		top := heap.Pop(&m.heap).(item)
		dst[i] = top.key
		if key := m.take(top.id); key != none {
			heap.Push(&m.heap, item{key, top.id})
		}
	}
	return len(dst)
}

// containerFix uses container/heap at its best: the least is replaced in place, then Fix. Nothing is boxed; comparisons
// and swaps are calls through an interface.
type containerFix struct {
	feed
	heap boxed
}

func (m *containerFix) Reset(l *Lists) {
	m.reset(l)
	m.heap = m.firsts(m.heap[:0])
	heap.Init(&m.heap)
}

func (m *containerFix) Fill(dst []uint64) int {
	for i := range dst {
		if len(m.heap) == 0 {
			return i
		}
		top := &m.heap[0]
		dst[i] = top.key
		if key := m.take(top.id); key != none {
			top.key = key
			heap.Fix(&m.heap, 0)
		} else {
			heap.Pop(&m.heap)
		}
	}
	return len(dst)
}
