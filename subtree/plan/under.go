package plan

import (
	"slices"
	"strings"
)

// Under appends to dst the stores that may hold topics at or below a path, each once, ascending, and returns it: all of
// them if the path is above the partition or "", none if it is beside it. Any topic there, known or not, is in one of
// them; one or another may hold none yet.
func (p *Plan) Under(dst []int, path string) []int {
	switch {
	case path == "" || within(p.partition, path):
		for i := range p.ids {
			dst = append(dst, i)
		}
		return dst
	case !holds(p.partition, path):
		return dst
	}
	start := len(dst)
	i, _ := slices.BinarySearchFunc(p.rules, path, func(r Rule, path string) int { return comparePaths(r.Path, path) })
	if i == len(p.rules) || p.rules[i].Path != path || p.rules[i].Kind == Exact {
		dst = append(dst, p.inherited(path))
	}
	// A slash sorts before other bytes, so that what is below the path follows it without a gap.
	for ; i < len(p.rules) && within(p.rules[i].Path, path); i++ {
		dst = append(dst, p.rules[i].Stores...)
	}
	slices.Sort(dst[start:])
	return append(dst[:start], slices.Compact(dst[start:])...)
}

// within says whether a path is, or is below, another.
func within(path, above string) bool {
	return strings.HasPrefix(path, above) && (len(path) == len(above) || path[len(above)] == '/')
}
