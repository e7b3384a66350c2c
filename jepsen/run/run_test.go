package run

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/jepsen/check"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// TestRun does a short run with a kill, without the rights of root, and judges its folder again.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the broker and runs it for some seconds")
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "cantus") // without the tag faults: the compiler has most of it from other tests
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/cantus-bus/cantus/cmd/cantus").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	o := Options{
		Workload: "stream", Nemesis: "kill:minority", Time: 2 * time.Second, Seed: 1, Nodes: 3, Rate: 100, Network: "proxy", Disks: "folder",
		Binary: binary, Dir: filepath.Join(dir, "run"), Keep: true, Log: t.Logf,
	}
	res, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK() {
		t.Errorf("broken:\n%s%s", res.Text(), res.Line())
	}
	if res.Counts.Acked == 0 || res.Counts.Delivered < res.Counts.Acked || len(res.Injected) == 0 {
		t.Errorf("nothing happened: %s", res.Line())
	}
	report, err := Check(HistoryPath(o.Dir))
	if err != nil || !report.OK() || !report.Complete {
		t.Errorf("judged again: %v\n%s", err, report)
	}
	for _, name := range []string{"run.json", "report.txt", "n1/node.log"} {
		if info, err := os.Stat(filepath.Join(o.Dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing: %v", name, err)
		}
	}
}

// TestPlan: what a run cannot do is said before anything is started.
func TestPlan(t *testing.T) {
	good := Options{Workload: "stream", Nemesis: "kill", Nodes: 3, Network: "netns", Disks: "folder"}
	if _, err := good.plan(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Options){
		"at least one": func(o *Options) { o.Nodes = 0 },
		"workload":     func(o *Options) { o.Workload = "x" },
		"nemesis":      func(o *Options) { o.Nemesis = "x" },
		"proxy":        func(o *Options) { o.Nemesis = "slow" },
		"faults":       func(o *Options) { o.Nemesis = "clock" },
		"ext4":         func(o *Options) { o.Nemesis = "power" },
		"disks":        func(o *Options) { o.Disks = "x" },
		"earlier":      func(o *Options) { o.Workload = "upgrade" },
	} {
		o := good
		change(&o)
		if _, err := o.plan(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestSum: results add up, and a broken one is named.
func TestSum(t *testing.T) {
	one := Result{Options: Options{Workload: "w", Nemesis: "n", Seed: 3}, Injected: map[string]int{"kill all": 2}, Report: &check.Report{
		Counts:   check.Counts{Published: 5, Duration: time.Second},
		Recovery: []check.Recovery{{Fault: "kill all", Count: 2, Median: time.Millisecond, Worst: time.Second}},
	}}
	two := one
	two.Found = []string{"x"}
	var text strings.Builder
	for _, r := range []Result{one, two} {
		if err := json.NewEncoder(&text).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	var s Sum
	if err := s.Add(strings.NewReader(text.String())); err != nil {
		t.Fatal(err)
	}
	if s.Runs != 2 || s.Acked != 10 || s.Time != 2*time.Second || s.Faults["kill all"] != 4 || len(s.Broken) != 1 {
		t.Errorf("%+v", s)
	}
	if got := s.Markdown(); !strings.Contains(got, "| kill | 4 | all 4 | 1ms | 1s | 0 |") || !strings.Contains(got, "w under n, seed 3: the run") ||
		!strings.Contains(got, "| w | 2 | 0 | 10 | 0 | 1 |") {
		t.Error(got)
	}
	document := "before\n" + sumBegins + "\nold\n" + sumEnds + "\nafter\n"
	for range 2 {
		var err error
		if document, err = s.Insert(document); err != nil {
			t.Fatal(err)
		}
	}
	if want := "before\n" + sumBegins + "\n\n" + s.Markdown() + "\n" + sumEnds + "\nafter\n"; document != want {
		t.Errorf("%q", document)
	}
	if _, err := s.Insert("no place"); err == nil {
		t.Error("put the sum nowhere")
	}
	if err := s.Add(strings.NewReader("{")); err == nil {
		t.Error("half a result was taken")
	}
}

// TestResult: anything found makes a run broken, whoever found it.
func TestResult(t *testing.T) {
	r := &Result{Report: &check.Report{}}
	if !r.OK() {
		t.Error("nothing found, and broken")
	}
	if r.found("x"); r.OK() || !strings.HasPrefix(r.Line(), "BROKEN") {
		t.Error("found something, and not broken")
	}
	r = &Result{Report: &check.Report{Checks: []check.Verdict{{Violations: 1}}}}
	if r.OK() {
		t.Error("a check found something, and not broken")
	}
}

// TestTally: what a case came to adds up.
func TestTally(t *testing.T) {
	var sum Tally
	for range 2 {
		res := &Result{Injected: map[string]int{"kill leader": 2, "power all": 1}, Elections: 4}
		res.Counts.Acked, res.Counts.Delivered = 10, 20
		sum.add(res)
	}
	if got := sum.String(); got != "| 2 | 6 | 8 | 20 | 40 | 0s | BROKEN |" {
		t.Error(got)
	}
}
