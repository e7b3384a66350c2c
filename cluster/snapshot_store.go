package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/vfs"
)

const (
	snapshotDir   = "snapshots" // in the data folder
	snapshotsKept = 2

	manifestSuffix = ".snap"
	stateSuffix    = ".state"
	partSuffix     = ".part"
	tempSuffix     = vfs.TempSuffix
	receivedPrefix = "r-"
)

var (
	errSnapshotOld     = errors.New("a snapshot as new or newer is kept already")
	errSnapshotBusy    = errors.New("another snapshot is being made")
	errSnapshotSettled = errors.New("the snapshot was closed or cancelled before")
)

// snapshotStore keeps a node's snapshots in one folder:
//
//	s-<term>-<index>.state  the state machine and the messages after the last sealed window
//	s-<term>-<index>.snap   the manifest; it is written last, and what makes the snapshot
//	r-<sha256>.part         a state file that is being received from another node
//	r-<sha256>.state        one that is received whole and checked
//	*.tmp                   being written
//
// A crash at any step leaves the snapshots before it whole: a state file is synced and its name made durable before the manifest
// gets its name by a rename; a snapshot is removed manifest first, and its state file only when that is durable. What a crash
// leaves besides is a state file without a manifest or a temporary file, which opening the store removes.
//
// Methods may be called by any goroutine. writing is held over I/O, mu is not.
type snapshotStore struct {
	fs  vfs.FS
	dir string
	log hclog.Logger
	// covers tells whether history holds what a snapshot needs; what it does not cover is not listed. Set before use. nil: all is.
	covers func(*snapManifest) bool
	// held tells whether somebody fetches the snapshot of an index, so that it is kept beyond the newest two. nil: nobody does.
	held func(index uint64) bool
	// putting is told before a snapshot of another node comes into force. nil: nobody asks.
	putting func(id string) error

	writing sync.Mutex // one change of the folder at a time
	mu      struct {
		sync.Mutex
		kept    []keptSnapshot    // newest first; the slice is replaced, never changed
		damaged []damagedSnapshot // found on opening or noted since
		sink    bool              // one is open
	}
}

// keptSnapshot is a snapshot whose files are all in the folder.
type keptSnapshot struct {
	m    *snapManifest
	blob []byte // the manifest's bytes
}

// damagedSnapshot is one that cannot be used; its files stay until newer ones push them out.
type damagedSnapshot struct {
	id  string
	err error // errSnapshotFormat
}

var _ raft.SnapshotStore = (*snapshotStore)(nil)

// openSnapshots opens the folder, which it makes if there is none, and removes what a crash left.
func openSnapshots(fs vfs.FS, dir string, log hclog.Logger) (*snapshotStore, error) {
	s := &snapshotStore{fs: fs, dir: dir, log: log}
	err := fs.MkdirAll(dir)
	if err == nil {
		err = s.load()
	}
	if err != nil {
		return nil, fmt.Errorf("open snapshots in %s: %w", dir, err)
	}
	return s, nil
}

func (s *snapshotStore) path(name string) string { return filepath.Join(s.dir, name) }

// snapshots are those whose files are here, newest first, whether history covers them or not.
func (s *snapshotStore) snapshots() []keptSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.kept
}

// usable are the snapshots that a node can be restored from, newest first.
func (s *snapshotStore) usable() (list []keptSnapshot) {
	for _, k := range s.snapshots() {
		if s.covers == nil || s.covers(k.m) {
			list = append(list, k)
		}
	}
	return list
}

// newest is the newest usable snapshot.
func (s *snapshotStore) newest() (*snapManifest, bool) {
	list := s.usable()
	if len(list) == 0 {
		return nil, false
	}
	return list[0].m, true
}

// problems are the snapshots that cannot be used because of damage.
func (s *snapshotStore) problems() []damagedSnapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.damaged
}

// setDamaged takes a snapshot off the list.
func (s *snapshotStore) setDamaged(m *snapManifest, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.kept = slices.DeleteFunc(slices.Clone(s.mu.kept), func(k keptSnapshot) bool { return k.m == m })
	s.mu.damaged = append(slices.Clip(s.mu.damaged), damagedSnapshot{m.id(), err})
}

// List implements raft.SnapshotStore.
func (s *snapshotStore) List() ([]*raft.SnapshotMeta, error) {
	var list []*raft.SnapshotMeta
	for _, k := range s.usable() {
		list = append(list, k.m.meta(int64(len(k.blob))))
	}
	return list, nil
}

// Open implements raft.SnapshotStore. It takes no lock that outlives the call and needs no file.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	for _, k := range s.snapshots() {
		if k.m.id() == id {
			return k.m.meta(int64(len(k.blob))), io.NopCloser(bytes.NewReader(k.blob)), nil
		}
	}
	return nil, nil, fmt.Errorf("open snapshot %s: it is not kept: a newer one has taken its place", id)
}

