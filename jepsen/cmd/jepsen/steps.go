package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func stepsCmd(out, notes io.Writer) *cobra.Command {
	o := run.Options{Nodes: 3}
	var each int
	cmd := &cobra.Command{
		Use:   "steps",
		Short: "End nodes at every step between two writes, and tell how often at each; exit code 1 if one was never come by, or anything is broken",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBroker(cmd, notes, &o, func(ctx context.Context) error {
				res, err := run.Run(ctx, o.Steps(each))
				if err != nil {
					return err
				}
				if !res.OK() {
					fmt.Fprint(out, res.Text())
				}
				fmt.Fprintf(out, "%s%s\n", res.StepsTable(), res.Line())
				return brokenUnless(res.OK())
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&each, "each", 1, "how often at each step")
	addBroker(f, &o, 500)
	return cmd
}
