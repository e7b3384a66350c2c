package check

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// Report is the judgement of a history.
type Report struct {
	Workload string         `json:"workload"`
	Nemeses  []string       `json:"nemeses"`
	Seed     uint64         `json:"seed"`
	Version  string         `json:"version"`
	Complete bool           `json:"complete"` // the run came to its end
	Counts   Counts         `json:"counts"`
	Checks   []Verdict      `json:"checks"` // all, in a fixed order
	Recovery []Recovery     `json:"recovery,omitempty"`
	Notes    []string       `json:"notes,omitempty"` // what the history leaves open
	Faults   map[string]int `json:"faults,omitempty"`
	// Malformed says what makes the history itself wrong, such as an id that was used twice. It is the harness's fault, and the
	// report is worth nothing until it is mended.
	Malformed []string `json:"malformed,omitempty"`
}

// Counts says how much a history holds.
type Counts struct {
	Duration   time.Duration `json:"duration_ns"`
	Events     uint64        `json:"events"`
	Published  uint64        `json:"published"` // messages acked
	Refused    uint64        `json:"refused"`   // messages
	Unknown    uint64        `json:"unknown"`   // messages
	Deliveries uint64        `json:"deliveries"`
	Readers    uint64        `json:"readers"`
	Reads      uint64        `json:"reads"`
	Faults     uint64        `json:"faults"`
	Seqs       uint64        `json:"seqs"` // places of the stream that somebody saw
}

// Verdict is what one check found.
type Verdict struct {
	Name       Name        `json:"name"`
	Promise    string      `json:"promise"`
	Looked     uint64      `json:"looked"`     // at how many things; 0: the history has nothing for this check
	Violations uint64      `json:"violations"` // how many
	Examples   []Violation `json:"examples,omitempty"`
	Undecided  string      `json:"undecided,omitempty"` // why the check could not come to an end
}

// Violation is one broken promise.
type Violation struct {
	Seen     string     `json:"seen"`
	Evidence []Evidence `json:"evidence"` // the few operations that prove it
}

// Evidence is one line of the history.
type Evidence struct {
	Line  int             `json:"line"` // of the file, from 1; the header is line 1
	Event json.RawMessage `json:"event"`
}

// Recovery is how long faults of one name kept the cluster from service: from the fault, or from when a majority was
// connected again if the fault took it away, until an ack of a publish that began after that.
type Recovery struct {
	Fault  string        `json:"fault"`
	Count  int           `json:"count"`
	Median time.Duration `json:"median_ns"`
	Worst  time.Duration `json:"worst_ns"`
	Never  int           `json:"never,omitempty"` // no ack until the history's end; not in Median and Worst
}

// OK says that the history is well-formed and breaks no promise, as far as could be decided.
func (r *Report) OK() bool { return len(r.Malformed) == 0 && len(r.Broken()) == 0 }

// Broken lists the checks that found violations.
func (r *Report) Broken() (names []Name) {
	for _, v := range r.Checks {
		if v.Violations > 0 {
			names = append(names, v.Name)
		}
	}
	return names
}

// String is the report for people: violations first.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s under %s, seed %d, %s\n", r.Workload, strings.Join(r.Nemeses, "+"), r.Seed, r.Counts)
	for _, m := range r.Malformed {
		fmt.Fprintf(&b, "MALFORMED HISTORY: %s\n", m)
	}
	for i := range r.Checks {
		if r.Checks[i].Violations > 0 {
			r.Checks[i].write(&b)
		}
	}
	for _, v := range r.Checks {
		switch {
		case v.Undecided != "":
			fmt.Fprintf(&b, "undecided  %-12s %s\n", v.Name, v.Undecided)
		case v.Violations == 0 && v.Looked > 0:
			fmt.Fprintf(&b, "ok         %-12s %d looked at: %s\n", v.Name, v.Looked, v.Promise)
		}
	}
	writeRecovery(&b, r.Recovery)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	switch {
	case !r.OK():
		b.WriteString("BROKEN\n")
	case !r.Complete:
		b.WriteString("no violation, but the run did not come to its end\n")
	default:
		b.WriteString("no violation\n")
	}
	return b.String()
}

