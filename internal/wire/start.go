package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseStart reads a start position as people write it: "first" (the oldest message kept), "now", a seq ("1042"), an
// RFC 3339 time, or a span back from now ("-5m"). The value goes with the kind, as in Subscribe.
func ParseStart(s string) (StartKind, uint64, error) {
	switch s {
	case "first", "":
		return StartFirst, 0, nil
	case "now":
		return StartNow, 0, nil
	}
	if seq, err := strconv.ParseUint(s, 10, 64); err == nil {
		return StartSeq, seq, nil
	}
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		if d, err := time.ParseDuration(rest); err == nil && d >= 0 {
			return StartAgo, uint64(d), nil
		}
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil && t.UnixNano() >= 0 {
		return StartTime, uint64(t.UnixNano()), nil
	}
	return 0, 0, fmt.Errorf("start position %q: want first, now, a seq such as 1042, a time such as 2026-01-31T12:00:00Z, or a span back such as -5m", s)
}
