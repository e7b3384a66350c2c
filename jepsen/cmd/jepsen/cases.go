package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func casesCmd(out, notes io.Writer, asJSON *bool) *cobra.Command {
	o := run.Options{Nodes: 3}
	cmd := &cobra.Command{
		Use:   "cases [NAME...]",
		Short: "Try what went wrong with other brokers, one case after the other; exit code 1 if any breaks",
		RunE: func(cmd *cobra.Command, names []string) error {
			list, err := run.FindCases(names)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 32)
			}
			o.Log = func(format string, args ...any) { fmt.Fprintf(notes, format+"\n", args...) }
			cleanup, err := build(&o)
			if err != nil {
				return err
			}
			defer cleanup()
			var broken error
			var rows []string
			for _, c := range list {
				if err := c.Possible(o); err != nil {
					fmt.Fprintf(notes, "SKIPPED  %s: %v\n", c.Name, err)
					continue
				}
				tally, err := c.Do(cmd.Context(), o, func(res *run.Result) error { return show(out, res, *asJSON) })
				if err != nil {
					return fmt.Errorf("%s: %w", c.Name, err)
				}
				if !tally.OK {
					broken = errBroken
				}
				rows = append(rows, fmt.Sprintf("| %s %s", c.Name, tally))
				fmt.Fprintf(notes, "%s\n  %s\n", rows[len(rows)-1], c)
			}
			fmt.Fprintf(notes, "\n| case | runs | faults | elections | acked | delivered | took | |\n|---|---|---|---|---|---|---|---|\n%s\n", strings.Join(rows, "\n"))
			return broken
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.Time, "time", 30*time.Second, "how long there are faults in each run")
	f.Uint64Var(&o.Seed, "seed", 0, "of the first run of each case; default: chance")
	f.IntVar(&o.Rate, "rate", 500, "messages a second that publishers aim at")
	addPlace(f, &o)
	return cmd
}

// build builds the broker if o names none. cleanup removes it.
func build(o *run.Options) (cleanup func(), err error) {
	if o.Binary != "" {
		return func() {}, nil
	}
	dir, err := os.MkdirTemp("", "jepsen-build-")
	if err != nil {
		return nil, err
	}
	cleanup = func() { _ = os.RemoveAll(dir) } // a temporary folder
	if o.Binary, err = run.Build(dir, o.Tags); err != nil {
		cleanup()
		return nil, err
	}
	o.Hooks = true
	return cleanup, nil
}
