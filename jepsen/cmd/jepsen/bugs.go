package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func bugsCmd(out, notes io.Writer) *cobra.Command {
	var faults time.Duration
	var seed uint64
	cmd := &cobra.Command{
		Use:   "bugs [TAG...]",
		Short: "Build the broker with planted bugs, one after the other, and show that each is found",
		RunE: func(cmd *cobra.Command, args []string) error {
			bugs, err := run.FindBugs(args)
			if err != nil {
				return err
			}
			missed := 0
			for _, b := range bugs {
				log := func(format string, args ...any) { fmt.Fprintf(notes, b.Tag+format+"\n", args...) }
				res, found, err := run.FindBug(cmd.Context(), b, faults, seed, log)
				if err != nil {
					return fmt.Errorf("%s: %w", b.Tag, err)
				}
				verdict := "found by " + res.By()
				if !found {
					verdict = "NOT FOUND"
					missed++
				}
				fmt.Fprintf(out, "%-16s %-40s %s\n", b.Tag, b.About, verdict)
				for _, f := range res.Found {
					fmt.Fprintf(out, "%-16s the run: %s\n", "", f)
				}
			}
			if missed > 0 {
				return fmt.Errorf("%d planted bugs were not found", missed)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&faults, "time", 10*time.Second, "how long there are faults in each run")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of the first run for each bug")
	return cmd
}
