package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/pause"
)

func (a *app) leaderCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "leader",
		Short: "The leader of the cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var to string
	transfer := &cobra.Command{
		Use:   "transfer",
		Short: "Hand leadership to another node, and wait until there is a new leader",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.change(cmd.Context(), "leadership handed over", func(ctx context.Context, c *control.Client, v *changed) error {
				return handOver(ctx, c, to, v)
			})
		},
	}
	transfer.Flags().StringVar(&to, "to", "", "id of the node that is to lead; empty: the most advanced follower")
	cmd.AddCommand(transfer)
	return cmd
}

// leaderLook is how long handOver waits before it looks again who leads.
const leaderLook = 100 * time.Millisecond

// handOver asks for the transfer and waits for the new leader, until ctx ends. The answer to the request may come from before the new
// leader's election: it names none then, or the old one. So only a leader of a later term counts.
func handOver(ctx context.Context, c *control.Client, to string, v *changed) error {
	var before, now cluster.Status
	if err := c.Get(ctx, "/v1/status", &before); err != nil {
		return err
	}
	if err := c.Post(ctx, "/v1/leader/transfer", map[string]string{"to": to}, v); err != nil {
		return err
	}
	if to != "" && to == before.Leader {
		v.Leader, v.Term = before.Leader, before.Term // it leads already, and goes on
		return nil
	}
	for more := true; more; more = pause.For(ctx, leaderLook) {
		now = cluster.Status{}
		err := c.Get(ctx, "/v1/status", &now) // one that fails may do better the next time: nodes are busy with the change
		if err == nil && now.Leader != "" && now.Term > before.Term {
			v.Leader, v.Term = now.Leader, now.Term
			return nil
		}
	}
	return fmt.Errorf("the leader of term %d, %s, was told to hand over, and no new leader is known yet: publishes wait meanwhile; "+
		"look again with \"cantus status\", or wait longer with --timeout", before.Term, orNone(before.Leader))
}
