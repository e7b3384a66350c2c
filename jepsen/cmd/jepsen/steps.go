package main

import (
	"fmt"
	"io"
	"math/rand/v2"

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
			if !cmd.Flags().Changed("seed") {
				o.Seed = rand.Uint64N(1 << 32)
			}
			o.Log = func(format string, args ...any) { fmt.Fprintf(notes, format+"\n", args...) }
			cleanup, err := build(&o)
			if err != nil {
				return err
			}
			defer cleanup()
			res, err := run.Run(cmd.Context(), o.Steps(each))
			if err != nil {
				return err
			}
			if !res.OK() {
				fmt.Fprint(out, res.Text())
			}
			fmt.Fprintf(out, "%s%s\n", res.StepsTable(), res.Line())
			if !res.OK() {
				return errBroken
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVar(&each, "each", 1, "how often at each step")
	f.Uint64Var(&o.Seed, "seed", 0, "of all choices; default: chance")
	f.IntVar(&o.Rate, "rate", 500, "messages a second that publishers aim at")
	addPlace(f, &o)
	return cmd
}
