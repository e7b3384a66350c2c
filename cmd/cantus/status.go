package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/units"
)

// ask gets one answer of the control plane within the timeout.
func (a *app) ask(ctx context.Context, path string, v any) error {
	c, err := a.control()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	return c.Get(ctx, path, v)
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
	health := "healthy"
	if !s.Healthy {
		health = "NOT HEALTHY: " + strings.Join(s.Problems, "; ")
	}
	a.Fields(
		[2]string{"cluster", s.ClusterID},
		[2]string{"health", health},
		[2]string{"leader", fmt.Sprintf("%s (term %d)", orNone(s.Leader), s.Term)},
		[2]string{"commit index", fmt.Sprintf("%d (applied here: %d)", s.CommitIndex, s.AppliedIndex)},
		[2]string{"stream", fmt.Sprintf("seq %d to %d, %s messages kept", s.FirstSeq, s.AppliedSeq, units.Count(int64(s.AppliedSeq+1-s.FirstSeq)))},
		[2]string{"may lose", fmt.Sprintf("%d nodes", s.FailureTolerance)},
	)
	a.Printf("")
	a.printNodes(s.Nodes)
	return nil
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (a *app) printNodes(nodes []cluster.NodeStatus) {
	rows := make([][]any, len(nodes))
	for i, n := range nodes {
		health := "ok"
		if !n.Healthy {
			health = "bad: " + n.Problem
		}
		rows[i] = []any{n.ID, n.Name, n.Role, health, n.AppliedSeq, n.LagEntries, fmt.Sprintf("%dms", n.LastContactMS), n.ClientAddr, n.HTTPAddr, n.RaftAddr}
	}
	a.Table([]string{"id", "name", "role", "health", "applied seq", "lag", "contact", "client", "http", "raft"}, []int{4, 5, 6}, rows)
}
