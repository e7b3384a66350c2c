package cluster

import (
	"slices"

	"github.com/cantus-bus/cantus/subtree"
)

// span is files of history that are adjacent.
type span []subtree.Meta

// runFor picks the shortest run of a listing's files that covers the windows from from to to and can take its place among own: where
// it begins a file of own's ends, and where it ends one begins, unless own has nothing further out there. Both lists are adjacent
// files in order. ok is false if there is no such run.
func runFor(own, listing span, from, to uint64) (run span, ok bool) {
	i := listing.at(from)
	j := listing.at(to)
	if from > to || i < 0 || j < 0 {
		return nil, false
	}
	for i > 0 && !own.endsBefore(&listing[i]) {
		i--
	}
	for j < len(listing)-1 && !own.beginsAfter(&listing[j]) {
		j++
	}
	if !own.endsBefore(&listing[i]) || !own.beginsAfter(&listing[j]) {
		return nil, false
	}
	return listing[i : j+1], true
}

// at is the place of the file that holds a window, -1 if none does.
func (s span) at(window uint64) int {
	return slices.IndexFunc(s, func(m subtree.Meta) bool { return m.FirstWindow <= window && window <= m.LastWindow })
}

// endsBefore tells whether what s has before m ends exactly where m begins, or s has nothing there.
func (s span) endsBefore(m *subtree.Meta) bool {
	if len(s) == 0 || s[0].FirstWindow >= m.FirstWindow {
		return true
	}
	return slices.ContainsFunc(s, func(o subtree.Meta) bool { return o.LastWindow+1 == m.FirstWindow && o.LastSeq+1 == m.FirstSeq })
}

// beginsAfter tells whether what s has after m begins exactly where m ends, or s has nothing there.
func (s span) beginsAfter(m *subtree.Meta) bool {
	if len(s) == 0 || s[len(s)-1].LastWindow <= m.LastWindow {
		return true
	}
	return slices.ContainsFunc(s, func(o subtree.Meta) bool { return o.FirstWindow == m.LastWindow+1 && o.FirstSeq == m.LastSeq+1 })
}

// firstGap is the first window from from to to that no file covers for which good holds; 0 if there is none.
func (s span) firstGap(from, to uint64, good func(*subtree.Meta) bool) uint64 {
	for i := range s {
		if m := &s[i]; good(m) && m.FirstWindow <= from && from <= m.LastWindow {
			from = m.LastWindow + 1
		}
	}
	if from > to {
		return 0
	}
	return from
}

// adjacent tells whether each file follows on the one before.
func (s span) adjacent() bool {
	for i := 1; i < len(s); i++ {
		if s[i].FirstWindow != s[i-1].LastWindow+1 || s[i].FirstSeq != s[i-1].LastSeq+1 {
			return false
		}
	}
	return true
}

// filesToGet is what a node must have out of a leader's listing, so that its history has all windows up to to: own files that are whole
// count, whatever files the leader has in their place, since each node comes to the same files by itself. It may name files that
// the node has. ok is false if the listing does not go as far.
func filesToGet(own, listing span, good func(*subtree.Meta) bool, to uint64) (run span, ok bool) {
	if to == 0 {
		return nil, true
	}
	last := listing.at(to)
	if last < 0 || !listing.adjacent() {
		return nil, false
	}
	from := own.firstGap(listing[0].FirstWindow, to, good)
	if from == 0 {
		return nil, true
	}
	if run, ok = runFor(own, listing, from, to); ok {
		return run, true
	}
	return listing[:last+1], true
}
