package main

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/load"
	"github.com/cantus-bus/cantus/internal/units"
)

// received is what sub prints for a message. A payload that is no UTF-8 text goes into payload_base64.
type received struct {
	Seq     uint64            `json:"seq"`
	Time    string            `json:"time"`
	Topic   string            `json:"topic"`
	Size    int               `json:"size"`
	Headers map[string]string `json:"headers,omitempty"`
	Payload *string           `json:"payload,omitempty"`
	Base64  string            `json:"payload_base64,omitempty"`
}

func (a *app) subCmd() *cobra.Command {
	var from, to, node string
	var stats, raw, follower bool
	var o load.ReadOptions
	cmd := &cobra.Command{
		Use:   "sub FILTER...",
		Short: "Read topics and subtrees, from any place of the stream",
		Long: `Read the union of the filters, each message once, in the order of the stream. A filter is a topic (a/b) or a
subtree (a/b/**); ** is everything. A lost connection is made good without a gap or a repeat.`,
		Example: `  cantus sub 'app/codestore/**'
  cantus sub '**' --from first --to caught-up --stats
  cantus sub app/a 'app/b/**' --from -5m --count 10 --json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			start, err := client.ParseStart(from)
			if err != nil {
				return usageError{err}
			}
			if to != "forever" && to != "caught-up" {
				return usagef("--to %q: want forever or caught-up", to)
			}
			o.Connect, o.CaughtUp = a.connect("cantus sub"), to == "caught-up"
			o.Subscribe = client.SubscribeOptions{Filters: args, From: start, PreferFollower: follower, Node: node}
			if !stats {
				o.Message = a.messagePrinter(raw)
			}
			r, err := load.Read(cmd.Context(), o)
			if err != nil {
				return err
			}
			if stats {
				return a.printRead(r)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "now", "first, now, a seq, an RFC 3339 time, or a span back such as -5m")
	f.StringVar(&to, "to", "forever", "forever, or caught-up: end when everything was read that was there at the start")
	f.Uint64Var(&o.Count, "count", 0, "end after so many messages; 0: do not")
	f.BoolVar(&stats, "stats", false, "print only the summary")
	f.BoolVar(&raw, "raw", false, "print only payloads, each followed by a newline")
	f.BoolVar(&follower, "follower", false, "read from a node that does not lead, if there is one")
	f.StringVar(&node, "at", "", "read from this node (id or client address), if it can be reached")
	return cmd
}

func (a *app) messagePrinter(raw bool) func(*client.Message) error {
	return func(m *client.Message) error {
		switch {
		case raw:
			_, err := fmt.Fprintf(a.Out, "%s\n", m.Payload)
			return err
		case a.JSON:
			return a.Line(toReceived(m))
		}
		var headers strings.Builder
		for _, h := range m.Headers() {
			fmt.Fprintf(&headers, "%s=%s ", h.Key, h.Value)
		}
		_, err := fmt.Fprintf(a.Out, "%d  %s  %s  %s%s\n", m.Seq, m.Time.UTC().Format(timeFormat), m.Topic, headers.String(), printable(m.Payload))
		return err
	}
}

func toReceived(m *client.Message) received {
	r := received{Seq: m.Seq, Time: m.Time.UTC().Format(timeFormat), Topic: m.Topic, Size: len(m.Payload)}
	for _, h := range m.Headers() {
		if r.Headers == nil {
			r.Headers = map[string]string{}
		}
		r.Headers[h.Key] = h.Value
	}
	if utf8.Valid(m.Payload) {
		text := string(m.Payload)
		r.Payload = &text
	} else {
		r.Base64 = base64.StdEncoding.EncodeToString(m.Payload)
	}
	return r
}

// shownPayload is how many bytes of a payload people see.
const shownPayload = 160

// printable makes a payload safe and short for a terminal.
func printable(payload []byte) string {
	rest := ""
	if len(payload) > shownPayload {
		rest = fmt.Sprintf("… (%s)", units.Size(int64(len(payload))))
		payload = payload[:shownPayload]
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '·'
	}, string(payload)) + rest
}

func (a *app) printRead(r load.ReadResult) error {
	if a.JSON {
		return a.Object(r)
	}
	a.Fields(
		[2]string{"messages", fmt.Sprintf("%d (%d from history, %d from the tip, %d live)", r.Messages, r.FromHistory, r.FromTip, r.FromLive)},
		[2]string{"bytes", fmt.Sprintf("%d (%s)", r.Bytes, units.Size(int64(r.Bytes)))},
		[2]string{"seq", spanText(r.FirstSeq, r.LastSeq)},
		[2]string{"elapsed", units.Millis(msDuration(r.ElapsedMS))},
		[2]string{"first message", units.Millis(msDuration(r.TTFBMS))},
		[2]string{"rate", units.Rate(r.PerSecond)},
		[2]string{"resumed", fmt.Sprint(r.Resumed)},
	)
	return nil
}
