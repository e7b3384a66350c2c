package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// load reads what the folder holds. Only the constructor calls it.
func (s *snapshotStore) load() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	manifests := map[string]bool{}
	for _, name := range names {
		if id, ok := idOfName(name, manifestSuffix); ok {
			manifests[id] = true
			if err := s.loadOne(id); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		id, isState := idOfName(name, stateSuffix)
		if strings.HasSuffix(name, tempSuffix) || isState && !manifests[id] {
			if err := s.fs.Remove(s.path(name)); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(s.mu.kept, newestFirst)
	s.prune()
	return nil
}

// loadOne reads a manifest and looks whether its state file is there.
func (s *snapshotStore) loadOne(id string) error {
	blob, err := readFile(s.fs, s.path(id+manifestSuffix))
	if err != nil {
		return err
	}
	m, err := decodeSnapManifest(blob)
	if err == nil && m.id() != id {
		err = fmt.Errorf("%w: its manifest is that of %s", errSnapshotFormat, m.id())
	}
	if err == nil {
		err = s.checkPresence(m)
	}
	if err != nil {
		s.mu.damaged = append(s.mu.damaged, damagedSnapshot{id, err})
		return nil
	}
	s.mu.kept = append(s.mu.kept, keptSnapshot{m, blob})
	return nil
}

// checkPresence holds the state file's size against the manifest.
func (s *snapshotStore) checkPresence(m *snapManifest) error {
	f, err := s.fs.Open(s.path(m.id() + stateSuffix))
	if err != nil {
		return fmt.Errorf("%w: %w", errSnapshotFormat, err)
	}
	defer f.Close()
	if size, err := f.Size(); err != nil || size != m.stateSize {
		return fmt.Errorf("%w: its state file has %d bytes of %d (%v)", errSnapshotFormat, size, m.stateSize, err)
	}
	return nil
}

// verify reads a snapshot's state file whole and holds it against the manifest.
func (s *snapshotStore) verify(m *snapManifest) error {
	size, sum, err := hashFile(s.fs, s.path(m.id()+stateSuffix))
	if err != nil {
		return fmt.Errorf("%w: %w", errSnapshotFormat, err)
	}
	if size != m.stateSize || sum != m.stateSum {
		return fmt.Errorf("%w: its state file has another hash than the manifest says", errSnapshotFormat)
	}
	return nil
}

// readFile reads a manifest, or another document of that size. Of a longer file it reads too much for one.
func readFile(fs vfs.FS, path string) ([]byte, error) {
	return vfs.ReadFile(fs, path, maxSnapshotBlob+1)
}

// put makes a snapshot of another node, given by its manifest, this node's newest. Its state file must be here already: received, or
// that of a snapshot that is kept. A snapshot that is kept already is fine; one older than that is errSnapshotOld.
func (s *snapshotStore) put(blob []byte) error {
	m, err := decodeSnapManifest(blob)
	if err != nil {
		return fmt.Errorf("put snapshot: %w", err)
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	for _, k := range s.snapshots() {
		if k.m.id() == m.id() && bytes.Equal(k.blob, blob) {
			return nil
		}
	}
	if err := s.superseded(m); err != nil {
		return err
	}
	received := receivedName(m.stateSum, stateSuffix)
	if !s.hasState(m.stateSum) {
		return fmt.Errorf("put snapshot %s: its state file %s is not here: receive it first", m.id(), received)
	}
	if s.putting != nil {
		if err := s.putting(m.id()); err != nil {
			return fmt.Errorf("put snapshot %s: %w", m.id(), err)
		}
	}
	return s.commit(m, blob, received)
}

// hasState tells whether a state file was received whole.
func (s *snapshotStore) hasState(sum [sha256.Size]byte) bool {
	f, err := s.fs.Open(s.path(receivedName(sum, stateSuffix)))
	if err != nil {
		return false
	}
	return f.Close() == nil
}

// heldState is an open state file. It stays readable when its snapshot is removed.
type heldState struct {
	*io.SectionReader // of the whole file: Read, ReadAt, Seek, Size
	file              vfs.File
	Manifest          *snapManifest
}

// Close lets the file go.
func (h *heldState) Close() error { return h.file.Close() }

// openState opens the state file of a hash, of any snapshot that is kept. errors.Is(err, fs.ErrNotExist) if there is none.
func (s *snapshotStore) openState(sum [sha256.Size]byte) (*heldState, error) {
	for _, k := range s.snapshots() {
		if k.m.stateSum != sum {
			continue
		}
		f, err := s.fs.Open(s.path(k.m.id() + stateSuffix))
		if err != nil {
			return nil, fmt.Errorf("open state of snapshot %s: %w", k.m.id(), err)
		}
		return &heldState{io.NewSectionReader(f, 0, k.m.stateSize), f, k.m}, nil
	}
	return nil, fmt.Errorf("state file %x: %w", sum, fs.ErrNotExist)
}

func receivedName(sum [sha256.Size]byte, suffix string) string {
	return receivedPrefix + hex.EncodeToString(sum[:]) + suffix
}

// receiveState begins, or goes on with, receiving the state file of a hash and size. What other transfers left is removed: one file
// is received at a time. Write appends after Have bytes.
func (s *snapshotStore) receiveState(sum [sha256.Size]byte, size int64) (*incomingState, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	in := &incomingState{store: s, sum: sum, size: size, h: sha256.New()}
	if err := s.removeReceived(sum); err != nil {
		return nil, fmt.Errorf("receive state file: %w", err)
	}
	if err := in.open(); err != nil {
		return nil, fmt.Errorf("receive state file: %w", err)
	}
	return in, nil
}

// removeReceived removes what was received of all state files but one.
func (s *snapshotStore) removeReceived(but [sha256.Size]byte) error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, receivedPrefix) || strings.HasPrefix(name, receivedName(but, "")) {
			continue
		}
		if err := s.fs.Remove(s.path(name)); err != nil {
			return err
		}
	}
	return nil
}

