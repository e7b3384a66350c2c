package plan

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// MaxStores is how many stores a plan may have.
	MaxStores = 1024
	// MaxRules is how many rules a plan may have. Compute stays far below (see maxListed).
	MaxRules = 1 << 18
	// MaxID is the highest store id.
	MaxID = 1<<31 - 1
)

// ErrInvalid is wrapped by the errors of New and Decode: the rules do not make a plan, or the bytes do not make rules.
var ErrInvalid = errors.New("invalid split plan")

// Kind says which topics a rule is for.
type Kind uint8

const (
	// Exact is the topic of that path alone, not what is below.
	Exact Kind = iota
	// Subtree is the topic of that path and all below.
	Subtree
	// Spread is as Subtree, but over several stores: a hash of the segment that follows the path picks one, so that all
	// below one child stay together. The topic of the path itself goes to the first store.
	Spread

	kinds = 3
)

// String names the kind.
func (k Kind) String() string {
	if k < kinds {
		return [...]string{"exact", "subtree", "spread"}[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Rule sends topics to a store. Of all rules for a topic the one with the longest path wins, Exact before the others.
type Rule struct {
	Path   string
	Kind   Kind
	Stores []int // indexes into the plan's stores: one, or for Spread two or more (a store may stand there repeatedly)
}

// String is the rule as a filter, and for a spread rule in how many parts.
func (r Rule) String() string {
	switch r.Kind {
	case Exact:
		return r.Path
	case Subtree:
		return r.Path + "/**"
	default:
		return fmt.Sprintf("%s/** in %d parts", r.Path, len(r.Stores))
	}
}

// Plan is one partition's split plan. It is immutable and safe for concurrent use.
type Plan struct {
	partition string
	// Invariant: 1 to MaxStores, strictly ascending. A store keeps its id from plan to plan while most of its bytes stay.
	ids []uint32
	// Invariant: sorted by compareRules without equals; paths lie in the partition; the first one is a Subtree or Spread
	// rule for the partition's own path, so that no topic is without a rule; every store is named by a rule.
	rules []Rule
	index index
}

// New checks and makes a plan: ids of its stores in ascending order, rules in any order. The slices become the plan's.
func New(partition string, ids []uint32, rules []Rule) (*Plan, error) {
	slices.SortFunc(rules, compareRules)
	p := &Plan{partition: partition, ids: ids, rules: rules}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%w for partition %.80q: %w", ErrInvalid, partition, err)
	}
	p.index = newIndex(partition, rules)
	return p, nil
}

// Default is the plan of a partition that nobody has planned: one store, with id 0, for all of it.
func Default(partition string) *Plan {
	p, err := New(partition, []uint32{0}, []Rule{{Path: partition, Kind: Subtree, Stores: []int{0}}})
	if err != nil {
		panic(err) // the caller's partition is no partition
	}
	return p
}

// Partition is the path that all topics of this plan begin with.
func (p *Plan) Partition() string { return p.partition }

// Len is the number of stores.
func (p *Plan) Len() int { return len(p.ids) }

// ID is the lasting id of the store at an index below Len.
func (p *Plan) ID(store int) uint32 { return p.ids[store] }

// Rules lists the rules, by path. Not to be changed.
func (p *Plan) Rules() []Rule { return p.rules }

// RulesOf lists the rules that send topics to one store, as filters (see Rule.String).
func (p *Plan) RulesOf(store int) (list []string) {
	for _, r := range p.rules {
		if slices.Contains(r.Stores, store) {
			list = append(list, r.String())
		}
	}
	return list
}

// compareRules orders by path, segment by segment, so that a path comes right before what is below it; then by kind,
// Exact last.
func compareRules(a, b Rule) int {
	if c := comparePaths(a.Path, b.Path); c != 0 {
		return c
	}
	return cmp.Compare((a.Kind+kinds-1)%kinds, (b.Kind+kinds-1)%kinds)
}

// comparePaths orders bytewise, a slash before any other byte.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if x, y := a[i], b[i]; x != y {
			switch {
			case x == '/':
				return -1
			case y == '/':
				return 1
			}
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(len(a), len(b))
}

func (p *Plan) check() error {
	if err := topic.Validate(p.partition); err != nil {
		return err
	}
	switch {
	case topic.PartitionOf(p.partition) != p.partition:
		return errors.New("a partition has one or two segments")
	case len(p.ids) == 0 || len(p.ids) > MaxStores:
		return fmt.Errorf("%d stores, want 1 to %d", len(p.ids), MaxStores)
	case len(p.rules) == 0 || len(p.rules) > MaxRules:
		return fmt.Errorf("%d rules, want 1 to %d", len(p.rules), MaxRules)
	case p.rules[0].Path != p.partition || p.rules[0].Kind == Exact:
		return errors.New("no rule for the whole partition")
	}
	for i, id := range p.ids {
		if id > MaxID || i > 0 && id <= p.ids[i-1] {
			return fmt.Errorf("store id %d is out of order or above %d", id, MaxID)
		}
	}
	return p.checkRules()
}

func (p *Plan) checkRules() error {
	named := make([]bool, len(p.ids))
	for i, r := range p.rules {
		if err := p.checkRule(r); err != nil {
			return fmt.Errorf("rule %d: %w", i, err)
		}
		if i > 0 && !before(p.rules[i-1], r) {
			return fmt.Errorf("rule %d: a second rule for the same topics as %.80q", i, r)
		}
		for _, s := range r.Stores {
			named[s] = true
		}
	}
	if s := slices.Index(named, false); s >= 0 {
		return fmt.Errorf("no rule names store %d", s)
	}
	return nil
}

// before says whether b may follow a: at a later path, or as an Exact rule beside a wider one.
func before(a, b Rule) bool {
	if c := comparePaths(a.Path, b.Path); c != 0 {
		return c < 0
	}
	return a.Kind != Exact && b.Kind == Exact
}

func (p *Plan) checkRule(r Rule) error {
	if err := topic.Validate(r.Path); err != nil {
		return err
	}
	switch {
	case !holds(p.partition, r.Path):
		return fmt.Errorf("path %.80q is outside the partition", r.Path)
	case r.Kind >= kinds:
		return fmt.Errorf("unknown kind %d", r.Kind)
	case r.Kind == Spread && (len(r.Stores) < 2 || len(r.Stores) > MaxStores):
		return fmt.Errorf("spread over %d stores, want 2 to %d", len(r.Stores), MaxStores)
	case r.Kind != Spread && len(r.Stores) != 1:
		return fmt.Errorf("%d stores, want one", len(r.Stores))
	}
	for _, s := range r.Stores {
		if s < 0 || s >= len(p.ids) {
			return fmt.Errorf("store %d of %d", s, len(p.ids))
		}
	}
	return nil
}

// holds says whether a valid topic lies in a partition; one of a single segment has no other.
func holds(partition, name string) bool {
	return within(name, partition) && (len(name) == len(partition) || strings.IndexByte(partition, '/') >= 0)
}