// String is the counts in a line.
func (c Counts) String() string {
	return fmt.Sprintf("%s: %d messages acked, %d refused, %d unknown, %d deliveries to %d readers, %d reads, %d faults",
		c.Duration.Round(time.Millisecond), c.Published, c.Refused, c.Unknown, c.Deliveries, c.Readers, c.Reads, c.Faults)
}

func (v *Verdict) write(b *strings.Builder) {
	fmt.Fprintf(b, "\nBROKEN     %s: %d violations\n  promised: %s\n", v.Name, v.Violations, v.Promise)
	for _, x := range v.Examples {
		fmt.Fprintf(b, "  seen: %s\n", x.Seen)
		for _, e := range x.Evidence {
			fmt.Fprintf(b, "    line %d: %s\n", e.Line, e.Event)
		}
	}
	if more := v.Violations - uint64(len(v.Examples)); more > 0 {
		fmt.Fprintf(b, "  and %d more\n", more)
	}
	b.WriteByte('\n')
}

func writeRecovery(b *strings.Builder, list []Recovery) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, "%-28s %6s %10s %10s %6s\n", "recovery after", "count", "median", "worst", "never")
	for _, r := range list {
		fmt.Fprintf(b, "%-28s %6d %10s %10s %6d\n", r.Fault, r.Count, r.Median.Round(time.Millisecond), r.Worst.Round(time.Millisecond), r.Never)
	}
}

// examples is how many violations of a check are shown, evidenceLines how many lines for each.
const (
	maxExamples      = 5
	maxEvidenceLines = 8
	maxNotes         = 20
)

// findings collects what the checkers report, with line numbers in place of the lines.
type findings struct {
	verdicts  map[Name]*Verdict
	lines     map[Name][][]int // of the examples
	notes     []string
	malformed []string
}

func newFindings() *findings {
	f := &findings{verdicts: map[Name]*Verdict{}, lines: map[Name][][]int{}}
	for _, p := range promises {
		f.verdicts[p.name] = &Verdict{Name: p.name, Promise: p.promise}
	}
	return f
}

// looked counts things that a check examined.
func (f *findings) looked(name Name, n uint64) { f.verdicts[name].Looked += n }

// found reports a violation. Lines of 0 are unknown and left out.
func (f *findings) found(name Name, lines []int, format string, args ...any) {
	v := f.verdicts[name]
	if v.Violations++; len(v.Examples) < maxExamples {
		v.Examples = append(v.Examples, Violation{Seen: fmt.Sprintf(format, args...)})
		f.lines[name] = append(f.lines[name], lines)
	}
}

func (f *findings) note(format string, args ...any) { f.notes = capped(f.notes, format, args) }

func (f *findings) wrong(format string, args ...any) {
	f.malformed = capped(f.malformed, format, args)
}

func capped(list []string, format string, args []any) []string {
	if len(list) < maxNotes {
		return append(list, fmt.Sprintf(format, args...))
	}
	return list
}

// show fetches the lines that the examples name.
func (f *findings) show(src history.Source) error {
	wanted := map[int]json.RawMessage{}
	for _, list := range f.lines {
		for _, lines := range list {
			for _, n := range lines {
				wanted[n] = nil
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	n := 1
	for e, err := range src.Events() {
		if err != nil {
			return err
		}
		n++
		if _, ok := wanted[n]; ok {
			line, err := history.Append(nil, e)
			if err != nil {
				return err
			}
			wanted[n] = line[:len(line)-1]
		}
	}
	for name, list := range f.lines {
		for i, lines := range list {
			f.verdicts[name].Examples[i].Evidence = evidence(lines, wanted)
		}
	}
	return nil
}

func evidence(lines []int, text map[int]json.RawMessage) (list []Evidence) {
	seen := map[int]bool{0: true}
	for _, n := range lines {
		if !seen[n] && text[n] != nil && len(list) < maxEvidenceLines {
			list = append(list, Evidence{Line: n, Event: text[n]})
		}
		seen[n] = true
	}
	return list
}
