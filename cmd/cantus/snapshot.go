package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/units"
)

// nodeSnapshot is what snapshot --all prints of a node.
type nodeSnapshot struct {
	NodeID string `json:"node_id"`
	*cluster.SnapshotInfo
	Error string `json:"error,omitempty"`
}

func (a *app) snapshotCmd() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Make a node take a snapshot now, and cut its log behind it",
		Long: `Make the node that --http reaches take a snapshot of what it has applied, and drop the part of its raft log that this and the
snapshot before make superfluous. Nodes do so by themselves as the log grows. A node with a newer snapshot starts faster.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.within(cmd.Context(), a.patience(cmd, snapshotTime), func(ctx context.Context, c *control.Client) error {
				if all {
					return a.snapshotAll(ctx, c)
				}
				var info cluster.SnapshotInfo
				if err := c.Post(ctx, "/v1/snapshot", struct{}{}, &info); err != nil {
					return err
				}
				return a.printSnapshot(info)
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "of every node of the cluster")
	return cmd
}

// snapshotTime is how long a snapshot may take unless --timeout says something: windows up to it must be archived first.
const snapshotTime = 5 * time.Minute

func (a *app) printSnapshot(info cluster.SnapshotInfo) error {
	if a.JSON {
		return a.Object(info)
	}
	a.Fields(
		[2]string{"snapshot", info.ID},
		[2]string{"log index", fmt.Sprintf("%d (term %d)", info.Index, info.Term)},
		[2]string{"stream", fmt.Sprintf("seq %s", spanText(info.FirstSeq, info.Seq))},
		[2]string{"state", units.Size(info.StateBytes)},
		[2]string{"history", fmt.Sprintf("%s in %d files, which stay where they are", units.Size(info.HistoryBytes), info.HistoryFiles)},
	)
	return nil
}

// snapshotAll asks every node of the cluster, all at once.
func (a *app) snapshotAll(ctx context.Context, c *control.Client) error {
	var s cluster.Status
	if err := c.Get(ctx, "/v1/status", &s); err != nil {
		return err
	}
	var wg sync.WaitGroup
	list := make([]nodeSnapshot, len(s.Nodes))
	for i, n := range s.Nodes {
		list[i].NodeID = n.ID
		wg.Go(func() {
			info, err := snapshotOf(ctx, n)
			if err != nil {
				list[i].Error = err.Error()
				return
			}
			list[i].SnapshotInfo = &info
		})
	}
	wg.Wait()
	return a.printNodeSnapshots(list)
}

func snapshotOf(ctx context.Context, n cluster.NodeStatus) (info cluster.SnapshotInfo, err error) {
	if n.HTTPAddr == "" {
		return info, errors.New("its HTTP address is not known: is it up?")
	}
	c, err := control.New([]string{n.HTTPAddr})
	if err != nil {
		return info, err
	}
	defer c.Close()
	return info, c.Post(ctx, "/v1/snapshot", struct{}{}, &info)
}

func (a *app) printNodeSnapshots(list []nodeSnapshot) error {
	failed := false
	rows := make([][]any, len(list))
	for i, n := range list {
		if n.SnapshotInfo == nil {
			failed = true
			rows[i] = []any{n.NodeID, "failed: " + n.Error, "", "", ""}
			continue
		}
		rows[i] = []any{n.NodeID, n.ID, n.Index, n.Seq, units.Size(n.StateBytes)}
	}
	if a.JSON {
		if err := a.Object(map[string]any{"nodes": list}); err != nil {
			return err
		}
	} else {
		a.Table([]string{"node", "snapshot", "index", "seq", "state"}, []int{2, 3, 4}, rows)
	}
	if failed {
		a.Note("not every node has taken a snapshot")
		return errQuiet
	}
	return nil
}
