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
	ByLoad   map[string]*load
	Broken   []string // one line for each run that found something
	Exits    int
	Asides   int
	recovery map[string]*recovered
}

// load is the runs of one workload.
type load struct {
	runs, broken int
	time         time.Duration
	acked, read  uint64
}

// recovered is the recovery after one kind of fault, over all runs.
type recovered struct {
	count, never int
	medians      []time.Duration // of the runs, each as often as the fault came
	worst        time.Duration
}

// Add takes the results that stand in r one after the other, as "jepsen run --json" prints them.
func (s *Sum) Add(r io.Reader) error {
	if s.Faults == nil {
		s.Faults, s.ByLoad, s.recovery = map[string]int{}, map[string]*load{}, map[string]*recovered{}
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
	l := s.ByLoad[res.Options.Workload]
	if l == nil {
		l = &load{}
		s.ByLoad[res.Options.Workload] = l
	}
	l.runs++
	s.Exits += res.Exits
	s.Asides += res.Asides
	for name, n := range res.Injected {
		s.Faults[name] += n
	}
	if !res.OK() {
		l.broken++
		s.Broken = append(s.Broken, fmt.Sprintf("%s under %s, seed %d: %s", res.Options.Workload, res.Options.Nemesis, res.Options.Seed, res.By()))
	}
	if res.Report == nil {
		return
	}
	c := res.Report.Counts
	s.Time += c.Duration
	s.Acked, s.Refused, s.Unknown = s.Acked+c.Published, s.Refused+c.Refused, s.Unknown+c.Unknown
	l.time, l.acked, l.read = l.time+c.Duration, l.acked+c.Published, l.read+c.Deliveries
	s.Read, s.Points = s.Read+c.Deliveries, s.Points+c.Reads
	for _, r := range res.Report.Recovery {
		t := s.recovery[r.Fault]
		if t == nil {
			t = &recovered{}
			s.recovery[r.Fault] = t
		}
		t.count, t.never, t.worst = t.count+r.Count, t.never+r.Never, max(t.worst, r.Worst)
		for range r.Count - r.Never {
			t.medians = append(t.medians, r.Median)
		}
	}
}

// Markdown is the sum as a part of a document.
func (s *Sum) Markdown() string {
	var b strings.Builder
	injected := 0
	for _, n := range s.Faults {
		injected += n
	}
	fmt.Fprintf(&b, "%d runs, %.1f hours in all. %d faults. %d messages acked, %d refused, %d of unknown fate; %d deliveries and %d point reads checked. "+
		"%d processes ended by themselves, as they should when their disk fails, and were started again; "+
		"%d times a node found its files damaged and came back under a new id. Runs that found something: %d.\n\n",
		s.Runs, s.Time.Hours(), injected, s.Acked, s.Refused, s.Unknown, s.Read, s.Points, s.Exits, s.Asides, len(s.Broken))
	for _, line := range s.Broken {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	if len(s.Broken) > 0 {
		b.WriteByte('\n')
	}
	b.WriteString("| workload | runs | minutes | messages acked | deliveries | found something |\n|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.ByLoad)) {
		l := s.ByLoad[name]
		fmt.Fprintf(&b, "| %s | %d | %.0f | %d | %d | %d |\n", name, l.runs, l.time.Minutes(), l.acked, l.read, l.broken)
	}
	s.faultTable(&b)
	return b.String()
}

// faultTable has a row for each fault, whomever it has hit.
func (s *Sum) faultTable(b *strings.Builder) {
	kinds := map[string]*recovered{}
	aims := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		kind, aim, _ := strings.Cut(name, " ")
		k := kinds[kind]
		if k == nil {
			k = &recovered{}
			kinds[kind] = k
		}
		k.count += s.Faults[name]
		if aim != "" {
			aims[kind] = append(aims[kind], fmt.Sprintf("%s %d", aim, s.Faults[name]))
		}
		if t := s.recovery[name]; t != nil {
			k.never, k.worst, k.medians = k.never+t.never, max(k.worst, t.worst), append(k.medians, t.medians...)
		}
	}
	b.WriteString("\n| fault | injected | on | recovery: median | worst | never |\n|---|---|---|---|---|---|\n")
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		k, median := kinds[kind], "-"
		if len(k.medians) > 0 {
			slices.Sort(k.medians)
			median = k.medians[len(k.medians)/2].Round(time.Millisecond).String()
		}
		fmt.Fprintf(b, "| %s | %d | %s | %s | %v | %d |\n", kind, k.count, strings.Join(aims[kind], ", "), median, k.worst.Round(time.Millisecond), k.never)
	}
}

// The lines of a document between which the sum stands.
const (
	sumBegins = "<!-- jepsen sum -->"
	sumEnds   = "<!-- end of jepsen sum -->"
)

// Insert puts the sum into a document, in the place of the one before.
func (s *Sum) Insert(document string) (string, error) {
	before, rest, ok := strings.Cut(document, sumBegins)
	_, after, ends := strings.Cut(rest, sumEnds)
	if !ok || !ends {
		return "", fmt.Errorf("the document has no lines %q and %q to put the sum between", sumBegins, sumEnds)
	}
	return before + sumBegins + "\n\n" + s.Markdown() + "\n" + sumEnds + after, nil
}
