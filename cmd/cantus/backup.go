package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/units"
)

// backedUp is what backup prints.
type backedUp struct {
	Dir string `json:"dir"`
	cluster.BackupResult
	HistoryFiles int     `json:"history_files"`
	ElapsedMS    float64 `json:"elapsed_ms"`
	History      any     `json:"history,omitempty"` // hides the list: BACKUP.json has it
}

func (a *app) backupCmd() *cobra.Command {
	var check bool
	cmd := &cobra.Command{
		Use:   "backup DIR",
		Short: "Copy the whole stream of a running node into a folder, or check such a folder",
		Long: `Make the node that --http reaches take a snapshot, and copy it with all of history into a folder. The node goes on meanwhile. Each
file is checked by its hash. Interrupted, the same command goes on where it stopped; into a folder that holds a backup it fetches
only what is new, and what has been damaged there since.

With --check nothing is fetched: every byte of the folder is read and checked, and the state is loaded.`,
		Example: `  cantus backup /backups/orders
  cantus backup --check /backups/orders`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if check {
				return a.checkBackup(cmd.Context(), args[0])
			}
			return a.backUp(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&check, "check", false, "check the backup in the folder, without a node")
	return cmd
}

func (a *app) backUp(ctx context.Context, dir string) error {
	c, err := a.control()
	if err != nil {
		return err
	}
	defer c.Close()
	one, err := c.One(ctx)
	if err != nil {
		return err
	}
	bar := a.ProgressBytes("fetching")
	began := time.Now()
	r, err := cluster.Backup(ctx, cluster.BackupOptions{Dir: dir, Source: cluster.NewBackupSource(one), Progress: bar.Set})
	bar.Finish()
	if err != nil && r.FetchedBytes > 0 {
		return fmt.Errorf("%w\n%s were fetched and are kept: the same command goes on from there", err, units.Size(r.FetchedBytes))
	}
	if err != nil {
		return err
	}
	return a.printBackup(backedUp{
		Dir: dir, BackupResult: r, HistoryFiles: len(r.History), ElapsedMS: float64(time.Since(began)) / float64(time.Millisecond),
	})
}

func (a *app) printBackup(b backedUp) error {
	if a.JSON {
		return a.Object(b)
	}
	fields := [][2]string{
		{"backup", b.Dir},
		{"cluster", b.ClusterID},
		{"stream", "seq " + spanText(b.FirstSeq, b.Seq)},
		{"size", fmt.Sprintf("%s, history in %d files", units.Size(b.Bytes), b.HistoryFiles)},
		{"fetched", fmt.Sprintf("%s in %s", units.Size(b.FetchedBytes), units.Millis(msDuration(b.ElapsedMS)))},
	}
	if b.ReplacedFiles > 0 {
		fields = append(fields, [2]string{"mended", fmt.Sprintf("%d damaged files in the folder, fetched again", b.ReplacedFiles)})
	}
	a.Fields(fields...)
	return nil
}

func (a *app) checkBackup(ctx context.Context, dir string) error {
	bar := a.ProgressBytes("checking")
	info, err := cluster.CheckBackup(ctx, dir, bar.Set)
	bar.Finish()
	if err != nil {
		return err
	}
	if a.JSON {
		return a.Object(backedUp{Dir: dir, BackupResult: cluster.BackupResult{BackupInfo: *info}, HistoryFiles: len(info.History)})
	}
	a.Printf("%s is a whole backup of cluster %s: seq %s, %s, taken %s", dir, info.ClusterID, spanText(info.FirstSeq, info.Seq),
		units.Size(info.Bytes), info.Time.Format(time.RFC3339))
	return nil
}

func (a *app) restoreCmd() *cobra.Command {
	var data string
	cmd := &cobra.Command{
		Use:   "restore DIR --data FOLDER",
		Short: "Make a new cluster's data folder of a backup, offline",
		Long: `Check the backup in DIR and make a data folder of it, for the first node of a new cluster: ids of cluster and node are new, and the
new node is its only voter. Start it, then start other nodes with empty data folders that join it; they fetch history from it.`,
		Example: "  cantus restore /backups/orders --data /var/lib/cantus",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if data == "" {
				return usagef("restore: name the data folder to make with --data")
			}
			bar := a.ProgressBytes("restoring")
			r, err := cluster.RestoreBackup(cmd.Context(), args[0], data, bar.Set)
			bar.Finish()
			if err != nil {
				return err
			}
			return a.printRestored(r)
		},
	}
	cmd.Flags().StringVar(&data, "data", "", "data folder to make (node.data of the configuration); it must be empty or not exist")
	return cmd
}

func (a *app) printRestored(r cluster.RestoreResult) error {
	if a.JSON {
		return a.Object(r)
	}
	a.Fields(
		[2]string{"data folder", r.DataDir},
		[2]string{"new cluster", fmt.Sprintf("%s (the backup is of %s)", r.ClusterID, r.FromID)},
		[2]string{"new node", r.NodeID + ", its only voter"},
		[2]string{"stream", "seq " + spanText(r.FirstSeq, r.Seq)},
		[2]string{"size", fmt.Sprintf("%s, history in %d files", units.Size(r.Bytes), r.Files)},
	)
	a.Note(`
What to do next:
  1. start this node alone: its node.data is %s; bootstrap_expect does not matter
  2. when "cantus status" shows that it leads, start the other nodes with EMPTY data folders and its gossip address under cluster.join
  3. they fetch history from it and become voters by themselves; nodes of the old cluster do not belong here`, r.DataDir)
	return nil
}
