package heapbench

import "fmt"

// Merger merges lists.
type Merger interface {
	// Reset begins a merge. The lists must not change until it is over.
	Reset(l *Lists)
	// Fill puts the next keys of the merge into dst and returns how many: fewer than len(dst) only at the end.
	Fill(dst []uint64) int
}

// Names of mergers that reports refer to.
const (
	Baseline = "container-fix" // what the others are compared with
	Shipped  = "loser"         // the queue that the tip uses
)

// mergers by name, in the order of reports.
var mergers = [...]struct {
	name string
	make func() Merger
}{
	{"container-push", func() Merger { return new(containerPush) }},
	{Baseline, func() Merger { return new(containerFix) }},
	{"generic", func() Merger { return newGeneric() }},
	{"binary", func() Merger { return new(binary) }},
	{"quaternary", func() Merger { return new(quaternary) }},
	{"loser-plain", func() Merger { return new(loserPlain) }},
	{Shipped, func() Merger { return new(shipped) }},
}

// Names of all mergers.
func Names() []string {
	names := make([]string, len(mergers))
	for i, m := range mergers {
		names[i] = m.name
	}
	return names
}

// New makes the merger of that name.
func New(name string) (Merger, error) {
	for _, m := range mergers {
		if m.name == name {
			return m.make(), nil
		}
	}
	return nil, fmt.Errorf("heapbench: no heap %q; there are %v", name, Names())
}
