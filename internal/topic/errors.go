package topic

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// ErrTooMany is wrapped by Intern's error when the table is at a limit. The table is unchanged and every topic that it
// already holds goes on working.
var ErrTooMany = errors.New("too many topics")

// Rules that a name, a filter or a list of filters can break, as they stand in Error.Rule.
const (
	RuleEmpty       = "the name is empty"
	RuleTooLong     = "the name is longer than 512 bytes"
	RuleTooDeep     = "the name has more than 32 segments"
	RuleEmptySeg    = "a segment is empty"
	RuleUTF8        = "the name is not valid UTF-8"
	RuleControl     = "the name holds a control character"
	RuleReserved    = "a segment is * or **"
	RuleWildcard    = "a wildcard stands elsewhere than in a last /**"
	RuleNoFilters   = "the list of filters is empty"
	RuleManyFilters = "the list holds more than 1024 filters"
)

// Error says which rule a name or filter breaks and what to do about it. errors.As finds it.
type Error struct {
	Op   string // "validate topic", "parse filter" or "parse filters"
	Name string // the name or filter as it was given
	Rule string // one of the Rule constants
}

// Error gives the operation, the name (quoted, shortened to 64 bytes), the rule and the remedy.
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.Op, quote(e.Name), e.Rule, e.Help())
}

// Help says what the sender of the name can do.
func (e *Error) Help() string {
	switch e.Rule {
	case RuleEmpty:
		return "give at least one segment, or ** for everything in a filter"
	case RuleTooLong:
		return "shorten it, or move the varying part into a header"
	case RuleTooDeep:
		return "join some segments with a dot or a dash"
	case RuleEmptySeg:
		return "remove leading, trailing and doubled slashes"
	case RuleUTF8:
		return "encode it as UTF-8"
	case RuleControl:
		return "remove tabs, line breaks and other control characters"
	case RuleReserved:
		return "publish to a concrete topic; wildcards are for filters"
	case RuleWildcard:
		return "subscribe to a topic, to a/b/** or to **"
	case RuleNoFilters:
		return "give at least one; ** is everything"
	case RuleManyFilters:
		return "subscribe to a common subtree, or open another subscription"
	}
	return "see the naming rules"
}

// quotedBytes bounds the part of a name that an error message repeats.
const quotedBytes = 64

func quote(name string) string {
	if len(name) <= quotedBytes {
		return strconv.Quote(name)
	}
	cut := quotedBytes
	for cut > quotedBytes-utf8.UTFMax && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(name[:cut]), len(name))
}
