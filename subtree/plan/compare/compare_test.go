package compare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/subtree/plan"
)

var defaults = Options{Budget: plan.DefaultBudget, MaxStores: plan.DefaultMaxStores}

// recorded reads the large recorded stream, which is not part of the repository.
func recorded(tb testing.TB) []dataset.Row {
	r, err := dataset.Open("../../../../shared/data/gitstream.tsv.gz")
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("the recorded stream is not here")
	}
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	rows, err := dataset.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

func run(tb testing.TB, rows []dataset.Row, o Options, names ...string) map[string]Row {
	calls := 0
	list, err := Run(context.Background(), rows, names, o, func() { calls++ })
	if err != nil {
		tb.Fatal(err)
	}
	if calls != Steps(len(names)) || len(list) != len(names) {
		tb.Fatalf("%d steps, %d rows for %d algorithms", calls, len(list), len(names))
	}
	byName := map[string]Row{}
	for i, r := range list {
		if r.Algorithm != names[i] {
			tb.Fatalf("row %d is of %s, want %s", i, r.Algorithm, names[i])
		}
		byName[r.Algorithm] = r
	}
	return byName
}

// TestRecordedStream holds the planner to its bar, and the measure to figures that another program found.
func TestRecordedStream(t *testing.T) {
	stream := recorded(t)
	fresh := func(name string) Row {
		r := Row{Algorithm: name}
		if err := measureFresh(context.Background(), stream, defaults, &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	best := fresh(Optimum)
	if best.Stores != 2231 || fmt.Sprintf("%.1f", best.Amplification) != "270.0" {
		t.Errorf("optimum: %+v", best)
	}
	if r := fresh(ThreeSegments); r.Stores != 2607 || fmt.Sprintf("%.1f", r.Amplification) != "4634.4" {
		t.Errorf("three segments: %+v", r)
	}
	for name, amplification := range map[string]float64{AdaptiveEven: 350, Adaptive: 30} {
		r := fresh(name)
		if r.Amplification > amplification || r.Stores > best.Stores {
			t.Errorf("%s: %+v", name, r)
		}
		if r.AllReads > best.AllReads {
			t.Errorf("%s: subtrees included, amplification is %f; the optimum without regard to the tree has %f", name, r.AllReads, best.AllReads)
		}
	}
	r := Row{Algorithm: Adaptive}
	if err := measureDays(context.Background(), stream, defaults, &r); err != nil {
		t.Fatal(err)
	}
	if r.Churn > 0.01 || r.FollowedAmplification > 30 {
		t.Errorf("followed day by day: %+v", r)
	}
}

func sampleRows(tb testing.TB) []dataset.Row {
	r, err := dataset.OpenSample()
	if err != nil {
		tb.Fatal(err)
	}
	rows, err := dataset.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return rows
}

func TestSampleStream(t *testing.T) {
	stream := sampleRows(t)
	rows := run(t, stream, Options{Budget: 8, MaxStores: 64}, Names()...)
	if a, three := rows[Adaptive], rows[ThreeSegments]; a.Amplification*10 > three.Amplification || a.Rules == 0 || a.PlanBytes < a.Rules {
		t.Errorf("adaptive %+v, three segments %+v", a, three)
	}
	for better, worse := range map[string]string{
		Optimum: AdaptiveEven, OptimumShared: Adaptive, AdaptiveEven: Hash, Adaptive: AdaptiveEven, PerTopic: OptimumShared,
	} {
		if rows[better].ReadCost > rows[worse].ReadCost {
			t.Errorf("%s costs %d, %s %d", better, rows[better].ReadCost, worse, rows[worse].ReadCost)
		}
	}
	half := len(stream) / 2
	for stream[half].Seconds == stream[half-1].Seconds {
		half++
	}
	for name, r := range run(t, slices.Concat(stream[half:], stream[:half]), Options{Budget: 8, MaxStores: 64}, ThreeSegments, Adaptive) {
		if want := rows[name]; r.Measures != want.Measures || r.Churn != want.Churn || r.PlanBytes != want.PlanBytes {
			t.Errorf("with the halves exchanged: %+v, want %+v", r, want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	stream := sampleRows(t)[:100]
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for _, c := range []struct {
		name, want string
		ctx        context.Context
		rows       []dataset.Row
		algorithm  string
		o          Options
	}{
		{"no rows", "no messages", context.Background(), nil, Adaptive, defaults},
		{"an unknown name", `unknown algorithm "magic": there are three-segments, hash`, context.Background(), stream, "magic", defaults},
		{"no budget", "want both from 1 to 1024", context.Background(), stream, Adaptive, Options{MaxStores: 1}},
		{"a bad topic", "row 7: validate topic", context.Background(), []dataset.Row{{Number: 7, Topic: []byte("a//b")}}, Hash, defaults},
		{"an end", "context canceled", cancelled, stream, Adaptive, defaults},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(c.ctx, c.rows, []string{c.algorithm}, c.o, func() {})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if err := CheckNames(Names()); err != nil {
		t.Error(err)
	}
	if err := CheckNames([]string{Hash, "magic"}); err == nil {
		t.Error("magic is a name")
	}
}
