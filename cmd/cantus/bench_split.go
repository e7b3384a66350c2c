package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/subtree/plan"
	"github.com/cantus-bus/cantus/subtree/plan/compare"
)

func (a *app) benchSplitCmd() *cobra.Command {
	o := compare.Options{Budget: plan.DefaultBudget, MaxStores: plan.DefaultMaxStores}
	var names []string
	var least string
	cmd := &cobra.Command{
		Use:   "split FILE",
		Short: "Compare ways to split the topics of a recorded stream over subtree stores",
		Long: `Split the topics of a recorded stream over stores, in each of several ways, and tell what reading costs: the bytes of
all stores read, over the bytes wanted, when every topic is read once, and when every subtree is read once as well. Stores
are read whole. "adaptive" is what the broker uses.

Churn is the share of bytes whose store changes from one day's plan to the next, over the last 7 days of the stream, and
from one eighth of the stream's time to the next.`,
		Example: `  cantus bench split stream.tsv.gz
  cantus bench split stream.tsv.gz --budget 4 --algorithms adaptive,optimum-shared --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(names) == 1 && names[0] == "all" {
				names = compare.Names()
			}
			if err := checkSplit(&o, names, least); err != nil {
				return usageError{err}
			}
			file, err := dataset.Open(args[0])
			if err != nil {
				return err
			}
			defer file.Close()
			stream, err := dataset.ReadAll(file)
			if err != nil {
				return err
			}
			bar := a.Progress(int64(compare.Steps(len(names))), "planning")
			rows, err := compare.Run(cmd.Context(), stream, names, o, func() { bar.Add(1) })
			bar.Finish()
			if err != nil {
				return err
			}
			return a.printSplit(rows)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Budget, "budget", o.Budget, "stores that each partition brings, or as many as it has topics")
	f.IntVar(&o.MaxStores, "max-stores", o.MaxStores, "most stores that one partition may get of a shared budget")
	f.StringVar(&least, "min-store", "0", "volume that is not split further, such as 64KiB")
	f.StringSliceVar(&names, "algorithms", []string{"all"}, fmt.Sprintf("all, or some of %v", compare.Names()))
	return cmd
}

// checkSplit completes the options by the least size of a store.
func checkSplit(o *compare.Options, names []string, least string) error {
	size, err := units.ParseSize(least)
	if err != nil {
		return fmt.Errorf("--min-store: %w", err)
	}
	o.MinStoreBytes = uint64(size)
	if err := o.Validate(); err != nil {
		return err
	}
	return compare.CheckNames(names)
}

func (a *app) printSplit(rows []compare.Row) error {
	if a.JSON {
		return a.Object(map[string]any{"rows": rows})
	}
	header := []string{"algorithm", "stores", "read", "amplification", "with subtrees", "largest store", "fan-in", "most", "rules", "plan ms", "churn a day", "an eighth"}
	cells := make([][]any, len(rows))
	for i, r := range rows {
		cells[i] = []any{
			r.Algorithm, r.Stores, units.Size(int64(r.ReadCost)), fmt.Sprintf("%.1f", r.Amplification), fmt.Sprintf("%.1f", r.AllReads),
			units.Size(int64(r.MaxStoreBytes)), fmt.Sprintf("%.2f", r.FanInMean), r.FanInMax, r.Rules,
			fmt.Sprintf("%.1f", r.PlanMS), percent(r.Churn), percent(r.ChurnEighths),
		}
	}
	a.Table(header, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, cells)
	return nil
}

func percent(share float64) string { return fmt.Sprintf("%.2f%%", share*100) }
