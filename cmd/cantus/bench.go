package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/load"
)

func (a *app) benchCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.benchPublishCmd(), a.benchTipCmd(), a.benchSplitCmd(), a.benchRecoverCmd())
	return cmd
}

// benchResult is a load's result under the names that bench publish promises.
type benchResult struct {
	load.Result
	Errors int64 `json:"errors"`
}

func (a *app) benchPublishCmd() *cobra.Command {
	var o load.PublishOptions
	var payload string
	var linger time.Duration
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Load a running cluster with publishes; latency is from the call to the ack",
		Example: `  cantus bench publish --clients 4 --msgs 2000000 --size 128
  cantus bench publish --clients 1 --msgs 2000 --inflight 1   # one message at a time`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Connect, o.Linger = a.connect("cantus bench"), linger
			var err error
			if o.Payload, err = dataset.ParsePayloadKind(payload); err != nil {
				return usageError{err}
			}
			bar := a.Progress(o.Messages, "publishing")
			o.Progress = bar.Add
			r, err := load.Publish(cmd.Context(), o)
			bar.Finish()
			if err != nil {
				return err
			}
			if !a.JSON {
				return a.printLoad(r)
			}
			if err := a.Object(benchResult{r, r.Refused}); err != nil || r.Refused == 0 {
				return err
			}
			a.Note("%d refused; the first: %v", r.Refused, r.FirstError)
			return errQuiet
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Clients, "clients", 4, "connections, each with a producer of its own")
	f.Int64Var(&o.Messages, "msgs", 1_000_000, "messages in all")
	f.IntVar(&o.Size, "size", 128, "payload bytes")
	f.IntVar(&o.Topics, "topics", 1000, "distinct topics, divided among the clients, who use them in turn")
	f.StringVar(&payload, "payload", "text", "text (JSON events, compress) or random (do not)")
	f.IntVar(&o.Inflight, "inflight", 4000, "messages in flight per client; 0: the client's default, 1: one at a time")
	f.IntVar(&o.Batch, "batch", 0, "bytes of a batch; 0: the client's default")
	f.DurationVar(&linger, "linger", 0, "how long the client gathers a batch; 0: the client's default")
	f.Float64Var(&o.Rate, "rate", 0, "messages a second in all; 0: as fast as acks allow")
	bound(f, "clients", &o.Clients, 1, load.MaxClients)
	bound(f, "msgs", &o.Messages, 1, 1e15)
	bound(f, "size", &o.Size, 1, client.MaxPayload)
	bound(f, "topics", &o.Topics, 1, load.MaxTopics)
	bound(f, "inflight", &o.Inflight, 0, 1<<30)
	bound(f, "batch", &o.Batch, 0, 1<<30)
	bound(f, "linger", &linger, 0, mostTime)
	bound(f, "rate", &o.Rate, 0, 1e9)
	return cmd
}
