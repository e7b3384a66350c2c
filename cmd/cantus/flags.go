package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/pflag"
)

// ranged is a flag whose values have bounds. A value beyond them is a command used wrongly, as one that does not parse is, so it is
// refused where flags are read, whether it came from the command line or the environment.
type ranged[T cmp.Ordered] struct {
	pflag.Value // of *to
	to          *T
	least, most T
}

func (r ranged[T]) Set(text string) error {
	before := *r.to
	if err := r.Value.Set(text); err != nil {
		return err
	}
	if got := *r.to; !(got >= r.least && got <= r.most) { // NaN is neither
		*r.to = before
		return fmt.Errorf("want %v to %v", r.least, r.most)
	}
	return nil
}

// bounded marks flags that have bounds.
func (ranged[T]) bounded() {}

// bound gives a flag that is defined already bounds, and its help a word of them.
func bound[T cmp.Ordered](f *pflag.FlagSet, name string, to *T, least, most T) {
	flag := f.Lookup(name)
	flag.Value = ranged[T]{flag.Value, to, least, most}
	flag.Usage += fmt.Sprintf(" (%v to %v)", least, most)
}

// Bounds of times that commands wait. No time at all is never meant: everything would fail, each time with other words.
const (
	leastTime = time.Millisecond
	mostTime  = 24 * time.Hour
)
