package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/load"
)

// published is what pub prints for a message.
type published struct {
	Seq  uint64 `json:"seq"`
	Time string `json:"time"`
}

func (a *app) pubCmd() *cobra.Command {
	var headers []string
	cmd := &cobra.Command{
		Use:   "pub TOPIC [PAYLOAD|-]",
		Short: "Publish a message, or one for each line of standard input",
		Example: `  cantus pub app/codestore/commits 'fixed it' --header author=eva
  tail -f events.log | cantus pub app/events -`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o := load.PubOptions{Connect: a.connect("cantus pub"), Topic: args[0], Wait: a.timeout}
			for _, h := range headers {
				key, value, ok := strings.Cut(h, "=")
				if !ok || key == "" {
					return usagef("--header %q: want KEY=VALUE", h)
				}
				o.Headers = append(o.Headers, client.Header{Key: key, Value: value})
			}
			if len(args) == 2 && args[1] == "-" {
				o.Lines = a.in
			} else if len(args) == 2 {
				o.Payload = []byte(args[1])
			}
			return load.Pub(cmd.Context(), o, a.printPublished)
		},
	}
	cmd.Flags().StringArrayVar(&headers, "header", nil, "KEY=VALUE beside the payload (repeatable)")
	return cmd
}

func (a *app) printPublished(ack client.Ack) error {
	p := published{ack.Seq, ack.Time.UTC().Format(timeFormat)}
	if a.JSON {
		return a.Line(p)
	}
	a.Printf("seq %d at %s", p.Seq, p.Time)
	return nil
}
