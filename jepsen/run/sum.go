package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Sum is many results together.
type Sum struct {
	Runs     int
	Time     time.Duration // of all runs, from first process to last read
	Acked    uint64
	Unknown  uint64
	Refused  uint64
	Read     uint64 // deliveries
	Points   uint64 // point reads
	Faults   map[string]int
	ByLoad   map[string]int
	Broken   []string // one line for each run that found something
	Exits    int
	recovery map[string]*recovered
}

// recovered is the recovery after one kind of fault, over all runs.
type recovered struct {
	count, never int
	medians      []time.Duration // one for each run
	worst        time.Duration
}

// Add takes the results that stand in r one after the other, as "jepsen run --json" prints them.
func (s *Sum) Add(r io.Reader) error {
	if s.Faults == nil {
		s.Faults, s.ByLoad, s.recovery = map[string]int{}, map[string]int{}, map[string]*recovered{}
	}
	in := json.NewDecoder(r)
	for {
		var res Result
		err := in.Decode(&res)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read result %d: %w", s.Runs+1, err)
		}
		s.add(&res)
	}
}

func (s *Sum) add(res *Result) {
	s.Runs++
	s.ByLoad[res.Options.Workload]++
	s.Exits += res.Exits
	for name, n := range res.Injected {
		s.Faults[name] += n
	}
	if !res.OK() {
		s.Broken = append(s.Broken, fmt.Sprintf("%s under %s, seed %d: %s", res.Options.Workload, res.Options.Nemesis, res.Options.Seed, res.By()))
	}
	if res.Report == nil {
		return
	}
	c := res.Report.Counts
	s.Time += c.Duration
	s.Acked, s.Refused, s.Unknown = s.Acked+c.Published, s.Refused+c.Refused, s.Unknown+c.Unknown
	s.Read, s.Points = s.Read+c.Deliveries, s.Points+c.Reads
	for _, r := range res.Report.Recovery {
		t := s.recovery[r.Fault]
		if t == nil {
			t = &recovered{}
			s.recovery[r.Fault] = t
		}
		t.count, t.never, t.worst = t.count+r.Count, t.never+r.Never, max(t.worst, r.Worst)
		t.medians = append(t.medians, r.Median)
	}
}

// Markdown is the sum as a part of a document.
func (s *Sum) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, %v in all: %d messages acked, %d refused, %d of unknown fate; %d deliveries and %d point reads checked; %d processes ended by themselves and were restarted.\n\n",
		s.Runs, s.Time.Round(time.Second), s.Acked, s.Refused, s.Unknown, s.Read, s.Points, s.Exits)
	b.WriteString("| workload | runs |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.ByLoad)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, s.ByLoad[name])
	}
	b.WriteString("\n| fault | injected | recovery: median of the runs' medians | worst | never |\n|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		row := "| | |"
		if t := s.recovery[name]; t != nil {
			slices.Sort(t.medians)
			row = fmt.Sprintf("%v | %v | %d |", t.medians[len(t.medians)/2].Round(time.Millisecond), t.worst.Round(time.Millisecond), t.never)
		}
		fmt.Fprintf(&b, "| %s | %d | %s\n", name, s.Faults[name], row)
	}
	fmt.Fprintf(&b, "\nRuns that found something: %d.\n", len(s.Broken))
	for _, line := range s.Broken {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}
