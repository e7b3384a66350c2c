package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/subtree"
)

// A node whose files are damaged steps aside: what it has promised under its id is not known any more, so it gives the id up for good, moves
// the state that belongs to it out of the way, and comes back as a new node of the same cluster. Nothing is deleted.
//
//  1. identity.next.json is written: the new identity, which says what becomes of history. From here on the folder's id is the new one,
//     and no node starts on the folder before step 5; whoever opens it goes on from here
//  2. raft/, snapshots/ and the old identity.json move to damaged-<time>/
//  3. history stays, or its manifest moves there too and its files wait as if they were received, or all of it moves there
//  4. each folder touched is synced
//  5. identity.next.json is renamed to identity.json: the commit point
//
// Each step may be done again. The new identity says for good that the node has stepped aside, and such a node never starts a cluster.
const (
	nextFile    = "identity.next.json"
	asidePrefix = "damaged-"
	asideTime   = "20060102T150405.000Z"
)

// What became of history, in aside.History.
const (
	historyKept  = "kept"                   // its manifest is whole: what is damaged of the rest is mended as ever
	historyLoose = "its manifest was moved" // its files are taken by their hash when they are wanted
	historyMoved = "moved"                  // the cluster's id was lost: nobody knows whose it is
)

// aside says why a node has given up the id before.
type aside struct {
	Was     string    `json:"was,omitempty"` // the id before; "": it was lost with the identity
	At      time.Time `json:"at"`
	Folder  string    `json:"folder"`  // in the data folder, where the damaged state lies
	Part    string    `json:"part"`    // what was damaged: damagedPart
	Reason  string    `json:"reason"`  // the error
	History string    `json:"history"` // see history*
}

// stepping is a data folder on which a node steps aside.
type stepping struct {
	fs         vfs.FS // of the data folder
	dir        string
	historyFS  vfs.FS // of snapshots and history
	historyDir string // "": the node keeps none
	log        hclog.Logger
}

func newStepping(o Options) *stepping {
	s := &stepping{fs: vfs.OS(), dir: o.DataDir, historyFS: vfs.OS(), log: o.Logger}
	if h := o.Stream.History; h != nil {
		s.historyDir = h.Dir
		if h.FS != nil {
			s.historyFS = h.FS
		}
	}
	return s
}

// next is the identity of a node that steps aside because of d; before is the one that it had, zero if that is lost.
func (s *stepping) next(before identity, d *damage, now time.Time) identity {
	now = now.UTC().Truncate(time.Millisecond)
	next := identity{Format: identityFormat, NodeID: uuid.NewString(), ClusterID: before.ClusterID, Removed: before.Removed, Peers: before.Peers}
	if next.ClusterID == "" {
		next.ClusterID = s.clusterOfSnapshots()
	}
	next.Aside = &aside{Was: before.NodeID, At: now, Folder: asidePrefix + now.Format(asideTime), Part: string(d.part), Reason: reasonOf(d), History: historyKept}
	switch {
	case next.ClusterID == "":
		next.Aside.History = historyMoved
	case d.part == partManifest:
		next.Aside.History = historyLoose
	}
	return next
}

// reasonOf is what is damaged, without what an operator should do if the node did nothing.
func reasonOf(d *damage) string {
	return strings.NewReplacer(": "+howToMend, "", "; "+howToMendIdentity, "", ": "+howToMendIdentity, "").Replace(d.Error())
}

// clusterOfSnapshots is the cluster that the whole ones of the snapshots' manifests name, "" if they name none or several.
func (s *stepping) clusterOfSnapshots() (id string) {
	dir := filepath.Join(s.dir, snapshotDir)
	names, err := s.historyFS.List(dir)
	if err != nil {
		return ""
	}
	for _, name := range names {
		if _, ok := idOfName(name, manifestSuffix); !ok {
			continue
		}
		blob, err := readFile(s.historyFS, filepath.Join(dir, name))
		if err != nil {
			continue
		}
		m, err := decodeSnapManifest(blob)
		if err != nil {
			continue
		}
		if id != "" && id != m.cluster {
			return ""
		}
		id = m.cluster
	}
	return id
}

