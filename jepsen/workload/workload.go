package workload

import (
	"context"
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// Workload is one way to use a cluster.
type Workload struct {
	Name  string
	About string            // one line for people
	Env   map[string]string // configuration of the nodes beside the harness's own
	Spare int               // nodes wanted that are not members at the start
	// Before: the nodes start with an earlier build, see World.Newer.
	Before bool
	// Header adds to the history's header.
	Header func(*history.Header)
	// Start begins the workload and returns its parts. The cluster is up.
	Start func(context.Context, *World) error
}

// all are the workloads, in the order of `jepsen list`.
func all() []Workload {
	return []Workload{streamWorkload(), onceWorkload(), registerWorkload(), bankWorkload(), historyWorkload(), lastWorkload(), membershipWorkload(), rollingWorkload(), upgradeWorkload()}
}

// List returns the workloads.
func List() []Workload { return all() }

// Find returns the workload of a name.
func Find(name string) (Workload, error) {
	list := all()
	i := slices.IndexFunc(list, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, fmt.Errorf("workload %q is unknown: see jepsen list", name)
	}
	return list[i], nil
}
