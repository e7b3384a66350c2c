package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/configs"
	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/internal/daemon"
)

type serveFlags struct {
	config, data string
	dev          bool
	set          []string
}

func (a *app) serveCmd() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve (--config FILE | --dev)",
		Short: "Run a node",
		Long: `Run a node until SIGINT or SIGTERM. Standard output gets one line when the node is ready; logs go to standard error.

Every key of the configuration can be overridden: tip.size by CANTUS_TIP_SIZE or by --set tip.size=64MiB.
"cantus config print" lists all keys.`,
		Example: `  cantus serve --dev
  cantus serve --config configs/three-nodes/a.yaml
  CANTUS_LISTEN_CLIENT=127.0.0.1:5790 cantus serve --dev --data ./data`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (f.config == "") == !f.dev {
				return usagef("serve: give either --config FILE or --dev")
			}
			return a.serve(cmd.Context(), f)
		},
	}
	p := cmd.Flags()
	p.StringVar(&f.config, "config", "", "configuration file")
	p.BoolVar(&f.dev, "dev", false, "one node on loopback with default ports, for trying things out")
	p.StringVar(&f.data, "data", "", "data folder (node.data); with --dev the default is a temporary one, removed at exit")
	p.StringArrayVar(&f.set, "set", nil, "override a key, as in tip.size=64MiB (repeatable)")
	return cmd
}

func (a *app) serve(ctx context.Context, f serveFlags) (err error) {
	if f.dev && f.data == "" {
		if f.data, err = os.MkdirTemp("", "cantus-dev-"); err != nil {
			return fmt.Errorf("make a temporary data folder: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(f.data)) }()
	}
	loaded, err := a.loadConfig(f)
	if err != nil {
		return err
	}
	o := daemon.Options{Config: loaded, Version: buildVersion(), Logger: newLogger(loaded.Config.Logging, a.Err)}
	return daemon.Run(ctx, o, func(d *daemon.Daemon) {
		a.Printf("ready: node %s, client %s, http http://%s", d.NodeID(), d.ClientAddr(), d.HTTPAddr())
	})
}

func (a *app) loadConfig(f serveFlags) (*config.Loaded, error) {
	var flags []config.Flag
	if f.data != "" {
		flags = append(flags, config.Flag{Name: "--data", Path: "node.data", Value: f.data})
	}
	for _, s := range f.set {
		path, value, ok := strings.Cut(s, "=")
		if !ok {
			return nil, usagef("--set %q: want KEY=VALUE, as in tip.size=64MiB", s)
		}
		flags = append(flags, config.Flag{Name: "--set", Path: path, Value: value})
	}
	if f.dev {
		return config.Load(config.Inputs{Name: "configs/dev.yaml", File: configs.Dev, Environ: a.environment(), Flags: flags})
	}
	return config.LoadFile(f.config, a.environment(), flags)
}

func newLogger(c config.Logging, w io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Name: "cantus", Level: hclog.LevelFromString(c.Level), JSONFormat: c.JSON, Output: w})
}
