package topic

import (
	"slices"
	"strings"
)

// scope is a place in the tree where filters may find partitions.
type scope struct {
	path string // one or two segments
	wide bool   // a subtree filter of one segment: all partitions at and below path, else only the one that path names
	node ID     // Root: no such node when last looked
}

// newScopes gives the scopes of a normalised union other than "**".
func newScopes(fs Filters) []scope {
	scopes := make([]scope, len(fs))
	for i, f := range fs {
		scopes[i] = scope{path: PartitionOf(f.path), wide: f.subtree && segments(f.path) == 1}
	}
	// A wide scope is alone on its path, because a union holds a path once and what is below would be covered.
	slices.SortFunc(scopes, func(a, b scope) int { return strings.Compare(a.path, b.path) })
	return slices.CompactFunc(scopes, func(a, b scope) bool { return a.path == b.path })
}

// Partitions appends, in order, those of [from, Partitions()) whose coverage is not CoverNone, and returns the count of
// partitions seen, to be given as from the next time. A filter that names a partition or less costs a look-up and a
// filter of one segment a walk over its own new partitions; when fewer partitions are new than there are filters, each
// of the new ones is asked instead.
func (m *Matcher) Partitions(dst []PartitionID, from int) ([]PartitionID, int) {
	upTo := m.table.Partitions()
	if from >= upTo {
		return dst, upTo
	}
	if m.all || upTo-from <= len(m.scopes) {
		for p := PartitionID(from); p < PartitionID(upTo); p++ {
			if m.Coverage(p) != CoverNone {
				dst = append(dst, p)
			}
		}
		return dst, upTo
	}
	start := len(dst)
	for i := range m.scopes {
		dst = m.scopes[i].collect(dst, m.table, PartitionID(from), PartitionID(upTo))
	}
	slices.Sort(dst[start:])
	return dst, upTo
}

// collect appends the scope's partitions within [from, upTo).
func (s *scope) collect(dst []PartitionID, t *Table, from, upTo PartitionID) []PartitionID {
	if s.node == Root {
		s.node, _ = t.Lookup(s.path)
		if s.node == Root {
			return dst
		}
	}
	if p := t.Partition(s.node); p >= from && p < upTo {
		dst = append(dst, p)
	}
	if !s.wide {
		return dst
	}
	for c := range t.Children(s.node) {
		// Two-segment nodes get their partitions when they are made, so the youngest child has the highest.
		p := t.Partition(c)
		if p < from {
			break
		}
		if p < upTo {
			dst = append(dst, p)
		}
	}
	return dst
}
