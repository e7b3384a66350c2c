package topic

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strings"
)

// item is a candidate row of a page: 16 bytes.
type item struct {
	key   uint64 // lower comes first
	id    ID
	group uint32 // index of the listing's group
}

// selector keeps what can still be on the page [offset, offset+limit) of a sorted run of items, in a buffer of at most
// twice offset+limit: when it is full, a quickselect halves it. So n items cost O(n) comparisons and only the page is
// sorted.
type selector struct {
	names  *Table // compares names when keys are equal; nil: ids decide
	offset int
	keep   int // offset+limit; invariant: items dropped are not among the first keep
	total  int
	items  []item
	worst  item // valid when full: keep items at least as good are in items
	full   bool
}

// minSelectorBuffer spares small pages frequent halving.
const minSelectorBuffer = 1024

func newSelector(names *Table, offset, limit int) selector {
	offset = max(offset, 0)
	keep := math.MaxInt
	if limit > 0 && offset < math.MaxInt-limit {
		keep = offset + limit
	}
	return selector{names: names, offset: offset, keep: keep}
}

func (s *selector) compare(a, b item) int {
	if c := cmp.Compare(a.key, b.key); c != 0 {
		return c
	}
	if s.names != nil {
		return strings.Compare(s.names.Name(a.id), s.names.Name(b.id))
	}
	return cmp.Compare(a.id, b.id)
}

func (s *selector) offer(it item) {
	s.total++
	if s.full && s.compare(it, s.worst) >= 0 {
		return
	}
	s.items = append(s.items, it)
	if len(s.items) >= minSelectorBuffer && len(s.items)/2 >= s.keep {
		s.split(s.items, s.keep)
		s.items = s.items[:s.keep]
		s.worst = slices.MaxFunc(s.items, s.compare)
		s.full = true
	}
}

// finish returns the page in order.
func (s *selector) finish() []item {
	rest := s.items
	if s.offset >= len(rest) {
		return nil
	}
	s.split(rest, s.offset)
	rest = rest[s.offset:]
	if limit := s.keep - s.offset; limit < len(rest) {
		s.split(rest, limit)
		rest = rest[:limit]
	}
	slices.SortFunc(rest, s.compare)
	return rest
}

// split moves the k lowest items to the front: Hoare's quickselect with the median of three as pivot, which gives way to
// a sort when an unlucky order makes it slow (Musser's introselect).
func (s *selector) split(items []item, k int) {
	for rounds := 2 * bits.Len(uint(len(items))); 0 < k && k < len(items); rounds-- {
		if rounds == 0 {
			slices.SortFunc(items, s.compare)
			return
		}
		i, j := s.partition(items)
		switch {
		case k <= j+1:
			items = items[:j+1]
		case k >= i:
			items, k = items[i:], k-i
		default:
			return
		}
	}
}

// partition rearranges items so that [0, j] are not above, and [i, len) not below, what lies between; j < i.
func (s *selector) partition(items []item) (i, j int) {
	pivot := s.median(items[0], items[len(items)/2], items[len(items)-1])
	i, j = 0, len(items)-1
	for i <= j {
		for s.compare(items[i], pivot) < 0 {
			i++
		}
		for s.compare(items[j], pivot) > 0 {
			j--
		}
		if i <= j {
			items[i], items[j] = items[j], items[i]
			i++
			j--
		}
	}
	return i, j
}

func (s *selector) median(a, b, c item) item {
	if s.compare(a, b) > 0 {
		a, b = b, a
	}
	if s.compare(b, c) > 0 {
		b = c
	}
	if s.compare(a, b) > 0 {
		return a
	}
	return b
}
