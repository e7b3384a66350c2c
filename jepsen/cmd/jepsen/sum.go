package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/run"
)

func sumCmd(out io.Writer) *cobra.Command {
	var into string
	cmd := &cobra.Command{
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
			if into != "" {
				return insert(&s, into)
			}
			_, err := io.WriteString(out, s.Markdown())
			return err
		},
	}
	cmd.Flags().StringVar(&into, "into", "", "document in which the sum replaces the one before, such as jepsen/RESULTS.md")
	return cmd
}

func insert(s *run.Sum, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := s.Insert(string(b))
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
