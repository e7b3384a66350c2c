package main

import (
	"context"
	"fmt"
	"io"
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
			return withBroker(cmd, notes, &o, func(ctx context.Context) error { return tryCases(ctx, out, notes, o, list, *asJSON) })
		},
	}
	f := cmd.Flags()
	f.DurationVar(&o.Time, "time", 30*time.Second, "how long there are faults in each run")
	addBroker(f, &o, 500)
	return cmd
}

// tryCases tries one case after the other and ends with a table of them.
func tryCases(ctx context.Context, out, notes io.Writer, o run.Options, list []run.Case, asJSON bool) error {
	ok := true
	var rows []string
	for _, c := range list {
		if err := c.Possible(o); err != nil {
			fmt.Fprintf(notes, "SKIPPED  %s: %v\n", c.Name, err)
			continue
		}
		tally, err := c.Do(ctx, o, func(res *run.Result) error { return show(out, res, asJSON) })
		if err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		ok = ok && tally.OK
		rows = append(rows, fmt.Sprintf("| %s %s", c.Name, tally))
		fmt.Fprintf(notes, "%s\n  %s\n", rows[len(rows)-1], c)
	}
	fmt.Fprintf(notes, "\n| case | runs | faults | elections | acked | delivered | took | |\n|---|---|---|---|---|---|---|---|\n%s\n", strings.Join(rows, "\n"))
	return brokenUnless(ok)
}