// incomingState is a state file on its way here. One goroutine.
type incomingState struct {
	store *snapshotStore
	sum   [sha256.Size]byte
	size  int64
	f     vfs.File // nil: committed, discarded or closed
	have  int64
	h     hash.Hash // of what is there
}

func (in *incomingState) path(suffix string) string {
	return in.store.path(receivedName(in.sum, suffix))
}

// open takes over what an earlier attempt left: files are only written from their beginning, so it is copied.
func (in *incomingState) open() error {
	part, fsys := in.path(partSuffix), in.store.fs
	f, err := fsys.Create(part + tempSuffix)
	if err != nil {
		return err
	}
	in.f = f
	old, err := fsys.Open(part)
	if err == nil {
		_, err = io.Copy(in, io.NewSectionReader(old, 0, in.size))
		err = errors.Join(err, old.Close())
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err == nil {
		err = fsys.Rename(part+tempSuffix, part)
	}
	if err != nil {
		return errors.Join(err, in.Close())
	}
	return nil
}

// Have is how many bytes are here.
func (in *incomingState) Have() int64 { return in.have }

// Write appends.
func (in *incomingState) Write(b []byte) (int, error) {
	if in.f == nil {
		return 0, fs.ErrClosed
	}
	if int64(len(b)) > in.size-in.have {
		return 0, fmt.Errorf("receive state file: more than its %d bytes came", in.size)
	}
	n, err := in.f.Write(b)
	_, _ = in.h.Write(b[:n]) // never fails
	in.have += int64(n)
	return n, err
}

// Commit makes the file durable if it is whole and has the hash; else what came is thrown away.
func (in *incomingState) Commit() error {
	if in.f == nil {
		return fs.ErrClosed
	}
	if in.have != in.size || !bytes.Equal(in.h.Sum(nil), in.sum[:]) {
		have := in.have
		return errors.Join(fmt.Errorf("receive state file: %w: %d bytes of %d came, or they have another hash", errSnapshotFormat, have, in.size), in.Discard())
	}
	err := in.f.Sync()
	if err = errors.Join(err, in.Close()); err == nil {
		err = in.store.fs.Rename(in.path(partSuffix), in.path(stateSuffix))
	}
	if err == nil {
		err = in.store.fs.SyncDir(in.store.dir)
	}
	if err != nil {
		return fmt.Errorf("receive state file: %w", err)
	}
	return nil
}

// Discard throws away what came.
func (in *incomingState) Discard() error {
	return errors.Join(in.Close(), in.store.fs.Remove(in.path(partSuffix)))
}

// Close keeps what came for a later attempt. It may be called after Commit and Discard.
func (in *incomingState) Close() error {
	if in.f == nil {
		return nil
	}
	err := in.f.Close()
	in.f = nil
	return err
}
