package topic

import (
	"slices"
	"strconv"
	"strings"
)

// MaxFilters is how many filters one list may hold before it is normalised.
const MaxFilters = 1024

const opParseList = "parse filters"

// Filters is a union of filters, normalised: sorted by path, and without members that another covers. Make it with
// ParseFilters or NewFilters; the methods rely on the order. It is not changed after it was made.
type Filters []Filter

// ParseFilters reads a union of 1 to MaxFilters filters. An error is an *Error and concerns the first bad one.
func ParseFilters(list []string) (Filters, error) {
	if err := checkCount(len(list)); err != nil {
		return nil, err
	}
	parsed := make([]Filter, len(list))
	for i, s := range list {
		f, err := ParseFilter(s)
		if err != nil {
			return nil, err
		}
		parsed[i] = f
	}
	return normalise(parsed), nil
}

// NewFilters makes the union of 1 to MaxFilters parsed filters. It refuses the zero Filter.
func NewFilters(list ...Filter) (Filters, error) {
	if err := checkCount(len(list)); err != nil {
		return nil, err
	}
	if slices.Contains(list, Filter{}) {
		return nil, &Error{Op: opParseList, Rule: RuleEmpty}
	}
	return normalise(slices.Clone(list)), nil
}

func checkCount(n int) error {
	switch {
	case n == 0:
		return &Error{Op: opParseList, Rule: RuleNoFilters}
	case n > MaxFilters:
		return &Error{Op: opParseList, Name: strconv.Itoa(n) + " filters", Rule: RuleManyFilters}
	}
	return nil
}

// normalise sorts and drops what is covered. It keeps list's memory.
func normalise(list []Filter) Filters {
	slices.SortFunc(list, func(a, b Filter) int {
		if c := strings.Compare(a.path, b.path); c != 0 {
			return c
		}
		switch {
		case a.subtree == b.subtree:
			return 0
		case a.subtree:
			return -1
		}
		return 1
	})
	// Of two filters with one path the subtree now stands first and covers the other.
	list = slices.CompactFunc(list, func(a, b Filter) bool { return a.path == b.path })
	sorted := Filters(slices.Clone(list))
	return slices.DeleteFunc(list, func(f Filter) bool { return sorted.coveredAbove(f.path) })
}

// coveredAbove tells whether a subtree filter stands strictly above path.
func (fs Filters) coveredAbove(path string) bool {
	if path == "" || len(fs) == 0 {
		return false
	}
	if fs[0] == (Filter{subtree: true}) {
		return true
	}
	for end := nextEnd(path, 0); end < len(path); end = nextEnd(path, end+1) {
		if i, ok := fs.find(path[:end]); ok && fs[i].subtree {
			return true
		}
	}
	return false
}

// Everything tells whether the union is "**".
func (fs Filters) Everything() bool { return len(fs) == 1 && fs[0] == (Filter{subtree: true}) }

// linearFilters is the length up to which asking one after the other beats searching.
const linearFilters = 4

// Match tells whether any filter matches a topic. It costs a binary search per segment and does not allocate.
func (fs Filters) Match(name string) bool {
	if len(fs) <= linearFilters {
		for _, f := range fs {
			if f.Match(name) {
				return true
			}
		}
		return false
	}
	if _, ok := fs.find(name); ok {
		return true
	}
	return fs.coveredAbove(name)
}

// Strings lists the filters as ParseFilters reads them.
func (fs Filters) Strings() []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.String()
	}
	return out
}

// find is a binary search for a path.
func (fs Filters) find(path string) (int, bool) {
	return slices.BinarySearchFunc(fs, path, func(f Filter, p string) int { return strings.Compare(f.path, p) })
}

// anyBelow tells whether a filter's path is strictly below path.
func (fs Filters) anyBelow(path string) bool {
	i, _ := slices.BinarySearchFunc(fs, path, func(f Filter, p string) int { return compareBelow(f.path, p) })
	return i < len(fs) && len(fs[i].path) > len(path) && within(fs[i].path, path)
}

// compareBelow compares a with b+"/" without building it.
func compareBelow(a, b string) int {
	if len(a) <= len(b) {
		if c := strings.Compare(a, b); c != 0 {
			return c
		}
		return -1
	}
	if c := strings.Compare(a[:len(b)], b); c != 0 {
		return c
	}
	return strings.Compare(a[len(b):], "/")
}
