package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/contexts"
)

func (a *app) contextCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Named clusters, so that commands need no addresses",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		// A context that is broken or gone must not keep these commands from mending it.
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return a.fromEnvironment(cmd) },
	}
	cmd.AddCommand(a.contextAddCmd(), a.contextUseCmd(), a.contextListCmd())
	return cmd
}

// editContexts loads the file, lets edit change it, and saves it.
func (a *app) editContexts(edit func(*contexts.File) error) error {
	path, err := a.contextsPath()
	if err != nil {
		return err
	}
	file, err := contexts.Load(path)
	if err != nil {
		return err
	}
	if err := edit(file); err != nil {
		return usageError{err}
	}
	return file.Save(path)
}

func (a *app) contextAddCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "add NAME",
		Short:   "Add or replace a named cluster with the addresses of --server and --http",
		Example: "  cantus context add prod --server a:4790,b:4790,c:4790 --http a:4791,b:4791,c:4791",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.editContexts(func(f *contexts.File) error {
				return f.Add(contexts.Context{Name: args[0], Servers: a.servers, HTTP: a.http})
			})
		},
	}
}

func (a *app) contextUseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "use NAME",
		Short: "Make a named cluster the current one",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.editContexts(func(f *contexts.File) error { return f.Use(args[0]) })
		},
	}
}

func (a *app) contextListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the named clusters",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := a.contextsPath()
			if err != nil {
				return err
			}
			file, err := contexts.Load(path)
			if err != nil {
				return err
			}
			if a.JSON {
				return a.Object(map[string]any{"current": file.Current, "contexts": append([]contexts.Context{}, file.Contexts...)})
			}
			rows := make([][]any, len(file.Contexts))
			for i, c := range file.Contexts {
				mark := ""
				if c.Name == file.Current {
					mark = "*"
				}
				rows[i] = []any{mark, c.Name, strings.Join(c.Servers, " "), strings.Join(c.HTTP, " ")}
			}
			a.Table([]string{"", "name", "servers", "control plane"}, nil, rows)
			return nil
		},
	}
}
