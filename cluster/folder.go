package cluster

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cantus-bus/cantus/internal/vfs"
)

const (
	lockFile   = "LOCK"
	raftDir    = "raft"
	logFile    = "log.db"
	stableFile = "stable.db"
)

// ErrLocked: another process (or another Node of this one) runs on the data folder.
var ErrLocked = errors.New("data folder is held by a running node")

// folder is a locked data folder and its identity.
//
//	LOCK           held with flock while a node runs; holds its process id for people
//	identity.json  see identity
//	damaged-*/     what was damaged, see aside.go
//	raft/log.db    raft's log
//	raft/stable.db raft's term and vote
type folder struct {
	fs   vfs.FS // the identity and notes are written with it
	dir  string
	lock *os.File // holds the flock

	changing sync.Mutex // one change of the identity at a time; held over I/O, mu is not: a disk that hangs holds up nobody who reads it
	mu       struct {
		sync.Mutex
		id identity // Invariant: equals the file but while changing is held, NodeID changes in stepAside only, ClusterID changes once from ""
	}
}

// openFolder makes, locks and identifies a data folder. One whose identity is damaged is refused.
func openFolder(dir string) (*folder, error) {
	f, err := lockedFolder(dir)
	if err != nil {
		return nil, err
	}
	if f.mu.id, err = loadIdentity(f.fs, dir); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// lockedFolder makes and locks a data folder, whose identity is still to be read.
func lockedFolder(dir string) (*folder, error) {
	if err := os.MkdirAll(filepath.Join(dir, raftDir), 0o700); err != nil {
		return nil, fmt.Errorf("make data folder: %w", err)
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, err
	}
	if err := refuseUnfinished(dir); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &folder{fs: vfs.OS(), dir: dir, lock: lock}, nil
}

func lockFolder(dir string) (*os.File, error) {
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock data folder: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w: stop it, or choose another folder", path, ErrLocked)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "%d\n", os.Getpid()) // only for people
	}
	return f, nil
}

// close frees the folder: closing the file drops the flock.
func (f *folder) close() error { return f.lock.Close() }

func (f *folder) path(name string) string { return filepath.Join(f.dir, raftDir, name) }

// hasSnapshots tells whether a node with history ran on the folder for long enough to take or fetch a snapshot.
func (f *folder) hasSnapshots() bool {
	names, err := filepath.Glob(filepath.Join(f.dir, snapshotDir, "*"+manifestSuffix))
	return err == nil && len(names) > 0
}

func (f *folder) identity() identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.id
}

// set makes id what identity returns: the file says so already.
func (f *folder) set(id identity) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.id = id
}

// store makes id the folder's identity, on disk first; changing is held.
func (f *folder) store(id identity) error {
	if err := id.save(f.fs, f.dir); err != nil {
		return err
	}
	f.set(id)
	return nil
}

// setCluster stores the cluster that the node belongs to; true if that was not known. A folder never changes its cluster.
func (f *folder) setCluster(clusterID string) (bool, error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	id := f.identity()
	switch id.ClusterID {
	case clusterID:
		return false, nil
	case "":
		id.ClusterID = clusterID
		err := f.store(id)
		return err == nil, err
	}
	return false, foreignFolder(f.dir, id.ClusterID, clusterID)
}

// setHasLog remembers that the raft log has entries. They go on behind the snapshot that overtook the log before, if one did.
func (f *folder) setHasLog() error {
	return f.change(func(id *identity) {
		if !id.HasLog {
			id.HasLog, id.Overtaken = true, ""
		}
	})
}

// setEmptyLog remembers that the raft log may be empty.
func (f *folder) setEmptyLog() error { return f.change(func(id *identity) { id.HasLog = false }) }

// setOvertaken remembers which snapshot of another node may be newer than the raft log; "": none.
func (f *folder) setOvertaken(snapshot string) error {
	return f.change(func(id *identity) { id.Overtaken = snapshot })
}

// change stores a changed identity, if it is another one.
func (f *folder) change(with func(*identity)) error {
	f.changing.Lock()
	defer f.changing.Unlock()
	was := f.identity()
	id := was
	with(&id)
	if id.HasLog == was.HasLog && id.Overtaken == was.Overtaken && id.Votes == was.Votes && maps.Equal(id.Peers, was.Peers) {
		return nil
	}
	return f.store(id)
}

// addRemoved remembers removed ids; true if any was new.
func (f *folder) addRemoved(ids ...string) (bool, error) {
	f.changing.Lock()
	defer f.changing.Unlock()
	id, changed := f.identity(), false
	for _, other := range ids {
		var added bool
		id, added = id.withRemoved(other)
		changed = changed || added
	}
	if !changed {
		return false, nil
	}
	err := f.store(id)
	return err == nil, err
}

// ErrForeignCluster: the data folder, the folder of a backup or a peer belongs to another cluster.
var ErrForeignCluster = errors.New("belongs to another cluster")

func foreignFolder(dir, have, other string) error {
	return fmt.Errorf("data folder %s is of cluster %s, the nodes it would join are of cluster %s: it %w: use another folder or other join addresses",
		dir, have, other, ErrForeignCluster)
}
