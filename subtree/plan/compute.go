package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// DefaultBudget is how many stores a partition brings to the budget.
	DefaultBudget = 16
	// DefaultMaxStores is how many stores one partition may have: the most that a subtree read has to merge.
	DefaultMaxStores = 256

	// A previous plan stays while it costs at most 1/keepSlack more than a fresh one.
	keepSlack = 4
	// Before they are merged into stores, all partitions together have piecesPerStore times as many pieces as stores: more
	// bring the merge nearer to the optimum, and take more rules.
	piecesPerStore = 2
	// One partition has at most maxPieces, and at most mostPerStore for each of its stores: they bound the time of a merge and
	// the rules of a partition that stands alone with more budget than it can use.
	maxPieces    = 1024
	mostPerStore = 64
)

// Options say what may be spent.
type Options struct {
	// Budget is the number of stores that each partition brings, or as many as it has topics. 0: DefaultBudget.
	Budget int
	// Even keeps each partition to what it brings. Otherwise all partitions share the sum and stores go where they save
	// most, at most MaxStores to one partition.
	Even bool
	// MaxStores is the most that one partition may get of a shared budget, at most the constant MaxStores.
	// 0: DefaultMaxStores.
	MaxStores int
	// MinStoreBytes is a volume that is never split further: less is not worth a store.
	MinStoreBytes uint64
}

// Result is what Compute decided.
type Result struct {
	// Plans are those of all partitions that have more than one store, or had a plan before, in the order of partitions
	// in the table. Any other partition has the Default plan.
	Plans []*Plan
	// Kept is how many of Plans are previous ones, unchanged.
	Kept int
	// Stores is the number of stores of all partitions, those with the Default plan included.
	Stores int
	// Budget is the most that Stores could be.
	Budget int
}

// Compute plans all partitions of a table. previous are plans in force, at most one of a partition; those of partitions
// that the table does not know are dropped. The writer may go on meanwhile: Compute sees each topic's volume at some
// moment. It runs on the caller's goroutine, well under a second for a million topics, and takes about 60 bytes a node.
func Compute(t *topic.Table, previous []*Plan, o Options) (*Result, error) {
	o.Budget = cmp.Or(o.Budget, DefaultBudget)
	o.MaxStores = cmp.Or(o.MaxStores, DefaultMaxStores)
	if o.Budget < 1 || o.Budget > MaxStores || o.MaxStores < 1 || o.MaxStores > MaxStores {
		return nil, fmt.Errorf("plan: budget %d and most stores %d of a partition: want 1 to %d", o.Budget, o.MaxStores, MaxStores)
	}
	f := newForest(t)
	old, err := f.previous(previous)
	if err != nil {
		return nil, err
	}
	c := &computation{f: f, o: o, old: old, greedy: greedy{f: f}}
	c.share()
	for p := range f.roots {
		c.decide(p)
	}
	c.economise()
	return c.result()
}

// previous sorts plans by partition number.
func (f *forest) previous(plans []*Plan) (map[int]*Plan, error) {
	old := make(map[int]*Plan, len(plans))
	for _, p := range plans {
		node, ok := f.names.Lookup(p.partition)
		if !ok {
			continue
		}
		part := int(f.names.Partition(node))
		if part >= len(f.roots) || f.name(f.roots[part]) != p.partition {
			continue
		}
		if old[part] != nil {
			return nil, fmt.Errorf("plan: two previous plans for partition %s: keep the later one", p.partition)
		}
		old[part] = p
	}
	return old, nil
}

// computation is one call of Compute.
type computation struct {
	f      *forest
	o      Options
	old    map[int]*Plan
	greedy greedy

	budgets []int  // stores that partition p may have
	total   int    // stores of all partitions, at most
	fine    uint64 // the limit of pieces
	price   uint64 // what a store must save to be worth having: the limit that all partitions share, or 0 if they do not

	drafts []draft // of partitions that may have more than one store, or had a plan
	stores int     // of all partitions, by the drafts
}

// draft is the choice that one partition has.
type draft struct {
	part  int
	fresh [][]piece
	old   *Plan // nil: there is none
	keep  bool
}

func (d *draft) size() int {
	if d.keep {
		return d.old.Len()
	}
	return len(d.fresh)
}

