package topic

import "strings"

const (
	everything    = "**"
	subtreeSuffix = "/**"
	opParse       = "parse filter"
)

// Filter is a topic, or a subtree: "a/b/**" is the topic a/b itself and all below it, "**" is everything. Filters are
// made by ParseFilter; the zero Filter matches no topic.
type Filter struct {
	path    string // a valid topic; "" only for "**" and the zero Filter
	subtree bool
}

// ParseFilter reads a filter. Its path obeys the rules of Validate. An error is an *Error.
func ParseFilter(s string) (Filter, error) {
	if s == everything {
		return Filter{subtree: true}, nil
	}
	path, subtree := strings.CutSuffix(s, subtreeSuffix)
	rule := check(path)
	switch {
	case rule == RuleReserved:
		rule = RuleWildcard
	case rule == RuleEmpty && subtree:
		rule = RuleEmptySeg
	}
	if rule != "" {
		return Filter{}, &Error{Op: opParse, Name: s, Rule: rule}
	}
	return Filter{path: path, subtree: subtree}, nil
}

// String is what ParseFilter reads.
func (f Filter) String() string {
	switch {
	case !f.subtree:
		return f.path
	case f.path == "":
		return everything
	}
	return f.path + subtreeSuffix
}

// Path is the topic, or the root of the subtree: "" for "**".
func (f Filter) Path() string { return f.path }

// Subtree tells whether topics below Path match too.
func (f Filter) Subtree() bool { return f.subtree }

// Match tells whether a topic matches. It does not allocate.
func (f Filter) Match(name string) bool {
	if !f.subtree {
		return name == f.path && name != ""
	}
	return f.path == "" || within(name, f.path)
}

// Covers tells whether f matches every topic that g matches.
func (f Filter) Covers(g Filter) bool {
	if !f.subtree {
		return f == g
	}
	return f.path == "" || within(g.path, f.path)
}

// within tells whether path is root or below it. root is not empty.
func within(path, root string) bool {
	return strings.HasPrefix(path, root) && (len(path) == len(root) || path[len(root)] == '/')
}
