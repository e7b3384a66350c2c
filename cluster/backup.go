package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/subtree"
)

// A backup is a folder:
//
//	BACKUP.json     what it holds; written last, so that a folder with it is a whole backup
//	files/<sha256>  the snapshot's manifest, its state file, and the files of history
//	files/*.part    being fetched
//
// Files are named by their hash and get that name when the hash was checked. So a backup that was interrupted goes on where it
// stopped, and one that is made again into the same folder fetches only what is new, and what has been damaged there since; until the
// new BACKUP.json has its name the old one is whole.
const (
	backupDoc    = "BACKUP.json"
	backupFiles  = "files"
	backupFormat = 1

	// backupRounds is how often a backup begins with a new snapshot because files went away under it: a rewrite or retention
	// replaces them while the node goes on. What was fetched stays, so each round has only the newer part to fetch.
	backupRounds = 10
)

// errBackupMoved: the node no longer has what the snapshot needs in the shape that it listed.
var errBackupMoved = errors.New("files went away while they were fetched")

// ErrBackup is the family of backups that are incomplete or damaged.
var ErrBackup = errors.New("backup is not whole")

// BackupSource is a running node, as a backup sees it.
type BackupSource interface {
	// Snapshot makes the node take one, and returns its id.
	Snapshot(ctx context.Context) (id string, err error)
	// List returns the bytes of a snapshot's manifest, and the files of history in the order of the stream. errors.Is(err,
	// fs.ErrNotExist) if the node does not have the snapshot (any more).
	List(ctx context.Context, id string) (manifest []byte, history []subtree.Meta, err error)
	// Open reads the file of a hash from an offset on. errors.Is(err, fs.ErrNotExist) if the node does not have it (any more).
	Open(ctx context.Context, sum [sha256.Size]byte, offset int64) (io.ReadCloser, error)
}

// BackupOptions of Backup.
type BackupOptions struct {
	Dir      string // made if it does not exist
	Source   BackupSource
	Progress func(done, total int64) // bytes of the files of the round; may be nil
	FS       vfs.FS                  // nil: the system's
}

// BackupFile is a file of a backup.
type BackupFile struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hexadecimal
}

