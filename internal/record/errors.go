package record

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrCorrupt is the family of all bytes that fail a check; errors.As finds the *CorruptError that says which.
	ErrCorrupt = errors.New("corrupt bytes")
	// ErrTooLarge says that a payload, a header block, a batch or a list of preconditions is over its limit. A
	// CorruptError is also this if the limit is the rule that it breaks.
	ErrTooLarge = errors.New("over the limit")
	// ErrBadHeader says that a header cannot be encoded: its key is empty, too long or not UTF-8.
	ErrBadHeader = errors.New("bad message header")
	// ErrBatchFull says that a record does not fit into what is left of the batch: finish it and begin another.
	ErrBatchFull = errors.New("batch is full")
)

// CorruptError says which rule the bytes of an object break and where. errors.Is(err, ErrCorrupt) holds.
type CorruptError struct {
	Object string // "run", "batch", "entry", "publish body"
	Offset int    // in bytes from the object's beginning
	Rule   string // what is wrong there
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("record: corrupt %s at byte %d: %s", e.Object, e.Offset, e.Rule)
}

// Is makes every CorruptError one of the ErrCorrupt family, and of ErrTooLarge if its rule is a limit.
func (e *CorruptError) Is(target error) bool {
	return target == ErrCorrupt || target == ErrTooLarge && strings.HasSuffix(e.Rule, overLimit)
}

// overLimit ends the rules that are limits.
const overLimit = "over the limit"

// corrupt returns nil if there is no rule.
func corrupt(object string, offset int, rule string) error {
	if rule == "" {
		return nil
	}
	return &CorruptError{Object: object, Offset: offset, Rule: rule}
}
