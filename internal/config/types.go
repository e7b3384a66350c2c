package config

import (
	"time"

	"github.com/cantus-bus/cantus/internal/units"
)

// Size is a number of bytes, written "64MiB". Never negative.
type Size int64

// UnmarshalText reads "64MiB".
func (s *Size) UnmarshalText(text []byte) error {
	n, err := units.ParseSize(string(text))
	*s = Size(n)
	return err
}

// MarshalText prints the size so that it reads back exactly.
func (s Size) MarshalText() ([]byte, error) { return []byte(units.ExactSize(int64(s))), nil }

// Count is a number of things, written "4M". Never negative.
type Count int64

// UnmarshalText reads "4M" or "4000000".
func (c *Count) UnmarshalText(text []byte) error {
	n, err := units.ParseCount(string(text))
	*c = Count(n)
	return err
}

// MarshalText prints the count so that it reads back exactly.
func (c Count) MarshalText() ([]byte, error) { return []byte(units.ExactCount(int64(c))), nil }

// Duration is a time span, written "5ms". Never negative.
type Duration time.Duration

// UnmarshalText reads "5ms".
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := units.ParseDuration(string(text))
	*d = Duration(v)
	return err
}

// MarshalText prints the duration so that it reads back exactly.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// Std is the duration as the standard library's.
func (d Duration) Std() time.Duration { return time.Duration(d) }
