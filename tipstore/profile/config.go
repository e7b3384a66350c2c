package profile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/tipstore/heapbench"
)

// Bounds of a Config.
const (
	MaxMessages   = 1 << 28
	MaxPartitions = 1 << 20
	MaxReaders    = 10_000
	MaxRingBytes  = 1 << 36
	MaxShares     = 60 // selectivities: each takes a filter
)

// Config says what to measure: every combination of Partitions, Selectivities and Readers, by every method.
type Config struct {
	Messages      int        // that a reader has missed, at least 1
	Size          int        // payload bytes of each
	Partitions    []int      // topic partitions, one topic in each
	Interleave    Interleave // how messages of the partitions follow each other
	Readers       []int      // that read at the same time
	Selectivities []float64  // share of the partitions that a reader wants, above 0 and up to 1; at least one partition
	Heaps         []string   // of heapbench, for the pure merge; may be empty
	Repeat        int        // measurements of each kind, of which the median counts; odd
	MinTime       time.Duration
}

// Default is what `cantus bench tip` measures when told nothing else.
func Default() Config {
	return Config{
		Messages: 1_000_000, Size: 32, Partitions: []int{1000}, Interleave: Interleave{kind: random}, Readers: []int{1},
		Selectivities: []float64{0.01, 0.1, 0.5, 1}, Heaps: heapbench.Names(), Repeat: 3, MinTime: 20 * time.Millisecond,
	}
}

// Validate says what is wrong with the config, all of it.
func (c *Config) Validate() error {
	errs := []error{
		inRange("messages", c.Messages, 1, MaxMessages),
		inRange("size", c.Size, 0, record.MaxPayload),
		inRange("repeat", c.Repeat, 1, 1000),
		each("partitions", c.Partitions, MaxPartitions),
		each("readers", c.Readers, MaxReaders),
		c.checkSelectivities(),
	}
	if c.MinTime < 0 {
		errs = append(errs, errors.New("profile: the least time of a measurement is negative"))
	}
	if bytes := c.Messages * record.PaddedSize(nil, max(c.Size, 0)); bytes > MaxRingBytes {
		errs = append(errs, fmt.Errorf("profile: messages take %d bytes of ring; at most %d are measured", bytes, MaxRingBytes))
	}
	for _, name := range c.Heaps {
		if _, err := heapbench.New(name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (c *Config) checkSelectivities() error {
	if n := len(c.Selectivities); n < 1 || n > MaxShares {
		return fmt.Errorf("profile: %d selectivities; 1 to %d can be measured at once", n, MaxShares)
	}
	for _, s := range c.Selectivities {
		if !(s > 0 && s <= 1) {
			return fmt.Errorf("profile: selectivity %v is not a share above 0 and up to 1", s)
		}
	}
	return nil
}

func inRange(what string, n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("profile: %s %d is not between %d and %d", what, n, least, most)
	}
	return nil
}

func each(what string, list []int, most int) error {
	if len(list) == 0 {
		return fmt.Errorf("profile: no %s; give at least one number", what)
	}
	for _, n := range list {
		if err := inRange(what, n, 1, most); err != nil {
			return err
		}
	}
	return nil
}

// wanted is how many of the partitions a selectivity means.
func wanted(selectivity float64, partitions int) int {
	return min(max(int(selectivity*float64(partitions)+0.5), 1), partitions)
}

// classes are the distinct counts of wanted partitions, ascending, and partitions at the end.
func (c *Config) classes(partitions int) []int {
	list := []int{partitions}
	for _, s := range c.Selectivities {
		list = append(list, wanted(s, partitions))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// Interleave says how messages of the partitions follow each other. The zero value draws each one's partition.
type Interleave struct {
	kind   kind
	length int // of a run, for runs
}

type kind uint8

const (
	random kind = iota
	roundRobin
	runs
)

// ParseInterleave reads "random", "round-robin", or a number: that many messages of a partition drawn at random.
func ParseInterleave(s string) (Interleave, error) {
	switch s {
	case "random":
		return Interleave{kind: random}, nil
	case "round-robin":
		return Interleave{kind: roundRobin}, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > MaxMessages {
		return Interleave{}, fmt.Errorf("profile: interleave %q is neither random nor round-robin nor a length of runs such as 16", s)
	}
	return Interleave{runs, n}, nil
}

// String is what ParseInterleave reads.
func (i Interleave) String() string {
	switch i.kind {
	case random:
		return "random"
	case roundRobin:
		return "round-robin"
	}
	return strconv.Itoa(i.length)
}
