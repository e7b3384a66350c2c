package main

import (
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/tipstore/heapbench"
	"github.com/cantus-bus/cantus/tipstore/profile"
)

// tinyTip are flags that measure at once.
var tinyTip = []string{"bench", "tip", "--messages", "2000", "--partitions", "20", "--repeat", "1", "--min-time", "1ms"}

func TestBenchTipJSON(t *testing.T) {
	r := must(t, cantus(t, nil, append(tinyTip, "--readers", "1,2", "--selectivity", "0.1,1", "--heap", "all", "--interleave", "4", "--json")...))
	got := decode[struct{ Rows []profile.Row }](t, r)
	if want := 4 * (3 + len(heapbench.Names())); len(got.Rows) != want {
		t.Errorf("%d rows, want %d", len(got.Rows), want)
	}
	for _, row := range got.Rows {
		if row.Partitions != 20 || row.Interleave != "4" || row.Messages == 0 || row.NsPerMessage <= 0 || row.Selectivity == 1 && row.Messages != 2000*int64(row.Readers) {
			t.Errorf("%+v", row)
		}
	}
	for _, name := range []string{"heap", "partitions", "readers", "selectivity", "ns_per_message", "cpu_s", "mb_per_s", "method"} {
		if !strings.Contains(r.out, `"`+name+`"`) {
			t.Errorf("no %s in a row", name)
		}
	}
}

func TestBenchTipForPeople(t *testing.T) {
	r := must(t, cantus(t, nil, append(tinyTip, "--selectivity", "1", "--heap", "none")...))
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != 5 || !strings.Contains(lines[0], "of linear") || !strings.Contains(lines[2], "1.000") || !strings.Contains(lines[4], "bytes a message") {
		t.Errorf("for people:\n%s", r.out)
	}
}

func TestBenchTipWrongUse(t *testing.T) {
	for _, line := range []string{
		"--selectivity 0", "--selectivity 1.1", "--partitions 0", "--messages 0", "--readers 0", "--size -1",
		"--interleave zigzag", "--heap bogus", "--repeat 0", "--min-time -1s", "extra",
	} {
		r := cantus(t, nil, append(tinyTip, strings.Fields(line)...)...)
		if r.code != 2 || r.out != "" || !strings.Contains(r.err, "--help") {
			t.Errorf("bench tip %s: exit code %d, out %q, err %q", line, r.code, r.out, r.err)
		}
	}
}
