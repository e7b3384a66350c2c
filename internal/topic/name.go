package topic

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

const (
	// MaxSegments is how many segments a topic may have.
	MaxSegments = 32
	// MaxBytes is how long a topic may be, slashes included.
	MaxBytes = 512
)

const opValidate = "validate topic"

// Validate returns nil for a valid topic, else an *Error that names the first rule broken: 1 to MaxSegments segments
// parted by slashes, 1 to MaxBytes bytes of UTF-8, no empty segment, no control character (Unicode category Cc), no
// segment equal to * or **. It allocates only for an error.
func Validate(name string) error {
	if rule := check(name); rule != "" {
		return &Error{Op: opValidate, Name: name, Rule: rule}
	}
	return nil
}

// ValidateBytes is Validate for bytes that the caller goes on to reuse: an error holds a copy.
func ValidateBytes(name []byte) error {
	if rule := check(view(name)); rule != "" {
		return &Error{Op: opValidate, Name: string(name), Rule: rule}
	}
	return nil
}

// check returns the rule that name breaks, "" if none.
func check(name string) string {
	switch {
	case name == "":
		return RuleEmpty
	case len(name) > MaxBytes:
		return RuleTooLong
	}
	ascii := true
	start, segments := 0, 1
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '/':
			if rule := checkSegment(name[start:i]); rule != "" {
				return rule
			}
			start, segments = i+1, segments+1
		case c < ' ' || c == 0x7f:
			return RuleControl
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if rule := checkSegment(name[start:]); rule != "" {
		return rule
	}
	if segments > MaxSegments {
		return RuleTooDeep
	}
	if ascii {
		return ""
	}
	return checkRunes(name)
}

func checkSegment(s string) string {
	switch s {
	case "":
		return RuleEmptySeg
	case "*", "**":
		return RuleReserved
	}
	return ""
}

// checkRunes judges what a single byte does not tell: the encoding, and the control characters U+0080 to U+009F.
func checkRunes(name string) string {
	if !utf8.ValidString(name) {
		return RuleUTF8
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return RuleControl
	}
	return ""
}

// PartitionOf returns the name of a valid topic's partition: its first two segments, or the whole of a topic that has
// only one. The result shares name's memory.
func PartitionOf(name string) string {
	first := strings.IndexByte(name, '/')
	if first < 0 {
		return name
	}
	second := strings.IndexByte(name[first+1:], '/')
	if second < 0 {
		return name
	}
	return name[:first+1+second]
}

// segments counts the segments of a path; the empty path (the root) has none.
func segments(path string) int {
	if path == "" {
		return 0
	}
	return strings.Count(path, "/") + 1
}

// nextEnd returns the end of the segment that begins at start: the index of the next slash, or len(path).
func nextEnd(path string, start int) int {
	if i := strings.IndexByte(path[start:], '/'); i >= 0 {
		return start + i
	}
	return len(path)
}

// view shows bytes as a string without a copy. The string must not outlive the bytes' present content.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
