package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/demo"
	"github.com/cantus-bus/cantus/internal/units"
)

func (a *app) demoCmd() *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch three nodes keep a real stream and lose their leader without losing a message",
		Long: `Start a cluster of processes on loopback, replay a real stream into it, read parts of it from a follower, kill the
leader midway, bring it back, and read everything from every node, most of it from disk. Every message that any reader gets is checked. Exit
code 1 if anything was lost, repeated, out of order or foreign. Nothing is left behind unless --data is given.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			binary, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this binary, to start it as nodes: %w", err)
			}
			o.Binary = binary
			began := time.Now()
			o.Say = func(format string, args ...any) {
				a.Note("%5.1fs  "+format, append([]any{time.Since(began).Seconds()}, args...)...)
			}
			r, err := demo.Run(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.printDemo(r)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Nodes, "nodes", 3, "nodes to start")
	f.StringVar(&o.Dir, "data", "", "new folder for configurations, logs and data, kept afterwards; empty: a temporary one, removed")
	f.DurationVar(&o.For, "for", 20*time.Second, "about how long it may take; most of it is publishing")
	bound(f, "nodes", &o.Nodes, 1, 9)
	bound(f, "for", &o.For, time.Second, mostTime)
	return cmd
}

func (a *app) printDemo(r *demo.Result) error {
	if a.JSON {
		if err := a.Object(r); err != nil {
			return err
		}
	} else {
		a.Fields(
			[2]string{"nodes", fmt.Sprint(r.Nodes)},
			[2]string{"published", fmt.Sprintf("%d, %d acknowledged, %s", r.Published, r.Acked, units.Rate(r.PublishPerS))},
			[2]string{"failover", fmt.Sprintf("%s, %d election", units.Millis(msDuration(r.FailoverMS)), r.Elections)},
			[2]string{"read and checked", fmt.Sprintf("%d of parts from a follower, %d of everything from all nodes", r.SubsetMessages, r.FullMessages)},
			[2]string{"from disk", fmt.Sprintf("%d of these messages, out of %d files (%s) of %d windows, split into %d stores", r.FromHistory, r.HistoryFiles,
				units.Size(r.HistoryBytes), r.Windows, r.Stores)},
			[2]string{"lost", fmt.Sprint(r.Lost)},
			[2]string{"duplicated", fmt.Sprint(r.Duplicated)},
			[2]string{"out of order", fmt.Sprint(r.OutOfOrder)},
			[2]string{"foreign", fmt.Sprint(r.Foreign)},
			[2]string{"replicas equal", fmt.Sprint(r.ReplicasEqual)},
		)
	}
	if !r.OK() {
		a.Note("the promise was BROKEN: %+v", *r)
		return errQuiet
	}
	return nil
}
