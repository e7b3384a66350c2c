package compare

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree/plan"
)

// Names of the algorithms. README and scripts know them.
const (
	Adaptive      = "adaptive"       // what ships: package plan with a shared budget
	AdaptiveEven  = "adaptive-even"  // package plan, each partition kept to its own budget
	ThreeSegments = "three-segments" // the first three segments are the store; a topic with fewer has its own
	Hash          = "hash"           // a hash of the topic, one bucket for each store of the budget
	PerTopic      = "per-topic"      // a store for each topic
	Optimum       = "optimum"        // the least amplification that any plan can have with that many stores to each partition
	OptimumShared = "optimum-shared" // the same with a shared budget
)

// Names lists the algorithms in the order of their rows.
func Names() []string {
	return []string{ThreeSegments, Hash, AdaptiveEven, Adaptive, Optimum, OptimumShared, PerTopic}
}

// Options are what an algorithm may spend; see plan.Options.
type Options struct {
	Budget        int
	MaxStores     int
	MinStoreBytes uint64
}

// Validate says what is wrong with the options.
func (o Options) Validate() error {
	if o.Budget < 1 || o.Budget > plan.MaxStores || o.MaxStores < 1 || o.MaxStores > plan.MaxStores {
		return fmt.Errorf("budget %d, at most %d stores to a partition: want both from 1 to %d", o.Budget, o.MaxStores, plan.MaxStores)
	}
	return nil
}

// algorithm groups the topics of a growing table again and again; some remember what they did before.
type algorithm interface {
	// decide is the planning, which is timed.
	decide(t *topic.Table) error
	// group tells what was decided.
	group(t *topic.Table) *grouping
}

// byKey is an algorithm that knows a topic's store from its name alone.
type byKey func(t *topic.Table, id topic.ID) uint64

func (f byKey) decide(*topic.Table) error { return nil }

func (f byKey) group(t *topic.Table) *grouping {
	return newGrouping(t, func(id topic.ID) uint64 { return f(t, id) })
}

// newAlgorithm makes an algorithm without a past.
func newAlgorithm(name string, o Options) (algorithm, error) {
	switch name {
	case Adaptive, AdaptiveEven:
		return &planner{options: plan.Options{
			Budget: o.Budget, MaxStores: o.MaxStores, MinStoreBytes: o.MinStoreBytes, Even: name == AdaptiveEven,
		}}, nil
	case ThreeSegments:
		return byKey(threeSegments), nil
	case Hash:
		return byKey(func(t *topic.Table, id topic.ID) uint64 {
			h := fnv.New64a()
			h.Write([]byte(t.Name(id)))
			return uint64(t.Partition(id))<<32 | h.Sum64()%uint64(o.Budget)
		}), nil
	case PerTopic:
		return byKey(func(_ *topic.Table, id topic.ID) uint64 { return uint64(id) }), nil
	case Optimum:
		return &optimum{budget: o.Budget, most: o.Budget}, nil
	case OptimumShared:
		return &optimum{budget: o.Budget, most: o.MaxStores, shared: true}, nil
	}
	return nil, fmt.Errorf("unknown algorithm %.40q: there are %s", name, strings.Join(Names(), ", "))
}

// CheckNames says what is wrong with a list of names.
func CheckNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			_, err := newAlgorithm(name, Options{})
			return err
		}
	}
	return nil
}

// threeSegments is the node of a topic's first three segments. A topic with fewer has no topic of three segments in its
// store, so its own node is a name that nobody else has.
func threeSegments(t *topic.Table, id topic.ID) uint64 {
	for t.Depth(id) > 3 {
		id = t.Parent(id)
	}
	return uint64(id)
}

// planner runs package plan; it has the plans in force.
type planner struct {
	options plan.Options
	plans   []*plan.Plan
}

func (p *planner) decide(t *topic.Table) error {
	r, err := plan.Compute(t, p.plans, p.options)
	if err != nil {
		return err
	}
	p.plans = r.Plans
	return nil
}

func (p *planner) group(t *topic.Table) *grouping {
	byPartition := make([]*plan.Plan, t.Partitions())
	for _, pl := range p.plans {
		if node, ok := t.Lookup(pl.Partition()); ok {
			byPartition[t.Partition(node)] = pl
		}
	}
	return newGrouping(t, func(id topic.ID) uint64 {
		part := t.Partition(id)
		key := uint64(part) << 32
		if pl := byPartition[part]; pl != nil {
			key |= uint64(pl.ID(pl.StoreOf(t.Name(id))))
		}
		return key
	})
}

// size is how many rules the plans have, and their bytes in the log.
func (p *planner) size() (rules, bytes int) {
	var buf []byte
	for _, pl := range p.plans {
		rules += len(pl.Rules())
		buf = pl.Append(buf[:0])
		bytes += len(buf)
	}
	return rules, bytes
}