// Create implements raft.SnapshotStore. The sink is for one goroutine; one is open at a time.
func (s *snapshotStore) Create(_ raft.SnapshotVersion, index, term uint64, c raft.Configuration, configIndex uint64, _ raft.Transport) (raft.SnapshotSink, error) {
	m := snapManifest{index: index, term: term, config: c, configIndex: configIndex}
	if err := s.superseded(&m); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.sink {
		return nil, fmt.Errorf("create snapshot %s: %w", m.id(), errSnapshotBusy)
	}
	s.mu.sink = true
	return &snapshotSink{store: s, m: m}, nil
}

// superseded refuses a snapshot that would not be the newest.
func (s *snapshotStore) superseded(m *snapManifest) error {
	if list := s.snapshots(); len(list) > 0 && list[0].m.index >= m.index {
		return fmt.Errorf("snapshot %s: %w: %s", m.id(), errSnapshotOld, list[0].m.id())
	}
	return nil
}

// commit makes the newest snapshot of its manifest and of a synced state file, which gets its name here; writing is held.
func (s *snapshotStore) commit(m *snapManifest, blob []byte, state string) error {
	if err := s.superseded(m); err != nil {
		return err
	}
	if err := vfs.Publish(s.fs, s.path(state), s.path(m.id()+stateSuffix)); err != nil {
		return fmt.Errorf("snapshot %s: name its state file: %w", m.id(), err)
	}
	err := s.checkPresence(m)
	if err == nil {
		err = vfs.Replace(s.fs, s.path(m.id()+manifestSuffix), blob)
	}
	if err != nil {
		// If only the folder's sync failed, the disk may say either. Without the manifest here, both are whole.
		_ = s.fs.Remove(s.path(m.id() + manifestSuffix))
		return fmt.Errorf("snapshot %s: write manifest: %w", m.id(), err)
	}
	s.mu.Lock()
	s.mu.kept = append([]keptSnapshot{{m, bytes.Clone(blob)}}, s.mu.kept...)
	s.mu.Unlock()
	s.prune()
	return nil
}

// tidy removes what became superfluous because a transfer has ended.
func (s *snapshotStore) tidy() {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.prune()
}

// prune keeps the newest two and those that are held, and removes the files of all others; writing is held. What cannot be removed
// is tried again with the next one.
func (s *snapshotStore) prune() {
	s.mu.Lock()
	var kept []keptSnapshot
	for i, k := range s.mu.kept {
		if i < snapshotsKept || s.held != nil && s.held(k.m.index) {
			kept = append(kept, k)
		}
	}
	gone := len(kept) < len(s.mu.kept)
	s.mu.kept = kept
	if len(kept) >= snapshotsKept {
		gone = gone || len(s.mu.damaged) > 0
		s.mu.damaged = nil
	}
	s.mu.Unlock()
	if !gone {
		return
	}
	if err := s.removeOthers(kept); err != nil {
		s.log.Warn("cannot remove old snapshots", "dir", s.dir, "error", err)
	}
}

// removeOthers removes the files of snapshots that are not in kept: manifests first, and when that is durable, states.
func (s *snapshotStore) removeOthers(kept []keptSnapshot) error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, suffix := range []string{manifestSuffix, stateSuffix} {
		removed := false
		for _, name := range names {
			id, ok := idOfName(name, suffix)
			if !ok || slices.ContainsFunc(kept, func(k keptSnapshot) bool { return k.m.id() == id }) {
				continue
			}
			if err := s.fs.Remove(s.path(name)); err != nil {
				return err
			}
			removed = true
		}
		if removed {
			if err := s.fs.SyncDir(s.dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// idOfName is the snapshot that a file of this suffix belongs to.
func idOfName(name, suffix string) (id string, ok bool) {
	var term, index uint64
	if _, err := fmt.Sscanf(name, "s-%d-%d"+suffix, &term, &index); err != nil {
		return "", false
	}
	id = snapshotID(term, index)
	return id, id+suffix == name
}

// newestFirst is the order of kept.
func newestFirst(a, b keptSnapshot) int {
	return cmp.Or(cmp.Compare(b.m.index, a.m.index), cmp.Compare(b.m.term, a.m.term))
}

// hashFile reads a file to its end and returns its size and hash.
func hashFile(fs vfs.FS, path string) (size int64, sum [sha256.Size]byte, err error) {
	f, err := fs.Open(path)
	if err != nil {
		return 0, sum, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, io.NewSectionReader(f, 0, 1<<62))
	h.Sum(sum[:0])
	return size, sum, err
}