// share finds how many stores each partition may have, and how fine the pieces are that they are merged from.
func (c *computation) share() {
	c.budgets = make([]int, len(c.f.roots))
	highest := uint64(0)
	for p, root := range c.f.roots {
		c.budgets[p] = max(1, min(c.o.Budget, int(c.f.topics[root])))
		c.total += c.budgets[p]
		highest = max(highest, cost(c.f.topics[root], c.f.weight[root]))
	}
	c.fine = search(gridStep(highest), c.total*piecesPerStore, func(l uint64) int { return c.countAll(l, maxPieces, nil) })
	if !c.o.Even {
		c.price = search(gridStep(highest), c.total, func(l uint64) int { return c.countAll(l, c.o.MaxStores, nil) })
		c.countAll(c.price, c.o.MaxStores, c.budgets)
		c.fine = min(c.fine, c.price) // large partitions may have taken most of the pieces
	}
}

// countAll sums the pieces of all partitions under one limit, at most most each, and notes them in counts unless that is
// nil.
func (c *computation) countAll(l uint64, most int, counts []int) (total int) {
	for p, root := range c.f.roots {
		n := 1
		if !c.limit(l).fits(c.f.topics[root], c.f.weight[root]) {
			n = min(c.greedy.run(root, c.limit(l), false), most)
		}
		if counts != nil {
			counts[p] = n
		}
		total += n
	}
	return total
}

func (c *computation) limit(l uint64) limit {
	return limit{cost: l, weight: c.o.MinStoreBytes >> c.f.shift}
}

// decide drafts the plan of partition p.
func (c *computation) decide(p int) {
	old := c.old[p]
	if old == nil && c.budgets[p] == 1 {
		c.stores++
		return
	}
	d := draft{part: p, fresh: c.fresh(p), old: old}
	d.keep = old != nil && c.worthKeeping(&d)
	c.stores += d.size()
	c.drafts = append(c.drafts, d)
}

// fresh clusters partition p from nothing: greedily into pieces, then the pieces into stores.
func (c *computation) fresh(p int) [][]piece {
	root, l := c.f.roots[p], c.fine
	most := min(maxPieces, mostPerStore*c.budgets[p])
	if c.greedy.run(root, c.limit(l), true) > most {
		l = search(gridStep(cost(c.f.topics[root], c.f.weight[root])), most, func(l uint64) int {
			return c.greedy.run(root, c.limit(l), false)
		})
		c.greedy.run(root, c.limit(l), true)
	}
	return mergePieces(c.greedy.pieces, c.budgets[p])
}

// worthKeeping holds the old plan against the fresh draft.
func (c *computation) worthKeeping(d *draft) bool {
	most := c.o.MaxStores
	if c.o.Even {
		most = c.budgets[d.part]
	}
	if d.old.Len() > most {
		return false
	}
	fresh := c.price * uint64(len(d.fresh))
	for _, pieces := range d.fresh {
		fresh += cost(sum(pieces))
	}
	old := c.price*uint64(d.old.Len()) + totalCost(c.f.volumes(c.f.roots[d.part], d.old))
	return old <= fresh+fresh/keepSlack
}

// economise gives up kept plans until all is within the budget, those first that would save most stores. Fresh drafts
// alone are within it.
func (c *computation) economise() {
	var kept []*draft
	for i := range c.drafts {
		if d := &c.drafts[i]; d.keep && d.old.Len() > len(d.fresh) {
			kept = append(kept, d)
		}
	}
	slices.SortStableFunc(kept, func(a, b *draft) int {
		return cmp.Compare(b.old.Len()-len(b.fresh), a.old.Len()-len(a.fresh))
	})
	for _, d := range kept {
		if c.stores <= c.total {
			return
		}
		c.stores -= d.old.Len() - len(d.fresh)
		d.keep = false
	}
}

func (c *computation) result() (*Result, error) {
	r := &Result{Stores: c.stores, Budget: c.total}
	for i := range c.drafts {
		d := &c.drafts[i]
		if d.keep {
			r.Kept++
			r.Plans = append(r.Plans, d.old)
			continue
		}
		if d.old == nil && len(d.fresh) == 1 {
			continue
		}
		p, err := c.finish(d)
		if err != nil {
			return nil, errors.Join(errors.New("plan: the planner broke its own rules"), err)
		}
		r.Plans = append(r.Plans, p)
	}
	return r, nil
}

// finish makes a plan of a fresh draft, with the old plan's ids where stores go on.
func (c *computation) finish(d *draft) (*Plan, error) {
	root := c.f.roots[d.part]
	s := newRuleset(c.f, root, d.fresh)
	ids := make([]uint32, len(d.fresh))
	for i := range ids {
		ids[i] = uint32(i)
	}
	p, err := s.plan(ids)
	if err != nil || d.old == nil {
		return p, err
	}
	return s.plan(c.f.inheritIDs(root, d.old, p))
}
