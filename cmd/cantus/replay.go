package main

import (
	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/load"
	"github.com/cantus-bus/cantus/internal/units"
)

func (a *app) replayCmd() *cobra.Command {
	var speed, payload string
	var producers, inflight int
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Publish a recorded stream: unix_seconds TAB topic TAB bytes, gzip or plain, one header line",
		Long: `Publish a recorded stream. Payloads are made from the row number, so they are the same every time.
With one producer the stream has the file's order; with more, each topic has.`,
		Example: "  cantus replay stream.tsv.gz --speed 20x --producers 4",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := load.ReplayOptions{Connect: a.connect("cantus replay"), Producers: producers, Inflight: inflight}
			var err error
			if o.Speed, err = load.ParseSpeed(speed); err != nil {
				return usageError{err}
			}
			if o.Payload, err = dataset.ParsePayloadKind(payload); err != nil {
				return usageError{err}
			}
			if o.Rows, err = dataset.Open(args[0]); err != nil {
				return err
			}
			defer o.Rows.Close()
			bar := a.Progress(-1, "replaying")
			o.Progress = bar.Add
			r, err := load.Replay(cmd.Context(), o)
			bar.Finish()
			if err != nil {
				return err
			}
			return a.printLoad(r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&speed, "speed", "max", "max, original, or a factor such as 20x")
	f.IntVar(&producers, "producers", 1, "publishers, each with the topics that fall to it")
	f.StringVar(&payload, "payload", "text", "text (compresses) or random (does not)")
	f.IntVar(&inflight, "inflight", 0, "messages in flight per producer; 0: the client's default, 1: one at a time")
	bound(f, "producers", &producers, 1, load.MaxProducers)
	bound(f, "inflight", &inflight, 0, 1<<30)
	return cmd
}

// printLoad prints a load's result; refused messages fail the command.
func (a *app) printLoad(r load.Result) error {
	if a.JSON {
		if err := a.Object(r); err != nil {
			return err
		}
	} else {
		a.Fields(
			[2]string{"published", units.Count(r.Published)},
			[2]string{"acked", units.Count(r.Acked)},
			[2]string{"refused", units.Count(r.Refused)},
			[2]string{"elapsed", units.Millis(msDuration(r.ElapsedMS))},
			[2]string{"rate", units.Rate(r.PerSecond) + ", " + units.Size(int64(r.MBPerS*1e6)) + "/s"},
			[2]string{"seq", spanText(r.FirstSeq, r.LastSeq)},
			[2]string{"ack p50", units.Millis(msDuration(r.P50MS))},
			[2]string{"ack p99", units.Millis(msDuration(r.P99MS))},
			[2]string{"ack p99.9", units.Millis(msDuration(r.P999MS))},
			[2]string{"ack max", units.Millis(msDuration(r.MaxMS))},
		)
	}
	if r.FirstError != nil {
		a.Note("%d refused; the first: %v", r.Refused, r.FirstError)
		return errQuiet
	}
	return nil
}
