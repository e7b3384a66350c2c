package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
)

// changed is the control plane's answer to a change of membership or leadership.
type changed struct {
	OK     bool   `json:"ok"`
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
}

// change runs one request that changes the cluster, within the timeout, and prints what it says.
func (a *app) change(ctx context.Context, done string, request func(context.Context, *control.Client, *changed) error) error {
	var answer changed
	err := a.within(ctx, a.timeout, func(ctx context.Context, c *control.Client) error { return request(ctx, c, &answer) })
	if err != nil {
		return err
	}
	switch {
	case a.JSON:
		return a.Object(answer)
	case answer.Leader == "":
		a.Printf("%s; the node that was asked knows no leader at the moment (term %d): \"cantus status\" shows when there is one", done, answer.Term)
	default:
		a.Printf("%s; leader %s, term %d", done, answer.Leader, answer.Term)
	}
	return nil
}

func (a *app) nodeCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "The members of the cluster",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.nodeListCmd(), a.nodeAddCmd(), a.nodeRemoveCmd())
	return cmd
}

func (a *app) nodeListCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the members with role, health and positions",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var answer struct {
				Nodes []cluster.NodeStatus `json:"nodes"`
			}
			if err := a.ask(cmd.Context(), "/v1/nodes", &answer); err != nil {
				return err
			}
			if a.JSON {
				return a.Object(answer)
			}
			a.printNodes(answer.Nodes)
			a.List("problems", nodeProblems(answer.Nodes))
			a.List("stepped aside", asideTexts(cluster.Status{Nodes: answer.Nodes}))
			return nil
		},
	}
}

func (a *app) nodeAddCmd() *cobra.Command {
	var replica bool
	cmd := &cobra.Command{
		Use:   "add ID RAFT_ADDRESS",
		Short: "Add a node by hand; nodes that gossip joins need no help",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"id": args[0], "raft_addr": args[1], "voter": !replica}
			return a.change(cmd.Context(), "added "+args[0], func(ctx context.Context, c *control.Client, v *changed) error {
				return c.Post(ctx, "/v1/nodes", body, v)
			})
		},
	}
	cmd.Flags().BoolVar(&replica, "replica", false, "it follows and serves readers, and never votes")
	return cmd
}

func (a *app) nodeRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "remove ID",
		Short: "Remove a node from the cluster",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.change(cmd.Context(), "removed "+args[0], func(ctx context.Context, c *control.Client, v *changed) error {
				return c.Delete(ctx, "/v1/nodes/"+url.PathEscape(args[0]), v)
			})
		},
	}
}
