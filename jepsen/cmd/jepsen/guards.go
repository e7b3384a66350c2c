package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func guardsCmd(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "guards [TAG...]",
		Short: "Take each guard against raft's own faults away, and show that its tests fail then",
		RunE: func(cmd *cobra.Command, args []string) error {
			guards, unneeded := run.Guards(), 0
			if len(args) > 0 {
				guards = slices.DeleteFunc(guards, func(g run.Guard) bool { return !slices.Contains(args, g.Tag) })
			}
			if len(guards) < len(args) {
				return fmt.Errorf("one of %v is no guard's tag", args)
			}
			for _, g := range guards {
				missed, err := g.Needed(cmd.Context())
				if err != nil {
					return err
				}
				verdict := "found by " + strings.Join(g.Tests, ", ")
				if len(missed) > 0 {
					verdict = "NOT FOUND by " + strings.Join(missed, ", ")
					unneeded++
				}
				fmt.Fprintf(out, "%-22s %-60s %s\n", g.Tag, "without: "+g.Guard, verdict)
			}
			if unneeded > 0 {
				return fmt.Errorf("%d guards have a test that passes without them", unneeded)
			}
			return nil
		},
	}
}
