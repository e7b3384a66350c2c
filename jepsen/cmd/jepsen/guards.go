package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func guardsCmd(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "guards [TAG...]",
		Short: "Take each guard against raft's own faults away, and show that its tests fail then",
		RunE: func(cmd *cobra.Command, args []string) error {
			guards, err := run.FindGuards(args)
			if err != nil {
				return err
			}
			unneeded := 0
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
