package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/units"
)

// ask gets one answer of the control plane within the timeout.
func (a *app) ask(ctx context.Context, path string, v any) error {
	return a.askFor(ctx, a.timeout, path, v)
}

// patience is --timeout, or longer if the user has named none.
func (a *app) patience(cmd *cobra.Command, long time.Duration) time.Duration {
	if cmd.Flags().Changed("timeout") {
		return a.timeout
	}
	return max(a.timeout, long)
}

// askFor gets one answer within a time.
func (a *app) askFor(ctx context.Context, wait time.Duration, path string, v any) error {
	return a.within(ctx, wait, func(ctx context.Context, c *control.Client) error { return c.Get(ctx, path, v) })
}

// within makes requests to the control plane, all of them within a time.
func (a *app) within(ctx context.Context, wait time.Duration, requests func(context.Context, *control.Client) error) error {
	c, err := a.control()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return requests(ctx, c)
}

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the cluster: leader, term, positions, lag and health of each node; exit code 1 if it is unhealthy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s cluster.Status
			if err := a.ask(cmd.Context(), "/v1/status", &s); err != nil {
				return err
			}
			if err := a.printStatus(s); err != nil {
				return err
			}
			if !s.Healthy {
				return errQuiet
			}
			return nil
		},
	}
}

func (a *app) printStatus(s cluster.Status) error {
	if a.JSON {
		return a.Object(s)
	}
	fields := [][2]string{
		{"cluster", s.ClusterID},
		{"health", healthText(s)},
		{"leader", leaderText(s)},
		{"commit index", fmt.Sprintf("%d (applied here: %d)", s.CommitIndex, s.AppliedIndex)},
		{"stream", streamText(s)},
		{"may lose", toleranceText(s.FailureTolerance)},
	}
	a.Fields(append(fields, diskFields(s, time.Now())...)...)
	a.Printf("")
	a.printNodes(s.Nodes)
	a.List("problems", s.Problems)
	a.List("stepped aside", asideTexts(s))
	return nil
}

func streamText(s cluster.Status) string {
	if s.AppliedSeq+1 == s.FirstSeq || s.AppliedSeq == 0 {
		return fmt.Sprintf("no message is kept; the next has seq %d", s.AppliedSeq+1)
	}
	return fmt.Sprintf("seq %d to %d, %s messages kept", s.FirstSeq, s.AppliedSeq, units.Count(int64(s.AppliedSeq+1-s.FirstSeq)))
}

// toleranceText says how many voters may fail now.
func toleranceText(n int) string {
	switch n {
	case 0:
		return "no node: without one more, publishes stop"
	case 1:
		return "1 node, and publishes go on"
	}
	return fmt.Sprintf("%d nodes, and publishes go on", n)
}

// healthText is the cluster's state.
func healthText(s cluster.Status) string {
	switch {
	case s.Healthy:
		return "healthy"
	case s.State == "": // a node of an older version
		s.State = "not healthy"
	}
	return strings.ToUpper(s.State) + " (the problems are below)"
}

// diskFields tell what the node that answers keeps on disk.
func diskFields(s cluster.Status, now time.Time) (fields [][2]string) {
	if s.CatchUp != nil {
		fields = append(fields, [2]string{"catching up", s.CatchUp.String()})
	}
	h := s.History
	if h == nil {
		return append(fields, [2]string{"history here", "none is kept: readers go back as far as the tip"})
	}
	text := fmt.Sprintf("seq %s, %s in %d files", spanText(h.FirstSeq, h.LastSeq), units.Size(h.Bytes), h.Files)
	if h.PendingWindows > 0 || h.PendingGenerations > 0 {
		text += fmt.Sprintf("; %d windows and %d generations are to be written", h.PendingWindows, h.PendingGenerations)
	}
	fields = append(fields, [2]string{"history here", text})
	if scrubs := scrubText(h, now); scrubs != "" {
		fields = append(fields, [2]string{"scrubbed here", scrubs})
	}
	if len(h.Damaged) > 0 {
		fields = append(fields, [2]string{"damaged", strings.Join(h.Damaged, "; ")})
	}
	snapshot := "none yet"
	if s.Snapshot != nil {
		log := "is empty"
		if s.LogFirstIndex > 0 {
			log = fmt.Sprintf("begins at index %d", s.LogFirstIndex)
		}
		snapshot = fmt.Sprintf("seq %d, %s ago, %s; the log here %s", s.Snapshot.Seq, units.Age(now.Sub(s.Snapshot.Time)), units.Size(s.Snapshot.StateBytes), log)
	}
	return append(fields, [2]string{"snapshot here", snapshot})
}

// scrubText tells what was checked of history and repaired since the node started; "" if nothing was.
func scrubText(h *cluster.HistoryStatus, now time.Time) string {
	var parts []string
	if h.ScrubbedBytes > 0 {
		parts = append(parts, units.Size(int64(h.ScrubbedBytes))+" since the start")
	}
	if h.LastScrub > 0 {
		parts = append(parts, fmt.Sprintf("all of it %s ago", units.Age(now.Sub(time.Unix(0, h.LastScrub)))))
	}
	if h.Repaired > 0 {
		parts = append(parts, fmt.Sprintf("%d damaged files were replaced by other nodes'", h.Repaired))
	}
	return strings.Join(parts, ", ")
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
