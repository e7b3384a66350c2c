package tipstore

import (
	"math"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// published wakes who waits for the records from position from to the head. The fence has moved: a reader that armed and
// then read without seeing the new fence is found armed here. Writer only.
func (x *watches) published(s *Store, from uint64) {
	nodes := x.table.Nodes()
	x.settle(nodes)
	if x.count.Load() == 0 {
		return
	}
	x.visits.begin(nodes)
	_, tail := s.ring.tail.load()
	shift := s.ring.shift
	for pos := max(from, tail); pos < s.ring.head; {
		number := pos >> shift
		chunk := s.ring.find(number)
		off, end := int(pos-number<<shift), int(chunk.end.Load())
		for off < end {
			rec := chunk.mem[off:end]
			x.touch(topic.ID(record.Record(rec).Topic()))
			off += record.Scan(rec)
		}
		pos = (number + 1) << shift
	}
}

// settle moves filters that waited for nodes which exist by now. Only if some wait is the lock taken; whoever comes later
// finds the nodes by itself.
func (x *watches) settle(nodes int) {
	from := x.seen
	x.seen = nodes
	if from == nodes || x.waiting.Load() == 0 {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for id := topic.ID(from); int(id) < nodes && len(x.mu.pending) > 0; id++ {
		x.settleLocked(x.table.Name(id), id)
	}
}

// touch wakes the watches of a topic that was published to, once per publish: its own, and those of the subtrees it is in.
func (x *watches) touch(id topic.ID) {
	exact, subtree := x.visits.topic(id)
	if exact {
		if n := x.at(id); n != nil {
			x.wake(n.exact.Load())
		}
	}
	for subtree {
		if n := x.at(id); n != nil {
			x.wake(n.subtree.Load())
		}
		if id == 0 {
			return
		}
		id = x.table.Parent(id)
		subtree = x.visits.above(id)
	}
}

func (x *watches) wake(list *[]*Watch) {
	if list == nil {
		return
	}
	for _, w := range *list {
		if w.fire() {
			x.wakes.Add(1)
		}
	}
}

// visits remembers which nodes a publish has been at, so that a node's lists are walked once however many records and
// topics lead to it. A stamp is 2*epoch, plus 1 if the node was visited as a topic.
//
// Invariant: stamps are below 2*epoch+2; a node stamped with the epoch has all nodes above it stamped too.
type visits struct {
	epoch  uint32
	stamps []uint32
}

// begin starts a publish in a tree with that many nodes.
func (v *visits) begin(nodes int) {
	if n := nodes - len(v.stamps); n > 0 {
		v.stamps = append(v.stamps, make([]uint32, n)...)
	}
	if v.epoch == math.MaxUint32/2 {
		clear(v.stamps)
		v.epoch = 0
	}
	v.epoch++
}

// topic stamps a topic that was published to and says which lists to walk from it.
func (v *visits) topic(id topic.ID) (exact, subtree bool) {
	old := v.stamps[id]
	v.stamps[id] = 2*v.epoch + 1
	return old != 2*v.epoch+1, old < 2*v.epoch
}

// above stamps a node above and says whether it is new.
func (v *visits) above(id topic.ID) bool {
	if v.stamps[id] >= 2*v.epoch {
		return false
	}
	v.stamps[id] = 2 * v.epoch
	return true
}
