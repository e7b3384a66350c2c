package profile

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/record"
)

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"messages 0":              func(c *Config) { c.Messages = 0 },
		"size -1":                 func(c *Config) { c.Size = -1 },
		"no partitions":           func(c *Config) { c.Partitions = nil },
		"partitions 0":            func(c *Config) { c.Partitions = []int{10, 0} },
		"readers 0":               func(c *Config) { c.Readers = []int{0} },
		"0 selectivities":         func(c *Config) { c.Selectivities = nil },
		"selectivity 1.5":         func(c *Config) { c.Selectivities = []float64{1.5} },
		"selectivity 0 ":          func(c *Config) { c.Selectivities = []float64{0.5, 0} },
		`no heap "bogus"`:         func(c *Config) { c.Heaps = []string{"bogus"} },
		"repeat 0":                func(c *Config) { c.Repeat = 0 },
		"time of a measurement":   func(c *Config) { c.MinTime = -1 },
		"at most 68719476736 are": func(c *Config) { c.Messages, c.Size = MaxMessages, 1000 },
	} {
		c := Default()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c := Default()
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}

func TestParseInterleave(t *testing.T) {
	for _, s := range []string{"random", "round-robin", "1", "64"} {
		if i, err := ParseInterleave(s); err != nil || i.String() != s {
			t.Errorf("%q: %v, %v", s, i, err)
		}
	}
	for _, s := range []string{"", "Random", "0", "-1", "1.5", "99999999999"} {
		if _, err := ParseInterleave(s); err == nil {
			t.Errorf("%q was taken", s)
		}
	}
}

func TestStreams(t *testing.T) {
	take := func(s *stream, n int) (list []int) {
		for range n {
			list = append(list, s.next())
		}
		return list
	}
	for i, p := range take(newStream(Interleave{kind: roundRobin}, 7), 30) {
		if p != i%7 {
			t.Fatalf("round-robin: message %d is of partition %d", i, p)
		}
	}
	list := take(newStream(Interleave{runs, 4}, 1000), 400)
	for i, p := range list {
		if p != list[i-i%4] {
			t.Fatalf("runs of 4: message %d is of partition %d, its run of %d", i, p, list[i-i%4])
		}
	}
	whole, skipped := take(newStream(Interleave{}, 9), 100), newStream(Interleave{}, 9)
	skipped.skip(40)
	for i, p := range take(skipped, 60) {
		if p != whole[40+i] {
			t.Fatalf("after a skip message %d is of partition %d, without of %d", 40+i, p, whole[40+i])
		}
	}
}

// TestShape holds the layout of rings to its invariant.
func TestShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Messages: rapid.IntRange(1, 1<<22).Draw(t, "messages"), Size: rapid.IntRange(0, 1<<17).Draw(t, "size")}
		s, size := c.shape(), record.PaddedSize(nil, c.Size)
		perChunk := s.chunkBytes / (s.run * size) * s.run
		if s.chunkBytes&(s.chunkBytes-1) != 0 || s.run < 1 || perChunk < 1 || s.messages != s.chunks*perChunk || s.messages < c.Messages {
			t.Fatalf("%+v: %+v", c, s)
		}
	})
}

// TestChoose counts what a selection must hold in a stream where that is known.
func TestChoose(t *testing.T) {
	c := Default()
	c.Messages, c.Interleave, c.Selectivities = 1000, Interleave{kind: roundRobin}, []float64{0.001, 0.3, 1}
	tip, err := newTips(&c, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer tip.close()
	for partitions, filters := range map[int]int{1: 1, 3: 2, 10: 3} {
		sel, err := tip.choose(partitions)
		if err != nil || sel.messages != 100*partitions || len(sel.filters) != filters {
			t.Errorf("%d partitions: %d messages, filters %v, %v", partitions, sel.messages, sel.filters, err)
		}
	}
}
