package subtree

// queue is a binary heap of sources by the seq that each has next, kept flat: no interface, no pointer.
type queue struct {
	items []queued
}

type queued struct {
	key uint64
	src uint32
}

// end is a key above every seq.
const end = ^uint64(0)

func (q *queue) empty() bool { return len(q.items) == 0 }

// init makes a heap of items in any order.
func (q *queue) init() {
	for i := len(q.items)/2 - 1; i >= 0; i-- {
		q.down(i)
	}
}

// second is the smallest key but the first's; end if there is none.
func (q *queue) second() uint64 {
	switch len(q.items) {
	case 0, 1:
		return end
	case 2:
		return q.items[1].key
	}
	return min(q.items[1].key, q.items[2].key)
}

// replace gives the first item another key, not below its old one.
func (q *queue) replace(key uint64) {
	q.items[0].key = key
	q.down(0)
}

// pop removes the first item.
func (q *queue) pop() {
	n := len(q.items) - 1
	q.items[0] = q.items[n]
	q.items = q.items[:n]
	if n > 1 {
		q.down(0)
	}
}

func (q *queue) down(i int) {
	items := q.items
	x := items[i]
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
