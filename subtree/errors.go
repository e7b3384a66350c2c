package subtree

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt is the family of all files that fail a check; errors.As finds the *CorruptError that says which.
	ErrCorrupt = errors.New("corrupt history")
	// ErrOutOfOrder says that a window or a generation does not follow on what is there.
	ErrOutOfOrder = errors.New("out of order")
	// ErrTableBehind says that a file holds topics that the topic table does not know yet: the log is still being
	// replayed. Try again when it has passed the file's last seq.
	ErrTableBehind = errors.New("the topic table is behind history")
	// ErrNotFound says that no message answers a point read.
	ErrNotFound = errors.New("no such message")
	// ErrReceiving says that the same file is being received already.
	ErrReceiving = errors.New("the file is being received already")
	// ErrNewerVersion says that a newer program wrote the manifest. It comes in a CorruptError, though nothing is damaged.
	ErrNewerVersion = errors.New("start it with a newer version")
	// ErrClosed says that the Store was closed.
	ErrClosed = errors.New("history is closed")
)

// CorruptError says which file breaks which rule, and where. errors.Is(err, ErrCorrupt) holds.
type CorruptError struct {
	Op     string // "open", "read", "rewrite", "seal", "receive", "install", "scrub"
	File   string // name within the folder
	Offset int64  // in bytes from the file's beginning
	Rule   string // what is wrong there
	Err    error  // the system's error, if the bytes could not be read at all; ErrNewerVersion

	of *file // nil: not known, or not a file of history
}

func (e *CorruptError) Error() string {
	s := fmt.Sprintf("subtree: %s: corrupt file %s at byte %d: %s", e.Op, e.File, e.Offset, e.Rule)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Is makes every CorruptError one of the ErrCorrupt family.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// GoneError says that a position is older than history. errors.As.
type GoneError struct {
	Wanted uint64 // first seq not read yet
	Oldest uint64 // oldest seq in history
}

func (e *GoneError) Error() string {
	return fmt.Sprintf("subtree: read: seq %d has left history; its oldest is %d", e.Wanted, e.Oldest)
}
