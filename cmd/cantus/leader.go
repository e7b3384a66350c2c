package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/internal/control"
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
		Short: "Hand leadership to another node",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.change(cmd.Context(), "leadership handed over", func(ctx context.Context, c *control.Client, v *changed) error {
				return c.Post(ctx, "/v1/leader/transfer", map[string]string{"to": to}, v)
			})
		},
	}
	transfer.Flags().StringVar(&to, "to", "", "id of the node that is to lead; empty: the most advanced follower")
	cmd.AddCommand(transfer)
	return cmd
}
