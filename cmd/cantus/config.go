package main

import (
	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/config"
)

func (a *app) configCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check and show a node's configuration",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.configCheckCmd(), a.configPrintCmd())
	return cmd
}

func (a *app) configCheckCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say whether a node would start with this file and the environment",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if _, err := config.LoadFile(args[0], a.environment(), nil); err != nil {
				return err
			}
			if a.JSON {
				return a.Object(map[string]bool{"valid": true})
			}
			a.Printf("%s is valid", args[0])
			return nil
		},
	}
}

func (a *app) configPrintCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "print [FILE]",
		Short: "Print the configuration in force and where each value comes from; without FILE, the defaults and the environment",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			path := ""
			if len(args) == 1 {
				path = args[0]
			}
			loaded, err := config.LoadFile(path, a.environment(), nil)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.Object(map[string]any{"config": loaded.Entries()})
			}
			return loaded.Print(a.Out)
		},
	}
}
