package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cantus-bus/cantus/jepsen/check"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/workload"
)

// maxFound bounds the findings that are kept.
const maxFound = 50

// Result is what a run came to.
type Result struct {
	Options  Options         `json:"options"`
	Dir      string          `json:"dir"` // of the run; "" if it was removed
	Counts   workload.Counts `json:"counts"`
	Injected map[string]int  `json:"injected"` // faults by name and aim
	Tried    map[string]int  `json:"tried"`    // faults that were chosen, by name: not each is possible at any time
	Exits    int             `json:"exits"`    // of processes by themselves
	Asides   int             `json:"asides"`   // nodes that found their files damaged and came back under new ids
	// Elections is by how much the term has grown while there were faults.
	Elections int `json:"elections"`
	// Found is what is wrong beside what the checks found in the history.
	Found  []string      `json:"found,omitempty"`
	Noted  []string      `json:"noted,omitempty"`
	Report *check.Report `json:"report"`
}

func (r *Result) found(format string, args ...any) {
	if len(r.Found) < maxFound {
		r.Found = append(r.Found, fmt.Sprintf(format, args...))
	}
}

// note adds a remark, each text once.
func (r *Result) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if len(r.Noted) < maxFound && !slices.Contains(r.Noted, text) {
		r.Noted = append(r.Noted, text)
	}
}

// OK says that the run found nothing.
func (r *Result) OK() bool { return len(r.Found) == 0 && r.Report != nil && r.Report.OK() }

// By names what found something: checks, and the run itself.
func (r *Result) By() string {
	var names []string
	if r.Report != nil {
		for _, n := range r.Report.Broken() {
			names = append(names, string(n))
		}
	}
	if len(r.Found) > 0 {
		names = append(names, "the run")
	}
	return strings.Join(names, ", ")
}

// Line is the result in a line.
func (r *Result) Line() string {
	verdict := "ok"
	if !r.OK() {
		verdict = "BROKEN"
	}
	faults := 0
	for _, n := range r.Injected {
		faults += n
	}
	line := fmt.Sprintf("%s  %s under %s, seed %d: %d acked, %d failed, %d delivered, %d faults, %d exits", verdict,
		r.Options.Workload, r.Options.Nemesis, r.Options.Seed, r.Counts.Acked, r.Counts.Failed, r.Counts.Delivered, faults, r.Exits)
	if r.Dir != "" {
		line += ", see " + r.Dir
	}
	return line
}

// Text is the result for people.
func (r *Result) Text() string {
	text := ""
	for _, f := range r.Found {
		text += "FOUND: " + f + "\n"
	}
	for _, n := range r.Noted {
		text += "noted: " + n + "\n"
	}
	if r.Report != nil {
		text += r.Report.String()
	}
	return text
}

// finish takes the cluster down and judges the history.
func (r *runner) finish() error {
	err := r.record.Close()
	if err == nil {
		err = r.judge()
	}
	if !r.result.OK() {
		for _, n := range r.cluster.Nodes {
			n.Kill()
		}
		err = errors.Join(err, r.cluster.KeepDisks())
	}
	return errors.Join(err, r.cluster.Close())
}

func (r *runner) judge() error {
	report, err := Check(filepath.Join(r.dir, historyFile))
	if err != nil {
		return err
	}
	r.result.Report = report
	return nil
}

// Check judges the history in a file.
func Check(path string) (*check.Report, error) {
	f, err := history.Open(path)
	if err != nil {
		return nil, err
	}
	report, err := check.All(f)
	return &report, err
}

// settle writes the result into the folder, or removes the folder.
func (r *Result) settle(dir string, keep bool) error {
	if r.OK() && !keep {
		r.Dir = ""
		return os.RemoveAll(dir)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(dir, "run.json"), append(b, '\n'), 0o644),
		os.WriteFile(filepath.Join(dir, "report.txt"), []byte(r.Line()+"\n"+r.Text()), 0o644),
	)
}

// HistoryPath is the history in a run's folder, or path itself if that is a file.
func HistoryPath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, historyFile)
	}
	return path
}
