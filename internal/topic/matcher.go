package topic

// Coverage says how much of a partition a matcher takes.
type Coverage uint8

const (
	// CoverNone: no topic of the partition can ever match.
	CoverNone Coverage = iota
	// CoverSome: a topic of the partition can match, another may not.
	CoverSome
	// CoverAll: every topic of the partition matches, those to come too.
	CoverAll
)

// String is "none", "some" or "all".
func (c Coverage) String() string { return [...]string{"none", "some", "all"}[c] }

// Matcher evaluates filters over the ids of a table. A verdict depends on the name alone, so it is computed once and
// kept, two bits an id, in pages that exist only for ids that were asked about. The table may grow meanwhile.
// One goroutine at a time uses a Matcher.
type Matcher struct {
	table   *Table
	filters Filters
	all     bool     // filters is "**"; nothing else is filled in then
	ids     verdicts // unknown, none or some
	parts   verdicts // a partition's coverage
	scopes  []scope  // where filters may find partitions, ordered by path, without repeats
}

// NewMatcher makes a matcher of a normalised union, which must not change afterwards.
func NewMatcher(t *Table, fs Filters) *Matcher {
	m := &Matcher{table: t, filters: fs, all: fs.Everything()}
	if !m.all {
		m.scopes = newScopes(fs)
	}
	return m
}

// Filters is the union that the matcher evaluates.
func (m *Matcher) Filters() Filters { return m.filters }

// Everything tells whether every topic matches ("**").
func (m *Matcher) Everything() bool { return m.all }

// Match tells whether a node's path matches.
func (m *Matcher) Match(id ID) bool {
	if m.all {
		return true
	}
	if v := m.ids.get(uint32(id)); v != unknown {
		return v == some
	}
	return m.decide(id)
}

// decide computes and keeps an id's verdict. Most ids lie in a partition that is taken or left as a whole; only for the
// others is the name read.
func (m *Matcher) decide(id ID) bool {
	matches := false
	switch p := m.table.Partition(id); {
	case p == NoPartition:
		matches = m.filters.Match(m.table.Name(id))
	default:
		coverage := m.Coverage(p)
		matches = coverage == CoverAll || coverage == CoverSome && m.filters.Match(m.table.Name(id))
	}
	if matches {
		m.ids.set(uint32(id), some)
	} else {
		m.ids.set(uint32(id), none)
	}
	return matches
}

// Coverage tells how much of a partition matches. Like a match it never changes.
func (m *Matcher) Coverage(p PartitionID) Coverage {
	if m.all {
		return CoverAll
	}
	if v := m.parts.get(uint32(p)); v != unknown {
		return Coverage(v - none)
	}
	c := m.cover(p)
	m.parts.set(uint32(p), none+verdict(c))
	return c
}

func (m *Matcher) cover(p PartitionID) Coverage {
	node := m.table.PartitionNode(p)
	path := m.table.Name(node)
	at, exact := m.filters.find(path)
	switch {
	case exact && m.filters[at].subtree, m.filters.coveredAbove(path):
		return CoverAll
	case m.table.Depth(node) == 1:
		// The partition of a one-segment topic holds that topic only; what lies below has partitions of its own.
		if exact {
			return CoverAll
		}
		return CoverNone
	case exact, m.filters.anyBelow(path):
		return CoverSome
	}
	return CoverNone
}
