package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func sumCmd(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "sum FILE...",
		Short: "Sum up what runs with --json have printed, as Markdown",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			var s run.Sum
			for _, path := range args {
				f, err := os.Open(path)
				if err != nil {
					return err
				}
				if err := errors.Join(s.Add(f), f.Close()); err != nil {
					return err
				}
			}
			_, err := io.WriteString(out, s.Markdown())
			return err
		},
	}
}
