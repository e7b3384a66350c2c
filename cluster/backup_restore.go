package cluster

import (
	"context"

	"errors"
	"fmt"

	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/subtree"
)

// A backup is restored into a data folder of a new cluster with one node:
//
//  1. RESTORING is made: no node starts on the folder while it is there, and restoring again may begin anew
//  2. history/, all files, then its manifest
//  3. snapshots/, the state file, then a manifest that names the new cluster, and the new node as its only voter
//  4. raft/stable.db with the snapshot's term, so that no vote goes back behind it
//  5. identity.json with the new ids
//  6. RESTORING is removed: the commit point
//
// The log is empty, which is right behind a snapshot. The ids are new so that the restored cluster and the one that the backup was made
// of can never take each other for themselves.
const restoringFile = "RESTORING"

// restoredAddr is the new node's address in raft's configuration. It is never dialled: nodes ask gossip where a server is.
const restoredAddr = "restored:0"

// ErrNotEmpty: the folder to restore into holds something.
var ErrNotEmpty = errors.New("folder is not empty")

// RestoreResult says what a backup became.
type RestoreResult struct {
	DataDir   string `json:"data_dir"`
	NodeID    string `json:"node_id"`    // new
	ClusterID string `json:"cluster_id"` // new
	FromID    string `json:"from_cluster_id"`
	FirstSeq  uint64 `json:"first_seq"`
	Seq       uint64 `json:"seq"`
	Files     int    `json:"files"` // of history
	Bytes     int64  `json:"bytes"` // of all files
}

// RestoreBackup checks a whole backup and makes a data folder of it, which must be empty or not exist. Progress is told of bytes
// checked, then of bytes written; it may be nil.
func RestoreBackup(ctx context.Context, dir, dataDir string, progress func(done, total int64)) (RestoreResult, error) {
	r, err := restoreBackup(ctx, vfs.OS(), dir, dataDir, progress)
	if err != nil {
		return r, fmt.Errorf("restore %s into %s: %w", dir, dataDir, err)
	}
	return r, nil
}

func restoreBackup(ctx context.Context, fsys vfs.FS, dir, dataDir string, progress func(done, total int64)) (RestoreResult, error) {
	if err := checkVacant(dataDir); err != nil {
		return RestoreResult{}, err
	}
	b, err := openBackup(ctx, fsys, dir, progress)
	if err != nil {
		return RestoreResult{}, err
	}
	b.done = 0
	id := identity{Format: identityFormat, NodeID: uuid.NewString(), ClusterID: uuid.NewString()}
	r := restoring{wholeBackup: b, data: dataDir, id: id}
	if err := r.run(ctx); err != nil {
		return RestoreResult{}, err
	}
	return RestoreResult{
		DataDir: dataDir, NodeID: id.NodeID, ClusterID: id.ClusterID, FromID: b.info.ClusterID,
		FirstSeq: b.info.FirstSeq, Seq: b.info.Seq, Files: len(b.info.History), Bytes: b.info.Bytes,
	}, nil
}

// checkVacant refuses a folder that holds anything but an attempt to restore that was not finished.
func checkVacant(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if unfinished(dir) {
		return nil
	}
	for _, e := range entries {
		if name := e.Name(); name != lockFile && name != restoringFile+tempSuffix { // what an attempt leaves that ended before it was noted
			return fmt.Errorf("%w: it has %s: name a new folder, or empty this one", ErrNotEmpty, name)
		}
	}
	return nil
}

// unfinished tells whether restoring into a folder has begun and not ended.
func unfinished(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, restoringFile))
	return err == nil
}

// restoring is a restore under way.
type restoring struct {
	*wholeBackup
	data string
	id   identity
}

func (r *restoring) run(ctx context.Context) error {
	if err := os.MkdirAll(r.data, 0o700); err != nil {
		return err
	}
	lock, err := lockFolder(r.data)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := vfs.Replace(r.fs, filepath.Join(r.data, restoringFile), []byte("from "+r.dir+"\n")); err != nil {
		return err
	}
	for _, part := range []string{historyDir, snapshotDir, raftDir} {
		if err := os.RemoveAll(filepath.Join(r.data, part)); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{r.history, r.snapshot, r.term} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	err = r.id.save(r.fs, r.data)
	if err == nil {
		err = r.fs.SyncDir(filepath.Dir(filepath.Clean(r.data))) // before the folder counts
	}
	if err == nil {
		err = r.fs.Remove(filepath.Join(r.data, restoringFile))
	}
	if err == nil {
		err = r.fs.SyncDir(r.data)
	}
	return err
}

// history writes the files of history and the manifest that names them.
func (r *restoring) history(ctx context.Context) (err error) {
	store, err := subtree.Open(r.fs, filepath.Join(r.data, historyDir), r.table, subtree.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	metas := make([]subtree.Meta, len(r.info.History))
	for i := range r.info.History {
		f := &r.info.History[i]
		metas[i] = f.meta
		in, err := store.Receive(f.meta)
		if err != nil {
			return err
		}
		err = r.copyFile(ctx, f.BackupFile, in)
		if err == nil {
			err = in.Commit()
		}
		if err = errors.Join(err, in.Close()); err != nil {
			return fmt.Errorf("write %s: %w", f.Name, err)
		}
	}
	if len(metas) == 0 {
		return nil
	}
	return store.Install(metas)
}

// snapshot writes the snapshot as the new cluster's.
func (r *restoring) snapshot(ctx context.Context) error {
	store, err := openSnapshots(r.fs, filepath.Join(r.data, snapshotDir), hclog.NewNullLogger())
	if err != nil {
		return err
	}
	m := *r.manifest
	m.cluster = r.id.ClusterID
	m.config = raft.Configuration{Servers: []raft.Server{{Suffrage: raft.Voter, ID: raft.ServerID(r.id.NodeID), Address: restoredAddr}}}
	m.files = nil
	for i := range r.info.History {
		f := &r.info.History[i].meta
		m.files = append(m.files, snapFile{name: f.Name(), size: f.Size, sum: f.SHA256})
	}
	in, err := store.receiveState(m.stateSum, m.stateSize)
	if err != nil {
		return err
	}
	err = r.copyFile(ctx, r.info.State, in)
	if err == nil {
		err = in.Commit()
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return store.put(m.encode())
}

// term writes raft's term: a vote below the snapshot's would give the log entries of a term that has passed.
func (r *restoring) term(context.Context) (err error) {
	dir := filepath.Join(r.data, raftDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	stable, err := openBolt(filepath.Join(dir, "stable.db"), 0)
	if err != nil {
		return err
	}
	err = stable.SetUint64(termKey, r.manifest.term)
	return errors.Join(err, stable.Close(), r.fs.SyncDir(dir))
}

// refuseUnfinished keeps a node off a folder that holds half a backup.
func refuseUnfinished(dir string) error {
	if unfinished(dir) {
		return fmt.Errorf("data folder %s: restoring a backup into it did not finish: restore again, or empty the folder", dir)
	}
	return nil
}
