package run

import (
	"fmt"
	"strings"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/jepsen/nemesis"
)

// Steps makes a run over all steps of o: each so many times.
func (o Options) Steps(each int) Options {
	o.Workload, o.Nemesis, o.Each, o.Time = "history", "steps", each, eachLimit
	return o
}

// StepsTable tells for each step how often a node was ended at it, and how often that was tried.
func (r *Result) StepsTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-14s %6s %9s %6s\n", "ended at", "leader", "follower", "tries")
	for _, p := range faults.Points() {
		name := nemesis.StepName(p)
		fmt.Fprintf(&b, "%-14s %6d %9d %6d\n", p, r.Injected[name+" leader"], r.Injected[name+" follower"], r.Tried[name])
	}
	return b.String()
}
