// Package units reads and prints quantities the way people write them: sizes as "64MiB", counts as "4M", durations as
// "5ms", rates as "310k/s".
//
// It promises that what Format prints, Parse reads back to within the digits shown, and that every parse error quotes the
// text and shows a valid example. It knows nothing of what a quantity is for: limits and defaults are the caller's.
package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// ParseSize reads a number of bytes: "64MiB" (powers of 1024), "64MB" (powers of 1000), or a plain number of bytes.
// The result is between 0 and 2^63-1.
func ParseSize(text string) (int64, error) {
	n, err := humanize.ParseBytes(text)
	if err != nil || n > math.MaxInt64 || strings.HasPrefix(strings.TrimSpace(text), "-") {
		return 0, fmt.Errorf("%q is not a size: write a number with a unit, as in 64MiB or 1GiB", text)
	}
	return int64(n), nil
}

// Size prints bytes exactly when a power-of-1024 unit divides them, else with three digits: "64MiB", "1.21MiB", "17B".
func Size(n int64) string {
	if n < 0 {
		return "-" + Size(-n)
	}
	names := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(n), 0
	for value >= 1024 && unit < len(names)-1 {
		value /= 1024
		unit++
	}
	return short(value) + names[unit]
}

// ExactSize prints bytes so that ParseSize returns the same number: the largest unit that divides n.
func ExactSize(n int64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	unit := 0
	for n != 0 && n%1024 == 0 && unit < len(names)-1 {
		n /= 1024
		unit++
	}
	return strconv.FormatInt(n, 10) + names[unit]
}

// ParseCount reads a number of things: "4000000", "4_000_000", "4M", "250k", "1.5G" (powers of 1000).
func ParseCount(text string) (int64, error) {
	fail := fmt.Errorf("%q is not a count: write a whole number, as in 1000 or 250k or 4M", text)
	digits := strings.ReplaceAll(strings.TrimSpace(text), "_", "")
	factor := 1.0
	if n := len(digits); n > 0 {
		switch digits[n-1] {
		case 'k', 'K':
			factor = 1e3
		case 'M':
			factor = 1e6
		case 'G':
			factor = 1e9
		}
		if factor != 1 {
			digits = digits[:n-1]
		}
	}
	if factor == 1 {
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n < 0 {
			return 0, fail
		}
		return n, nil
	}
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil || value < 0 || value*factor > math.MaxInt64/2 || value*factor != math.Trunc(value*factor) {
		return 0, fail
	}
	return int64(value * factor), nil
}

// Count prints a number of things with three digits: "950", "12.3k", "4M".
func Count(n int64) string {
	if n < 0 {
		return "-" + Count(-n)
	}
	names := []string{"", "k", "M", "G", "T"}
	value, unit := float64(n), 0
	for value >= 1000 && unit < len(names)-1 {
		value /= 1000
		unit++
	}
	return short(value) + names[unit]
}

// ExactCount prints n so that ParseCount returns the same number.
func ExactCount(n int64) string {
	names := []string{"", "k", "M", "G"}
	unit := 0
	for n != 0 && n%1000 == 0 && unit < len(names)-1 {
		n /= 1000
		unit++
	}
	return strconv.FormatInt(n, 10) + names[unit]
}

// Rate prints things per second: "310k/s".
func Rate(perSecond float64) string {
	if perSecond < 10 {
		return short(perSecond) + "/s"
	}
	return Count(int64(perSecond)) + "/s"
}

// ParseDuration reads a time span with a unit: "5ms", "1.5s", "72h", and whole days "7d".
func ParseDuration(text string) (time.Duration, error) {
	trimmed := strings.TrimSpace(text)
	if days, ok := strings.CutSuffix(trimmed, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 0 && n < 100_000 {
			return time.Duration(n) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(trimmed)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration: write a number with a unit, as in 5ms, 2s or 7d", text)
	}
	return d, nil
}

// Millis prints a duration in milliseconds or seconds with three digits: "0.21ms", "14.2ms", "3.1s".
func Millis(d time.Duration) string {
	if d >= time.Second {
		return short(d.Seconds()) + "s"
	}
	return short(float64(d)/float64(time.Millisecond)) + "ms"
}

// Age prints a span in its largest unit of seconds, minutes, hours and days, whole: "42s", "3m", "5h", "12d".
func Age(d time.Duration) string {
	d = max(d, 0)
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= unit.length {
			return strconv.FormatInt(int64(d/unit.length), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(d/time.Second), 10) + "s"
}

// short prints three significant digits without trailing zeros.
func short(v float64) string {
	decimals := 0
	switch {
	case v < 10:
		decimals = 2
	case v < 100:
		decimals = 1
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	if decimals > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
