package compare

import (
	"cmp"
	"container/heap"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree/plan/cluster"
)

// optimum finds the least read cost that any plan can have. A plan may name single topics, so any grouping of a
// partition's topics is a plan, and the best grouping is the best cut of the topics by volume into runs, which
// cluster.Runs finds exactly. It takes no account of what is beside what in the tree.
//
// With a shared budget, stores go one by one to the partition that saves most by its next one. That is exact as well,
// because a partition's savings never grow.
type optimum struct {
	budget int // stores that each partition brings
	most   int // stores of one partition
	shared bool
	yards  []*yard   // as decided
	before *grouping // for the names of stores
}

// yard is one partition.
type yard struct {
	topics []topic.ID // by volume, the largest first
	runs   *cluster.Runs
	stores int // that it was given. Invariant: 1 <= stores <= runs.Len()
}

// saving is what one store more saves. It is solved when it is asked for.
func (y *yard) saving() uint64 {
	if y.runs.Len() == y.stores {
		y.runs.Grow()
	}
	return y.runs.Cost(y.stores) - y.runs.Cost(y.stores+1)
}

func (o *optimum) decide(t *topic.Table) error {
	o.survey(t)
	o.spend()
	return nil
}

func (o *optimum) group(t *topic.Table) *grouping {
	store := make([]uint64, t.Nodes())
	n := uint64(0)
	for _, y := range o.yards {
		cut := y.runs.Cut(y.stores)
		for i, start := range cut[:len(cut)-1] {
			for _, id := range y.topics[start:cut[i+1]] {
				store[id] = n
			}
			n++
		}
	}
	g := newGrouping(t, func(id topic.ID) uint64 { return store[id] })
	if o.before != nil {
		g.follow(t, o.before)
	}
	o.before = g
	return g
}

// survey sorts the topics of each partition.
func (o *optimum) survey(t *topic.Table) {
	yards := make([]*yard, t.Partitions())
	for i := range yards {
		yards[i] = &yard{}
	}
	bytes := make([]uint64, t.Nodes())
	for i := range bytes {
		if id := topic.ID(i); t.IsTopic(id) {
			y := yards[t.Partition(id)]
			y.topics = append(y.topics, id)
			_, bytes[i], _ = t.Stats(id)
		}
	}
	for _, y := range yards {
		slices.SortFunc(y.topics, func(a, b topic.ID) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
		items := make([]cluster.Item, len(y.topics))
		for i, id := range y.topics {
			items[i] = cluster.Item{Topics: 1, Weight: bytes[id]}
		}
		y.runs, y.stores = cluster.NewRuns(items), 1
	}
	o.yards = yards
}

// spend hands the stores out.
func (o *optimum) spend() {
	left := 0
	for _, y := range o.yards {
		own := min(o.budget, len(y.topics))
		if left += own - 1; !o.shared {
			for y.stores < own {
				y.saving()
				y.stores++
			}
		}
	}
	if !o.shared {
		return
	}
	queue := &bySaving{}
	for _, y := range o.yards {
		o.offer(queue, y)
	}
	for ; left > 0 && queue.Len() > 0; left-- {
		y := heap.Pop(queue).(bid).yard
		y.stores++
		o.offer(queue, y)
	}
}

// offer adds a partition to the queue if it can take a store and save something.
func (o *optimum) offer(queue *bySaving, y *yard) {
	if y.stores < min(o.most, len(y.topics)) {
		if saving := y.saving(); saving > 0 {
			heap.Push(queue, bid{y, saving})
		}
	}
}

// bid is what a partition would save by its next store.
type bid struct {
	yard   *yard
	saving uint64
}

// bySaving is a heap with the greatest saving first; the partition's first topic decides between equals.
type bySaving []bid

func (q bySaving) Len() int { return len(q) }
func (q bySaving) Less(i, j int) bool {
	if q[i].saving != q[j].saving {
		return q[i].saving > q[j].saving
	}
	return q[i].yard.topics[0] < q[j].yard.topics[0]
}
func (q bySaving) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *bySaving) Push(x any)   { *q = append(*q, x.(bid)) }
func (q *bySaving) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
