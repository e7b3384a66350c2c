package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/tipstore/heapbench"
	"github.com/cantus-bus/cantus/tipstore/profile"
)

func (a *app) benchTipCmd() *cobra.Command {
	c := profile.Default()
	var interleave string
	cmd := &cobra.Command{
		Use:   "tip",
		Short: "Profile reading from the tip, in this process: by index, by linear pass, and the merge with each heap",
		Long: `Profile reading from the tip, in this process. Readers that have missed all messages read a share of the topic
partitions: by the index, by a pass over everything (linear), and as the tip chooses itself. Then the same lists are merged
without a tip, once with each heap. Costs are processor time; of several measurements in turn the median counts.`,
		Example: `  cantus bench tip --selectivity 0.01,1 --readers 1,8
  cantus bench tip --partitions 2,10,100,1000 --heap loser,container-fix --interleave round-robin`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Interleave, err = profile.ParseInterleave(interleave); err != nil {
				return usageError{err}
			}
			c.Heaps = heapsNamed(c.Heaps)
			if err := c.Validate(); err != nil {
				return usageError{err}
			}
			bar := a.Progress(int64(c.Steps()), "measuring")
			rows, err := profile.Run(cmd.Context(), c, func() { bar.Add(1) })
			bar.Finish()
			if err != nil {
				return err
			}
			return a.printTip(rows)
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Messages, "messages", c.Messages, "messages that each reader has missed")
	f.IntVar(&c.Size, "size", c.Size, "payload bytes of each")
	f.IntSliceVar(&c.Partitions, "partitions", c.Partitions, "topic partitions")
	f.StringVar(&interleave, "interleave", c.Interleave.String(), "how partitions follow each other: random, round-robin, or a length of runs such as 16")
	f.IntSliceVar(&c.Readers, "readers", c.Readers, "readers at the same time")
	f.Float64SliceVar(&c.Selectivities, "selectivity", c.Selectivities, "share of the partitions that a reader wants, above 0 and up to 1")
	f.StringSliceVar(&c.Heaps, "heap", []string{"all"}, fmt.Sprintf("heaps to merge with: all, none, or some of %v", heapbench.Names()))
	f.IntVar(&c.Repeat, "repeat", c.Repeat, "measurements of each kind, of which the median counts")
	f.DurationVar(&c.MinTime, "min-time", c.MinTime, "processor time that a measurement takes at least")
	return cmd
}

// heapsNamed is what --heap stands for.
func heapsNamed(list []string) []string {
	if len(list) == 1 && list[0] == "all" {
		return heapbench.Names()
	}
	if len(list) == 1 && list[0] == "none" {
		return nil
	}
	return list
}

// printTip prints rows; for people also how each compares with the linear pass over the same, and what the index takes.
func (a *app) printTip(rows []profile.Row) error {
	if a.JSON {
		return a.Object(map[string]any{"rows": rows})
	}
	header := []string{"partitions", "readers", "selectivity", "method", "heap", "messages", "ns/message", "cpu s", "of linear", "MB/s"}
	cells := make([][]any, len(rows))
	linear := 0.0 // of the group of rows; its first two are index and linear
	for i, r := range rows {
		if r.Method == profile.Index {
			linear = rows[i+1].CPUSeconds
		}
		cells[i] = []any{
			r.Partitions, r.Readers, r.Selectivity, r.Method, r.Heap, units.Count(r.Messages), fmt.Sprintf("%.1f", r.NsPerMessage),
			fmt.Sprintf("%.6f", r.CPUSeconds), fmt.Sprintf("%.3f", r.CPUSeconds/linear), fmt.Sprintf("%.0f", r.MBPerS),
		}
	}
	a.Table(header, []int{0, 1, 2, 5, 6, 7, 8, 9}, cells)
	for i, r := range rows {
		if i == 0 || r.Partitions != rows[i-1].Partitions {
			a.Printf("index of %d partitions: %.2f bytes a message, %.2f of them in use; blocks in use when the ring was full, and turned over again and again: %d",
				r.Partitions, r.IndexBytesPerMessage, r.IndexUsedBytesPerMessage, r.BlocksFull)
		}
	}
	return nil
}