// begin does step 1.
func (s *stepping) begin(next identity) error {
	b, err := next.encode()
	if err == nil {
		err = vfs.Replace(s.fs, filepath.Join(s.dir, nextFile), b)
	}
	if err != nil {
		return fmt.Errorf("step aside: write %s: %w", nextFile, err)
	}
	return nil
}

// pending is the identity of a step that was begun and not finished; false if there is none.
func (s *stepping) pending() (identity, bool, error) {
	path := filepath.Join(s.dir, nextFile)
	b, err := readFile(s.fs, path)
	if errors.Is(err, fs.ErrNotExist) {
		return identity{}, false, nil
	}
	if err != nil {
		return identity{}, false, fmt.Errorf("read %s: %w", nextFile, err)
	}
	id, err := parseIdentity(path, b)
	if err == nil && id.Aside == nil {
		err = damaged(partIdentity, fmt.Errorf("identity file %s does not say why it is there; %s", path, howToMendIdentity))
	}
	return id, true, err
}

// finish does the steps that are left.
func (s *stepping) finish(next identity) error {
	err := s.moveState(next)
	if err == nil {
		err = s.moveHistory(next)
	}
	if err == nil {
		err = s.fs.Rename(filepath.Join(s.dir, nextFile), filepath.Join(s.dir, identityFile))
	}
	if err == nil {
		err = s.fs.SyncDir(s.dir)
	}
	if err != nil {
		return fmt.Errorf("step aside: move what is damaged to %s: %w: starting the node again goes on with it", next.Aside.Folder, err)
	}
	return nil
}

// moveState moves raft's stores, the snapshots and the old identity: a log without its vote, or a vote without its log, is of no use, and
// a snapshot names servers of which this node is none any more.
func (s *stepping) moveState(next identity) error {
	to := filepath.Join(s.dir, next.Aside.Folder)
	if err := moveFiles(s.fs, filepath.Join(s.dir, raftDir), filepath.Join(to, raftDir), nil); err != nil {
		return err
	}
	if err := moveFiles(s.historyFS, filepath.Join(s.dir, snapshotDir), filepath.Join(to, snapshotDir), nil); err != nil {
		return err
	}
	return moveFiles(s.fs, s.dir, to, func(name string) bool { return name == identityFile })
}

func (s *stepping) moveHistory(next identity) error {
	if s.historyDir == "" || next.Aside.History == historyKept {
		return nil
	}
	to := filepath.Join(s.dir, next.Aside.Folder, historyDir)
	if next.Aside.History == historyMoved {
		return moveFiles(s.historyFS, s.historyDir, to, nil)
	}
	n, err := subtree.Loosen(s.historyFS, s.historyDir, to)
	if err == nil {
		s.log.Info("files of history are kept, to be taken by their hash", "dir", s.historyDir, "files", n)
	}
	return err
}

// moveFiles moves those of a folder's files that are wanted, nil: all, to another folder, which it makes, and makes that durable. Folders in
// it stay, as do files that are gone already.
func moveFiles(fsys vfs.FS, from, to string, wanted func(name string) bool) error {
	names, err := fsys.List(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fsys.MkdirAll(to)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(to))
	}
	for _, name := range names {
		if err == nil && (wanted == nil || wanted(name)) && !isFolder(fsys, filepath.Join(from, name)) {
			err = fsys.Rename(filepath.Join(from, name), filepath.Join(to, name))
		}
	}
	if err == nil {
		err = fsys.SyncDir(to)
	}
	if err == nil {
		err = fsys.SyncDir(from)
	}
	return err
}

func isFolder(fsys vfs.FS, path string) bool {
	_, err := fsys.List(path)
	return err == nil
}
