package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/contexts"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/output"
)

// Where a node listens unless it is told otherwise.
const (
	defaultServer = "127.0.0.1:4790"
	defaultHTTP   = "127.0.0.1:4791"
)

// streams is the process as a command sees it.
type streams struct {
	in       io.Reader
	out, err io.Writer
	environ  []string
}

// app is what all subcommands share: the global flags and where to write.
type app struct {
	streams
	output.Writer
	servers, http    []string
	context, ctxFile string
	timeout          time.Duration
}

// usageError is a command used wrongly: exit code 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// errQuiet fails a command that has already said why.
var errQuiet = errors.New("failed")

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, s streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		fmt.Fprintf(s.err, "cantus: %v\nRun '%s --help' for usage.\n", err, cmd.CommandPath())
		return 2
	case errors.Is(err, errQuiet):
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		fmt.Fprintln(s.err, "cantus: interrupted")
	default:
		fmt.Fprintf(s.err, "cantus: %v\n", err)
	}
	return 1
}

// newRoot is the whole command tree.
func newRoot(s streams) *cobra.Command { return newRootFor(&app{}, s) }

func newRootFor(a *app, s streams) *cobra.Command {
	a.streams = s
	a.Out, a.Err = s.out, s.err
	root := &cobra.Command{
		Use:           "cantus",
		Short:         "A clustered message broker: one ordered stream, topics as a tree, cheap reads of any part of it",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.fromEnvironment(cmd); err != nil {
				return err
			}
			return a.applyContext(cmd)
		},
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	p := root.PersistentFlags()
	p.BoolVar(&a.JSON, "json", false, "print JSON for programs instead of tables for people")
	p.BoolVar(&a.NoProgress, "no-progress", false, "no progress bars")
	p.StringSliceVar(&a.servers, "server", []string{defaultServer}, "addresses of some nodes, for data")
	p.StringSliceVar(&a.http, "http", []string{defaultHTTP}, "addresses of some nodes' control planes")
	p.StringVar(&a.context, "context", "", "named cluster to use instead of the current one (see cantus context)")
	p.StringVar(&a.ctxFile, "contexts", "", "file that holds the named clusters")
	p.DurationVar(&a.timeout, "timeout", 15*time.Second, "how long a control command may take")
	bound(p, "timeout", &a.timeout, leastTime, mostTime)
	root.AddCommand(a.demoCmd(), a.serveCmd(), a.pubCmd(), a.subCmd(), a.getCmd(), a.replayCmd(), a.statusCmd(), a.topicsCmd(), a.planCmd(),
		a.verifyCmd(), a.nodeCmd(), a.leaderCmd(), a.snapshotCmd(), a.backupCmd(), a.restoreCmd(), a.benchCmd(), a.configCmd(), a.contextCmd(), a.versionCmd())
	finish(root)
	return root
}

// finish walks the tree: wrong arguments become usage errors, and every flag's help names its variable.
func finish(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usageError{misused(cmd, args, err)}
			}
			return nil
		}
	}
	name := func(f *pflag.Flag) { f.Usage += " [$" + flagEnv(f.Name) + "]" }
	cmd.LocalNonPersistentFlags().VisitAll(name)
	cmd.PersistentFlags().VisitAll(name)
	for _, sub := range cmd.Commands() {
		finish(sub)
	}
}

// misused says how the command is used, or for an unknown one which is meant perhaps.
func misused(cmd *cobra.Command, args []string, err error) error {
	if !strings.HasPrefix(err.Error(), "unknown command") {
		return fmt.Errorf("%w: use it as %q", err, cmd.UseLine())
	}
	cmd.SuggestionsMinimumDistance = 2 // letters that are wrong, missing or too many
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		return fmt.Errorf("%w: did you mean %s?", err, strings.Join(like, ", "))
	}
	return err
}

// flagEnv is the variable of a flag: --no-progress is CANTUS_NO_PROGRESS.
func flagEnv(name string) string {
	return "CANTUS_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
}

// fromEnvironment gives flags that are not on the command line the value of their variable.
func (a *app) fromEnvironment(cmd *cobra.Command) error {
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		value, set := a.lookupEnv(flagEnv(f.Name))
		if f.Changed || !set {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", flagEnv(f.Name), err))
		}
	})
	if len(errs) > 0 {
		return usageError{errors.Join(errs...)}
	}
	return nil
}

func (a *app) lookupEnv(name string) (string, bool) {
	for _, entry := range slices.Backward(a.environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}

// applyContext takes addresses from the named or current context where nothing nearer gave them.
func (a *app) applyContext(cmd *cobra.Command) error {
	path, err := a.contextsPath()
	if err != nil && a.context == "" {
		return nil // no home folder: no contexts, and none was asked for
	}
	if err != nil {
		return err
	}
	file, err := contexts.Load(path)
	if err != nil {
		return err
	}
	name := a.context
	if name == "" {
		name = file.Current
	}
	c, ok := file.Find(name)
	if !ok && name != "" {
		return usagef("no context %q in %s", name, path)
	}
	if len(c.Servers) > 0 && !cmd.Flags().Changed("server") {
		a.servers = c.Servers
	}
	if len(c.HTTP) > 0 && !cmd.Flags().Changed("http") {
		a.http = c.HTTP
	}
	return nil
}

func (a *app) contextsPath() (string, error) {
	if a.ctxFile != "" {
		return a.ctxFile, nil
	}
	return contexts.DefaultPath()
}

// control connects to the control plane.
func (a *app) control() (*control.Client, error) {
	c, err := control.New(a.http)
	if err != nil {
		return nil, usageError{err}
	}
	return c, nil
}

// connect is how data commands reach the cluster.
func (a *app) connect(name string) client.Options {
	return client.Options{Servers: a.servers, Name: name, ConnectWait: a.timeout}
}

// environment of the process, for configuration.
func (a *app) environment() []string {
	if a.environ == nil {
		return os.Environ()
	}
	return a.environ
}
