package main

import (
	"fmt"
	"time"
)

// timeFormat is RFC 3339 with all nanoseconds, so that times sort as text.
const timeFormat = "2006-01-02T15:04:05.000000000Z07:00"

func msDuration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }

func spanText(first, last uint64) string {
	if last == 0 {
		return "none"
	}
	return fmt.Sprintf("%d to %d", first, last)
}