// BackupHistoryFile is a file of history in a backup.
type BackupHistoryFile struct {
	BackupFile
	Name     string `json:"name"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	Meta     []byte `json:"meta"` // the file's row in the manifest of history

	meta subtree.Meta // Invariant: what Meta says
}

// BackupInfo is what a backup holds, as BACKUP.json says it.
type BackupInfo struct {
	Format    int       `json:"format"`
	ClusterID string    `json:"cluster_id"` // of the cluster that it was made of
	Snapshot  string    `json:"snapshot"`   // its id
	Time      time.Time `json:"time"`       // when the snapshot was taken
	Index     uint64    `json:"index"`      // of the raft log
	Term      uint64    `json:"term"`
	FirstSeq  uint64    `json:"first_seq"` // oldest message kept
	Seq       uint64    `json:"seq"`       // newest
	Bytes     int64     `json:"bytes"`     // of all files

	Manifest BackupFile          `json:"manifest"`
	State    BackupFile          `json:"state"`
	History  []BackupHistoryFile `json:"history"`
	Check    string              `json:"check"` // SHA-256 of BACKUP.json with this empty

	doc []byte // BACKUP.json as it was read
}

// BackupResult is what making a backup took.
type BackupResult struct {
	BackupInfo
	FetchedBytes  int64 `json:"fetched_bytes"`  // over the network, this time
	ReplacedFiles int   `json:"replaced_files"` // that were here, damaged, and were fetched again
	Rounds        int   `json:"rounds"`         // snapshots taken until nothing went away meanwhile
}

// Backup takes a snapshot on a running node and fetches it with all of history. Whatever ends it early, the same call goes on.
func Backup(ctx context.Context, o BackupOptions) (BackupResult, error) {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	b := &backup{o: o, fs: o.FS, files: filepath.Join(o.Dir, backupFiles), checked: map[string]bool{}}
	if err := b.run(ctx); err != nil {
		return b.result, fmt.Errorf("back up into %s: %w", o.Dir, err)
	}
	return b.result, nil
}

// backup is one under way.
type backup struct {
	o           BackupOptions
	fs          vfs.FS
	files       string          // the folder
	cluster     string          // of the backup that is here already, "" if none is
	checked     map[string]bool // files here, by hash, that are whole: read or fetched by this call
	done, total int64           // of the round
	result      BackupResult
}

func (b *backup) run(ctx context.Context) error {
	if err := b.fs.MkdirAll(b.files); err != nil {
		return err
	}
	old, err := readBackup(b.fs, b.o.Dir)
	switch {
	case err == nil:
		b.cluster = old.ClusterID
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	for b.result.Rounds < backupRounds {
		b.result.Rounds++
		if err = b.round(ctx); !errors.Is(err, errBackupMoved) {
			return err
		}
	}
	return fmt.Errorf("%w %d times: the node rewrites history faster than it is fetched: run it again when it is calmer", err, backupRounds)
}

// round takes a snapshot and fetches what it needs and is not here. The document is the commit point.
func (b *backup) round(ctx context.Context) error {
	id, err := b.o.Source.Snapshot(ctx)
	if err != nil {
		return err
	}
	blob, history, err := b.o.Source.List(ctx, id)
	if err != nil {
		return moved(err)
	}
	info, err := describeBackup(blob, history)
	if err != nil {
		return err
	}
	if b.cluster != "" && b.cluster != info.ClusterID {
		return fmt.Errorf("%w: its backup is of cluster %s, and the node that was asked is of cluster %s: nothing in the folder was changed: name another folder, or a node of the first cluster",
			ErrForeignCluster, b.cluster, info.ClusterID)
	}
	b.done, b.total = 0, info.Bytes
	if err := b.keep(info.Manifest, blob); err != nil {
		return err
	}
	if err := b.fetch(ctx, info.State); err != nil {
		return err
	}
	// The newest files first: they are small, and what is rewritten soon.
	for _, f := range slices.Backward(info.History) {
		if err := b.fetch(ctx, f.BackupFile); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	if err := b.finish(info); err != nil {
		return err
	}
	b.result.BackupInfo = *info
	return b.prune(info)
}

// moved says that what does not exist (any more) is no failure of the backup.
func moved(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", errBackupMoved, err)
	}
	return err
}

// describeBackup puts together what a backup of a snapshot holds. History must reach exactly to the snapshot's last window: what is
// beyond would be of messages that the restored cluster has not published.
func describeBackup(blob []byte, history []subtree.Meta) (*BackupInfo, error) {
	m, err := decodeSnapManifest(blob)
	if err != nil {
		return nil, err
	}
	info := &BackupInfo{
		Format: backupFormat, ClusterID: m.cluster, Snapshot: m.id(), Time: time.Unix(0, m.time).UTC(), Index: m.index, Term: m.term,
		FirstSeq: m.firstSeq, Seq: m.seq,
		Manifest: BackupFile{int64(len(blob)), hexSum(sha256.Sum256(blob))}, State: BackupFile{m.stateSize, hexSum(m.stateSum)},
		History: []BackupHistoryFile{},
	}
	info.Bytes = info.Manifest.Size + info.State.Size
	for _, f := range history {
		if f.FirstWindow > m.window {
			break
		}
		row, err := f.MarshalBinary()
		if err != nil {
			return nil, err
		}
		info.History = append(info.History, BackupHistoryFile{
			BackupFile: BackupFile{f.Size, hexSum(f.SHA256)}, Name: f.Name(), FirstSeq: f.FirstSeq, LastSeq: f.LastSeq, Meta: row, meta: f,
		})
		info.Bytes += f.Size
	}
	if err := info.checkCover(m); err != nil {
		return nil, fmt.Errorf("%w: %w", errBackupMoved, err)
	}
	return info, nil
}

// checkCover holds the files of history against what the snapshot needs.
func (i *BackupInfo) checkCover(m *snapManifest) error {
	next, window := uint64(0), uint64(0)
	for n := range i.History {
		f := &i.History[n].meta
		if n > 0 && (f.FirstSeq != next || f.FirstWindow != window+1) {
			return fmt.Errorf("%s does not follow on the file before", f.Name())
		}
		next, window = f.LastSeq+1, f.LastWindow
	}
	switch {
	case m.windowSeq < m.firstSeq: // nothing is sealed, or nothing of it kept
		return nil
	case len(i.History) == 0 || i.History[0].FirstSeq > m.firstSeq:
		return fmt.Errorf("history begins after seq %d, the oldest that snapshot %s keeps", m.firstSeq, m.id())
	case next != m.windowSeq+1 || window != m.window:
		return fmt.Errorf("history ends at seq %d, snapshot %s needs it up to seq %d", next-1, m.id(), m.windowSeq)
	}
	return nil
}

func hexSum(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

// finish makes the backup whole.
func (b *backup) finish(info *BackupInfo) error {
	doc, err := info.encode()
	if err != nil {
		return err
	}
	if err := b.fs.SyncDir(b.files); err != nil {
		return err
	}
	return vfs.Replace(b.fs, filepath.Join(b.o.Dir, backupDoc), doc)
}

// encode is BACKUP.json. The manifest and the rows of history decide every byte of it, and Check those of the rows.
func (i *BackupInfo) encode() ([]byte, error) {
	i.Check = ""
	doc, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return nil, err
	}
	i.Check = hexSum(sha256.Sum256(doc))
	doc, err = json.MarshalIndent(i, "", "  ")
	return append(doc, '\n'), err
}

// prune removes what earlier backups, and rounds, have left.
func (b *backup) prune(info *BackupInfo) error {
	keep := map[string]bool{info.Manifest.SHA256: true, info.State.SHA256: true}
	for _, f := range info.History {
		keep[f.SHA256] = true
	}
	names, err := b.fs.List(b.files)
	if err != nil {
		return err
	}
	for _, name := range names {
		if keep[name] || len(strings.TrimSuffix(name, partSuffix)) != 2*sha256.Size {
			continue // a file of somebody else's is left alone
		}
		if err := b.fs.Remove(filepath.Join(b.files, name)); err != nil {
			return err
		}
	}
	return nil
}
