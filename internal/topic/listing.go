package topic

import (
	"encoding/binary"
	"math"
)

// listing is one call of List under way.
type listing struct {
	table  *Table
	base   ID     // node of the filter's path
	nodes  uint32 // nodes that take part: [base, nodes)
	sort   string
	weight func(ID) float64 // nil: sort decides
	prefix int              // bytes that all names share
	level  int              // depth of the rows; 0: the topics themselves
	groups []group
	picked selector
}

// group is a row of a listing with a level: a node and what lies at and below it.
type group struct {
	id              ID
	messages, bytes uint64
	lastSeq         uint64
}

// A mark says where a node stands: outside the filter, inside it but above the level, or mark-firstGroup is the index
// of its group.
type mark = uint32

const (
	outside mark = iota
	inside
	firstGroup
)

func newListing(t *Table, base ID, nodes uint32, o ListOptions) *listing {
	l := &listing{table: t, base: base, nodes: nodes, sort: o.Sort, weight: o.Weight, prefix: len(t.Name(base))}
	var names *Table
	switch {
	case o.Weight != nil:
		l.sort = ""
	case o.Sort == SortBytes, o.Sort == SortMessages, o.Sort == SortRecent:
	default:
		l.sort, names = SortName, t
	}
	l.picked = newSelector(names, o.Offset, o.Limit)
	return l
}

// passShare: a subtree is walked node by node, each a cache miss or two, if it is smaller than one in passShare of the
// table; else a pass over all rows in order is cheaper.
const passShare = 16

func (l *listing) walk() {
	span := int(l.nodes) - int(l.base)
	switch below := l.table.TopicsBelow(l.base); {
	case l.base == Root && l.level == 0:
		for id := ID(1); id < ID(l.nodes); id++ {
			l.enter(id, inside)
		}
	case below < span/passShare:
		l.descend()
	default:
		l.pass(span)
	}
}

// pass goes through all rows from base on. A parent comes before its children, so its mark is known.
func (l *listing) pass(span int) {
	marks := make([]mark, span)
	marks[0] = l.enter(l.base, inside)
	for i := 1; i < span; i++ {
		id := l.base + ID(i)
		parent := l.table.row(id).parent
		if parent < l.base {
			continue
		}
		if m := marks[parent-l.base]; m != outside {
			marks[i] = l.enter(id, m)
		}
	}
}

// descend goes down from base along the children.
func (l *listing) descend() {
	type step struct {
		id   ID
		mark mark // of the parent
	}
	stack := []step{{l.base, inside}}
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		m := l.enter(top.id, top.mark)
		for c := range l.table.Children(top.id) {
			if uint32(c) < l.nodes {
				stack = append(stack, step{c, m})
			}
		}
	}
}

// enter takes a node whose parent has the given mark into account and returns the node's own.
func (l *listing) enter(id ID, parent mark) mark {
	r := l.table.row(id)
	if l.level == 0 {
		if r.topic.Load() != 0 {
			l.offer(id, 0, group{id, r.messages.Load(), r.bytes.Load(), r.lastSeq.Load()})
		}
		return inside
	}
	if int(r.depth) == l.level {
		parent = firstGroup + mark(len(l.groups))
		l.groups = append(l.groups, group{id: id})
	}
	if parent >= firstGroup {
		g := &l.groups[parent-firstGroup]
		g.messages += r.messages.Load()
		g.bytes += r.bytes.Load()
		g.lastSeq = max(g.lastSeq, r.lastSeq.Load())
	}
	return parent
}

func (l *listing) offerGroups() {
	for i, g := range l.groups {
		l.offer(g.id, uint32(i), g)
	}
}

func (l *listing) offer(id ID, at uint32, g group) {
	it := item{id: id, group: at}
	if l.weight != nil {
		it.key = ^math.Float64bits(l.weight(id)) // bits of numbers that are not negative compare as they do
		l.picked.offer(it)
		return
	}
	switch l.sort {
	case SortBytes:
		it.key = ^g.bytes
	case SortMessages:
		it.key = ^g.messages
	case SortRecent:
		it.key = ^g.lastSeq
	default:
		it.key = nameKey(l.table.Name(id)[l.prefix:])
	}
	l.picked.offer(it)
}

// nameKey is the first 8 bytes of a name as a number that compares as they do. Names hold no zero byte.
func nameKey(name string) uint64 {
	var b [8]byte
	copy(b[:], name)
	return binary.BigEndian.Uint64(b[:])
}

// page makes rows of what was picked.
func (l *listing) page() []Volume {
	items := l.picked.finish()
	page := make([]Volume, len(items))
	for i, it := range items {
		page[i] = l.volume(it)
	}
	return page
}

func (l *listing) volume(it item) Volume {
	r := l.table.row(it.id)
	v := Volume{
		ID:       it.id,
		Topic:    l.table.Name(it.id),
		IsTopic:  r.topic.Load() != 0,
		Children: int(r.children.Load()),
		Topics:   int(r.topics.Load()),
	}
	if l.level > 0 {
		g := l.groups[it.group]
		v.Messages, v.Bytes, v.LastSeq = g.messages, g.bytes, g.lastSeq
		return v
	}
	v.Messages, v.Bytes, v.LastSeq = l.table.Stats(it.id)
	// The page shows the value it was sorted by, though the writer may have moved on.
	switch l.sort {
	case SortBytes:
		v.Bytes = ^it.key
	case SortMessages:
		v.Messages = ^it.key
	case SortRecent:
		v.LastSeq = ^it.key
	}
	return v
}
