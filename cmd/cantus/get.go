package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/load"
)

func (a *app) getCmd() *cobra.Command {
	var o load.GetOptions
	var raw bool
	cmd := &cobra.Command{
		Use:   "get [TOPIC|FILTER...]",
		Short: "Get the last message of a topic, of each topic under filters, or the message with a seq",
		Long: `Print the last message of a topic (a/b), or of each topic under filters (a/b/**; ** is everything), all as of one seq, in no
order that means something. With --seq, what was published later does not count. Without a topic, --seq is the message to get.`,
		Example: `  cantus get shop/berlin/limits
  cantus get 'shop/**' --json
  cantus get --seq 4711
  cantus get shop/berlin/limits --seq 4711   # the last one by then`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !cmd.Flags().Changed("seq") {
				return usagef("want a topic, filters, or --seq")
			}
			o.Connect, o.Filters, o.Timeout = a.connect("cantus get"), args, a.timeout
			return load.Get(cmd.Context(), o, a.messagePrinter(raw))
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&o.Seq, "seq", 0, "the message to get; with a topic or filters: the newest seq that counts, 0: all do")
	f.Uint64Var(&o.MinSeq, "min-seq", 0, "ask a node that has at least this seq")
	f.BoolVar(&o.Linearizable, "linearizable", false, "see everything that was acknowledged to anyone before; needs a leader")
	f.DurationVar(&o.Wait, "wait", time.Second, "how long a node may take to get what it does not have yet")
	bound(f, "wait", &o.Wait, 0, mostTime)
	f.BoolVar(&raw, "raw", false, "print only payloads, each followed by a newline")
	return cmd
}
