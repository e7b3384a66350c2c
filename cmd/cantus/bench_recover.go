package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/load"
	"github.com/cantus-bus/cantus/internal/units"
)

func (a *app) benchRecoverCmd() *cobra.Command {
	var o load.RecoverOptions
	cmd := &cobra.Command{
		Use:   "recover FILTER...",
		Short: "Read topics and subtrees of a running node from the first message on, and tell what it read from disk for them",
		Long: `Read the union of the filters from the first message to caught-up, by several readers at once, from one node: what a client
does that starts anew. Amplification is what the node decompressed, over what the messages from history take as records: 1 would
be perfect. Disk bytes are what it read from its files, compressed, indexes included; the system's cache may have had them.
Counts are the node's own, so other readers of it count too.`,
		Example: `  cantus bench recover 'ansible/lib/**'
  cantus bench recover '**' --readers 20 --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.Control, err = a.control(); err != nil {
				return err
			}
			defer o.Control.Close()
			o.Connect, o.Filters = a.connect("cantus bench"), args
			bar := a.Progress(-1, "reading")
			o.Message = bar.Add
			r, err := load.Recover(cmd.Context(), o)
			bar.Finish()
			if err != nil {
				return err
			}
			return a.printRecovery(r)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Readers, "readers", 1, "readers at once, each with a connection of its own")
	f.StringVar(&o.Node, "at", "", "read from this node (id or client address); empty: the one that --http reaches")
	bound(f, "readers", &o.Readers, 1, load.MaxReaders)
	return cmd
}

func (a *app) printRecovery(r load.RecoverResult) error {
	if a.JSON {
		return a.Object(r)
	}
	a.Fields(
		[2]string{"node", r.Node},
		[2]string{"came from", recoverySource(r)},
		[2]string{"messages", fmt.Sprintf("%s by %d readers (%s from history, %s from the tip)", units.Count(int64(r.Messages)), r.Readers,
			units.Count(int64(r.FromHistory)), units.Count(int64(r.FromTip)))},
		[2]string{"bytes", units.Size(int64(r.Bytes))},
		[2]string{"read from disk", fmt.Sprintf("%s, %s decompressed", units.Size(int64(r.DiskBytes)), units.Size(int64(r.DecodedBytes)))},
		[2]string{"amplification", fmt.Sprintf("%.2f", r.Amplification)},
		[2]string{"elapsed", units.Millis(msDuration(r.ElapsedMS))},
		[2]string{"first message", units.Millis(msDuration(r.TTFBMS))},
		[2]string{"rate", fmt.Sprintf("%s, %s/s", units.Rate(r.PerSecond), units.Size(int64(r.MBPerS*1e6)))},
	)
	return nil
}

// howToMeasureHistory is for figures that are of the tip.
const howToMeasureHistory = "To measure history, let the stream outgrow the tip (tip.size), then read again. On a small stream: " +
	"cantus serve --dev --set tip.size=8MiB --set tip.chunk=2MiB --set history.window_bytes=64KiB, and publish some 20 MB"

// recoverySource says whether the figures are of history, and what makes them so if they are not.
func recoverySource(r load.RecoverResult) string {
	share := 100 * float64(r.FromHistory) / float64(max(r.Messages, 1))
	switch {
	case r.Messages == 0:
		return "nowhere: there is no message of these topics. See \"cantus topics\""
	case r.FromHistory == 0:
		return "the tip alone: nothing was read from history on disk. " + howToMeasureHistory
	case share < 50:
		return fmt.Sprintf("history for %.3g%% of the messages, the tip, in memory, for the others: rates are the tip's for the most part. %s", share, howToMeasureHistory)
	case r.FromTip == 0:
		return "history alone"
	}
	return fmt.Sprintf("history for %.3g%% of the messages, the tip, in memory, for the others", share)
}
