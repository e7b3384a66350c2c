package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Bug is a planted fault of the broker and the run that must find it.
type Bug struct {
	Tag, About        string
	Workload, Nemesis string
	Network           string // "": any
}

// Bugs lists the planted faults, see internal/bugs.
func Bugs() []Bug {
	return []Bug{
		{Tag: "bug_ack_early", About: "acks before commit", Workload: "exactly-once", Nemesis: "cut-one,kill"},
		{Tag: "bug_no_dedupe", About: "publishes again what is sent again", Workload: "exactly-once", Nemesis: "kill,transfer"},
		{Tag: "bug_fence", About: "skips a message between history and tip", Workload: "history", Nemesis: "none"},
		{Tag: "bug_merge", About: "merges without order", Workload: "stream", Nemesis: "none"},
		{Tag: "bug_no_fsync", About: "does not sync the log; needs root, for power cuts", Workload: "exactly-once", Nemesis: "power"},
	}
}

const (
	bugSeeds    = 4                // that a bug may take to be found
	bugPatience = 10 * time.Second // with a cluster that may be broken for good
)

// FindBug builds the broker with a bug and runs until that is found, with several seeds. res is of the run that found it, or of the last.
func FindBug(ctx context.Context, b Bug, faults time.Duration, seed uint64, log func(string, ...any)) (res *Result, found bool, err error) {
	dir, err := os.MkdirTemp("", "jepsen-"+b.Tag+"-")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(dir)
	binary, err := Build(dir, b.Tag)
	if err != nil {
		return nil, false, err
	}
	for i := range uint64(bugSeeds) {
		res, err = Run(ctx, Options{
			Workload: b.Workload, Nemesis: b.Nemesis, Time: faults, Seed: seed + i, Nodes: 3, Rate: 500, Binary: binary, Hooks: true,
			Network: b.Network, Dir: filepath.Join(dir, fmt.Sprint("run-", i)), Patience: bugPatience, Log: log,
		})
		if err != nil || !res.OK() {
			break
		}
	}
	return res, err == nil && !res.OK(), err
}
