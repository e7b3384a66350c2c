package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/transport/http"
)

func (a *app) planCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "How history is split into stores",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	show := &cobra.Command{
		Use:   "show [PARTITION]",
		Short: "Show the stores of one partition in all generations, or of all split partitions in the newest",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/v1/plan"
			if len(args) == 1 {
				path += "?" + url.Values{"partition": args}.Encode()
			}
			var list http.PlanList
			if err := a.ask(cmd.Context(), path, &list); err != nil {
				return err
			}
			return a.printPlans(list)
		},
	}
	run := &cobra.Command{
		Use:   "run",
		Short: "Ask the leader to plan now what is sealed and not planned yet",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.runPlan(cmd.Context()) },
	}
	cmd.AddCommand(show, run)
	return cmd
}

func (a *app) printPlans(list http.PlanList) error {
	if a.JSON {
		return a.Object(list)
	}
	var rows [][]any
	for _, p := range list.Partitions {
		for _, s := range p.Stores {
			rows = append(rows, []any{p.Partition, p.Generation, s.Store, units.Count(int64(s.Messages)), units.Size(int64(s.Bytes)), shortened(s.Prefixes)})
		}
	}
	if len(rows) == 0 {
		a.Note("nothing is split yet")
		return nil
	}
	a.Table([]string{"partition", "generation", "store", "messages", "bytes", "prefixes"}, []int{1, 2, 3, 4}, rows)
	return nil
}

// shortened lists the first few prefixes of a store.
func shortened(prefixes []string) string {
	const most = 3
	if len(prefixes) <= most {
		return strings.Join(prefixes, ", ")
	}
	return strings.Join(prefixes[:most], ", ") + " and " + units.Count(int64(len(prefixes)-most)) + " more"
}

func (a *app) runPlan(ctx context.Context) error {
	var run http.PlanRun
	err := a.within(ctx, a.timeout, func(ctx context.Context, c *control.Client) error { return c.Post(ctx, "/v1/plan", struct{}{}, &run) })
	if err != nil {
		return err
	}
	return a.printRun(run)
}

func (a *app) printRun(run http.PlanRun) error {
	if a.JSON {
		return a.Object(run)
	}
	if len(run.Generations) == 0 {
		a.Note("nothing to plan: no window was sealed since the last plan")
		return nil
	}
	rows := make([][]any, len(run.Generations))
	for i, g := range run.Generations {
		rows[i] = []any{g.Generation, g.FirstWindow, g.LastWindow, g.Split}
	}
	a.Table([]string{"generation", "first window", "last window", "split partitions"}, []int{0, 1, 2, 3}, rows)
	return nil
}
