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

// fileOr is the configuration file, named by an argument or by --config as serve has it, and not by both; "" if by neither.
func fileOr(args []string, flag string) (string, error) {
	switch {
	case len(args) == 0:
		return flag, nil
	case flag != "":
		return "", usagef("the file is named twice, %s as an argument and %s by --config (or CANTUS_CONFIG): name it once", args[0], flag)
	}
	return args[0], nil
}

// onFile makes a command that takes a configuration file either way.
func onFile(cmd *cobra.Command, do func(path string) error) *cobra.Command {
	cmd.Args = cobra.MaximumNArgs(1)
	flag := cmd.Flags().String("config", "", "configuration file")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		path, err := fileOr(args, *flag)
		if err != nil {
			return err
		}
		return do(path)
	}
	return cmd
}

func (a *app) configCheckCmd() *cobra.Command {
	return onFile(&cobra.Command{
		Use:   "check (FILE | --config FILE)",
		Short: "Say whether a node would start with this file and the environment",
	}, a.checkConfig)
}

func (a *app) checkConfig(path string) error {
	if path == "" {
		return usagef("config check: name the configuration file, as FILE or --config FILE")
	}
	if _, err := config.LoadFile(path, a.environment(), nil); err != nil {
		return err
	}
	if a.JSON {
		return a.Object(map[string]bool{"valid": true})
	}
	a.Printf("%s is valid", path)
	return nil
}

func (a *app) configPrintCmd() *cobra.Command {
	return onFile(&cobra.Command{
		Use:   "print [FILE | --config FILE]",
		Short: "Print the configuration in force and where each value comes from; without FILE, the defaults and the environment",
	}, a.printConfig)
}

func (a *app) printConfig(path string) error {
	loaded, err := config.LoadFile(path, a.environment(), nil)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Object(map[string]any{"config": loaded.Entries()})
	}
	return loaded.Print(a.Out)
}
