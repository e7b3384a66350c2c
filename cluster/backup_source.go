package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"

	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/subtree"
)

// controlSource is a node behind its control plane.
type controlSource struct{ c *control.Client }

// NewBackupSource makes a source of a node's control plane. All requests must reach the same node: see control.Client.One.
func NewBackupSource(c *control.Client) BackupSource { return controlSource{c} }

// Snapshot implements BackupSource.
func (s controlSource) Snapshot(ctx context.Context) (string, error) {
	var info SnapshotInfo
	err := s.c.Post(ctx, "/v1/snapshot", struct{}{}, &info)
	return info.ID, err
}

// List implements BackupSource.
func (s controlSource) List(ctx context.Context, id string) ([]byte, []subtree.Meta, error) {
	var list FileList
	if err := s.c.Get(ctx, "/v1/files", &list); err != nil {
		return nil, nil, err
	}
	for _, f := range list.Files {
		if f.Damaged {
			return nil, nil, fmt.Errorf("node %s has a damaged file, %s, and mends it if another node has it: try again, or back up from another node (--http)", list.Node, f.Name)
		}
	}
	for _, snap := range list.Snapshots {
		if snap.ID == id {
			metas, err := list.metas()
			return snap.Manifest, metas, err
		}
	}
	return nil, nil, fmt.Errorf("snapshot %s: %w", id, fs.ErrNotExist)
}

// Open implements BackupSource.
func (s controlSource) Open(ctx context.Context, sum [sha256.Size]byte, offset int64) (io.ReadCloser, error) {
	return s.c.Open(ctx, fmt.Sprintf("/v1/files/%x", sum), offset)
}
