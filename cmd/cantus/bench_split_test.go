package main

import (
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/subtree/plan/compare"
)

const splitSample = "../../internal/dataset/sample.tsv.gz"

func TestBenchSplitJSON(t *testing.T) {
	r := must(t, cantus(t, nil, "bench", "split", splitSample, "--budget", "4", "--json"))
	got := decode[struct{ Rows []compare.Row }](t, r)
	if len(got.Rows) != len(compare.Names()) {
		t.Fatalf("%d rows, want %d", len(got.Rows), len(compare.Names()))
	}
	byName := map[string]compare.Row{}
	for _, row := range got.Rows {
		byName[row.Algorithm] = row
	}
	if a, three := byName["adaptive"], byName["three-segments"]; a.Stores == 0 || a.ReadCost == 0 || a.Amplification >= three.Amplification {
		t.Errorf("adaptive %+v, three segments %+v", a, three)
	}
	for _, name := range []string{"algorithm", "stores", "read_cost", "amplification", "max_store_bytes", "plan_ms", "churn"} {
		if strings.Count(r.out, `"`+name+`"`) != len(got.Rows) {
			t.Errorf("no %s in a row", name)
		}
	}
}

func TestBenchSplitForPeople(t *testing.T) {
	r := must(t, cantus(t, nil, "bench", "split", splitSample, "--algorithms", "adaptive,hash"))
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 3 || !strings.Contains(lines[0], "amplification") || !strings.Contains(lines[1], "adaptive") || !strings.Contains(lines[2], "hash") {
		t.Errorf("for people:\n%s", r.out)
	}
}

func TestBenchSplitWrongUse(t *testing.T) {
	for line, want := range map[string]int{
		"":                                 2,
		splitSample + " extra":             2,
		splitSample + " --budget 0":        2,
		splitSample + " --max-stores 0":    2,
		splitSample + " --min-store x":     2,
		splitSample + " --algorithms x":    2,
		"/nonexistent/file":                1,
		"bench_split.go --algorithms hash": 1,
	} {
		r := cantus(t, nil, append([]string{"bench", "split"}, strings.Fields(line)...)...)
		if r.code != want || r.out != "" || r.err == "" {
			t.Errorf("bench split %s: exit code %d, want %d; out %q, err %q", line, r.code, want, r.out, r.err)
		}
	}
}
