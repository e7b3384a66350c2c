package profile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/tipstore/heapbench"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// small is a config that is measured at once.
func small() Config {
	c := Default()
	c.Messages, c.Partitions, c.Readers, c.Selectivities = 3000, []int{7, 50}, []int{1, 3}, []float64{0.1, 1}
	c.Heaps, c.Repeat, c.MinTime = []string{heapbench.Baseline, heapbench.Shipped}, 1, 0
	return c
}

func TestRun(t *testing.T) {
	for _, interleave := range []string{"random", "round-robin", "16"} {
		t.Run(interleave, func(t *testing.T) {
			c := small()
			var err error
			if c.Interleave, err = ParseInterleave(interleave); err != nil {
				t.Fatal(err)
			}
			steps := 0
			rows, err := Run(t.Context(), c, func() { steps++ })
			if err != nil {
				t.Fatal(err)
			}
			if steps != c.Steps() || len(rows) != c.Steps()-len(c.Partitions) {
				t.Errorf("%d rows, %d steps of %d", len(rows), steps, c.Steps())
			}
			for group := range slices.Chunk(rows, 5) {
				checkGroup(t, &c, group)
			}
		})
	}
}

// checkGroup checks the rows of one selection and one count of readers.
func checkGroup(t *testing.T, c *Config, group []Row) {
	t.Helper()
	first := group[0]
	var ways []string
	for _, r := range group {
		ways = append(ways, r.Method+" "+r.Heap)
		if r.Partitions != first.Partitions || r.Readers != first.Readers || r.Selectivity != first.Selectivity || r.Messages != first.Messages {
			t.Errorf("%+v stands beside %+v", r, first)
		}
		if r.NsPerMessage <= 0 || r.CPUSeconds <= 0 || r.WallSeconds <= 0 || r.MBPerS <= 0 || r.IndexUsedBytesPerMessage < 4 ||
			r.IndexBytesPerMessage < r.IndexUsedBytesPerMessage {
			t.Errorf("a figure is missing: %+v", r)
		}
		if len(r.BlocksFull) != 1+turns || r.Size != c.Size || r.Interleave != c.Interleave.String() {
			t.Errorf("%+v", r)
		}
	}
	if want := []string{"index loser", "linear none", "chosen loser", "merge container-fix", "merge loser"}; !slices.Equal(ways, want) {
		t.Errorf("measured %q, want %q", ways, want)
	}
	all := int64(c.Messages * first.Readers)
	if first.Selectivity == 1 && first.Messages != all || first.Selectivity < 1 && (first.Messages == 0 || first.Messages > all/2) {
		t.Errorf("%d messages of %d at selectivity %v", first.Messages, all, first.Selectivity)
	}
}

// TestMethodsReadAsTheySay: the forced merge merges, the store without an index cannot.
func TestMethodsReadAsTheySay(t *testing.T) {
	c := small()
	tip, err := newTips(&c, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer tip.close()
	if err := tip.fill(t.Context()); err != nil {
		t.Fatal(err)
	}
	sel, err := tip.choose(50)
	if err != nil {
		t.Fatal(err)
	}
	r := &runner{Config: c, progress: func() {}}
	for _, k := range r.kinds(tip, sel)[:2] {
		tip.indexed.MergeAlways(k.force)
		if _, err := measure(t.Context(), sel, k.reader, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	if s := tip.indexed.Stats(); s.IndexReads == 0 || s.LinearReads != 0 {
		t.Errorf("the forced merge made %d passes by index and %d linear ones", s.IndexReads, s.LinearReads)
	}
	if s := tip.plain.Stats(); s.IndexReads != 0 || s.LinearReads == 0 {
		t.Errorf("without an index there were %d passes by index and %d linear ones", s.IndexReads, s.LinearReads)
	}
}

// TestWrongCountIsAnError: a pass that returns less than there is must not become a figure.
func TestWrongCountIsAnError(t *testing.T) {
	lossy := func() (pass, error) { return func(context.Context) (int, error) { return 9, nil }, nil }
	if _, err := measure(t.Context(), selection{messages: 10}, lossy, 2, 0); err == nil || !strings.Contains(err.Error(), "18 messages; there are 20") {
		t.Errorf("error %v", err)
	}
}

func TestCancel(t *testing.T) {
	c := small()
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	rows, err := Run(ctx, c, func() {
		if steps++; steps == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || rows != nil || steps != 3 {
		t.Errorf("%d rows, %d steps, error %v", len(rows), steps, err)
	}
}

func TestMedian(t *testing.T) {
	costs := []cost{{5, 1}, {9, 2}, {1, 3}}
	if m := median(costs); m != (cost{5, 1}) {
		t.Errorf("median %v", m)
	}
	if costs[0] != (cost{5, 1}) {
		t.Error("the measurements were put in another order")
	}
}

func TestCPUTimeGoesOn(t *testing.T) {
	began, err := cpuTime()
	for deadline := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(deadline); {
		now, failed := cpuTime()
		if err = failed; now > began {
			return
		}
	}
	t.Errorf("processor time stands still: %v", err)
}
