// Command jepsen runs a cantus cluster of real processes, breaks it, and checks what its clients saw.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/jepsen/nemesis"
	"github.com/cantus-bus/cantus/jepsen/run"
	"github.com/cantus-bus/cantus/jepsen/workload"
)

// errBroken fails a command that has said why.
var errBroken = errors.New("broken")

func brokenUnless(ok bool) error {
	if ok {
		return nil
	}
	return errBroken
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root(os.Stdout, os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		if !errors.Is(err, errBroken) {
			fmt.Fprintln(os.Stderr, "jepsen:", err)
		}
		os.Exit(1)
	}
}

func root(out, notes io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "jepsen",
		Short:         "Break a cantus cluster and check what its clients saw",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	asJSON := cmd.PersistentFlags().Bool("json", false, "print JSON for programs")
	cmd.AddCommand(runCmd(out, notes, asJSON), listCmd(out), checkCmd(out, asJSON), bugsCmd(out, notes), casesCmd(out, notes, asJSON), stepsCmd(out, notes),
		guardsCmd(out), sumCmd(out))
	return cmd
}

func runCmd(out, notes io.Writer, asJSON *bool) *cobra.Command {
	var o run.Options
	var runs int
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a workload under faults; exit code 1 if anything is broken",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withBroker(cmd, notes, &o, func(ctx context.Context) error { return many(ctx, out, notes, o, runs, *asJSON) })
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Workload, "workload", "stream", "what is done with the cluster: names separated by commas, or all; see jepsen list")
	f.StringVar(&o.Nemesis, "nemesis", "mix", "faults and groups, separated by commas; see jepsen list")
	f.DurationVar(&o.Time, "time", time.Minute, "how long there are faults")
	f.IntVar(&runs, "runs", 1, "runs, with one seed after the other")
	f.IntVar(&o.Nodes, "nodes", 3, "members of the cluster")
	f.IntVar(&o.Beside, "beside", 1, "faults in force at once, at most")
	f.IntVar(&o.Each, "each", 0, "inject each fault so many times, in turn, and end then; broken if that is not done within the time; default: by chance, for all the time")
	f.DurationVar(&o.Hold, "hold", 0, "how long faults last, on average; default: 2s")
	f.DurationVar(&o.Stuck, "stuck", 0, "how long a reader may stand still when nothing is in its way; default: 20s")
	addBroker(f, &o, 1000)
	return cmd
}

// many does a number of runs of each workload.
func many(ctx context.Context, out, notes io.Writer, o run.Options, runs int, asJSON bool) error {
	names := strings.Split(o.Workload, ",")
	if o.Workload == "all" {
		names = nil
		for _, w := range workload.List() {
			names = append(names, w.Name)
		}
	}
	ok, base := true, o.Dir
	for range runs {
		for _, o.Workload = range names {
			if base != "" && runs*len(names) > 1 {
				o.Dir = filepath.Join(base, fmt.Sprintf("%s-%d", o.Workload, o.Seed))
			}
			res, err := run.Run(ctx, o)
			if errors.Is(err, run.ErrNoEarlier) && len(names) > 1 {
				fmt.Fprintf(notes, "SKIPPED  %s: %v\n", o.Workload, err)
				continue
			}
			if err != nil {
				return err
			}
			if err := show(out, res, asJSON); err != nil {
				return err
			}
			ok = ok && res.OK()
		}
		o.Seed++
	}
	return brokenUnless(ok)
}

func show(out io.Writer, res *run.Result, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(out).Encode(res)
	}
	_, err := fmt.Fprintf(out, "%s%s\n", res.Text(), res.Line())
	return err
}

func listCmd(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List workloads and faults",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var b strings.Builder
			b.WriteString("workloads\n")
			for _, w := range workload.List() {
				fmt.Fprintf(&b, "  %-16s %s\n", w.Name, w.About)
			}
			b.WriteString("\nfaults\n")
			for _, f := range nemesis.List() {
				need := ""
				if f.Need != nemesis.NeedNothing {
					need = " (needs " + f.Need.String() + ")"
				}
				fmt.Fprintf(&b, "  %-16s %s%s\n", f.Name, f.About, need)
			}
			b.WriteString("\ngroups of faults\n")
			groups := nemesis.Groups()
			for _, name := range slices.Sorted(maps.Keys(groups)) {
				fmt.Fprintf(&b, "  %-16s %s\n", name, strings.Join(groups[name], ", "))
			}
			b.WriteString("\ncases\n")
			for _, c := range run.Cases() {
				fmt.Fprintf(&b, "  %-20s %s\n  %20s elsewhere: %s\n", c.Name, c, "", c.Elsewhere)
			}
			_, err := io.WriteString(out, b.String())
			return err
		},
	}
}

func checkCmd(out io.Writer, asJSON *bool) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE|DIR",
		Short: "Judge a recorded run again",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			report, err := run.Check(run.HistoryPath(args[0]))
			if err != nil {
				return err
			}
			if *asJSON {
				err = json.NewEncoder(out).Encode(report)
			} else {
				_, err = io.WriteString(out, report.String())
			}
			if err != nil {
				return err
			}
			return brokenUnless(report.OK())
		},
	}
}
