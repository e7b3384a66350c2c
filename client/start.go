package client

import (
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// Start says where a subscription begins. The zero value is First.
type Start struct {
	kind  wire.StartKind
	value uint64
}

// First begins with the oldest message that is kept.
func First() Start { return Start{} }

// Now begins with the first message that is published after Subscribe returned.
func Now() Start { return Start{kind: wire.StartNow} }

// Seq begins with the first matching message at or after seq. To resume, use Seq(position+1).
func Seq(seq uint64) Start { return Start{kind: wire.StartSeq, value: seq} }

// Time begins with the first matching message of this time or later.
func Time(t time.Time) Start {
	return Start{kind: wire.StartTime, value: uint64(max(t.UnixNano(), 0))}
}

// Ago begins with the first matching message that is at most d older than the newest message of the stream.
func Ago(d time.Duration) Start { return Start{kind: wire.StartAgo, value: uint64(max(d, 0))} }

// ParseStart reads a start as people write it: "first", "now", a seq, an RFC 3339 time, or "-5m".
func ParseStart(s string) (Start, error) {
	kind, value, err := wire.ParseStart(s)
	return Start{kind: kind, value: value}, err
}
