package subtree

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// enter puts a finished file, which lies under its temporary name, into the manifest, in the place of the files that place
// names; it is called when nobody else changes the list. From -1: the file is of no use any more.
func (s *Store) enter(meta Meta, place func() (from, to int, err error)) error {
	defer s.removeGone()
	s.publishing.Lock()
	defer s.publishing.Unlock()
	added := newFile(s, meta)
	from, to, err := place()
	if err != nil || from < 0 {
		_ = s.fs.Remove(added.path() + tempSuffix)
		return err
	}
	next := slices.Clone(s.snapshot())
	sameName := to > from && next[from].name == added.name // a damaged one
	err = s.commit(slices.Replace(next, from, to, added), base{}, func() error {
		if sameName {
			if err := s.quarantine(added.name); err != nil {
				return err
			}
		}
		return vfs.Publish(s.fs, added.path()+tempSuffix, added.path())
	})
	if err != nil {
		_ = s.fs.Remove(added.path() + tempSuffix)
	}
	return err
}

// commit makes next the Store's files, by a new manifest; empty is where history goes on if they are none. move brings the
// bytes of new files to their names and makes that durable; it may be nil. The manifest is written before that: a full disk
// strikes before anything has changed. publishing is held.
func (s *Store) commit(next []*file, empty base, move func() error) error {
	// If the rename happened but the folder's sync failed, the disk may say either. A later write must differ from both.
	s.edition++
	m := manifest{edition: s.edition, base: empty}
	if len(next) > 0 {
		m.base = baseOf(next)
	}
	for _, f := range next {
		m.files = append(m.files, f.meta)
	}
	path := filepath.Join(s.dir, manifestName)
	if err := vfs.WriteTemp(s.fs, path, m.writeTo); err != nil {
		return err
	}
	faults.Pass(faults.Seal)
	s.arrive(next)
	defer s.arrive(nil)
	if move != nil {
		if err := move(); err != nil {
			_ = s.fs.Remove(path + tempSuffix)
			return err
		}
	}
	if err := vfs.Publish(s.fs, path+tempSuffix, path); err != nil {
		return err
	}
	s.swap(next, m.base)
	return nil
}

// swap makes next the files that readers see. Those that leave are gone when nobody reads them: the caller
// calls removeGone when it holds no lock any more.
func (s *Store) swap(next []*file, b base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.mu.files
	s.mu.files, s.mu.base = next, b
	for _, f := range before {
		if !slices.Contains(next, f) {
			delete(s.mu.damaged, f.name)
			s.retire(f)
		}
	}
}

// quarantineDir is the folder for damaged bytes: what a file that was replaced held. They are named after it, with a number.
const quarantineDir = "quarantine"

// quarantine moves a file aside; that it is missing is no error. publishing is held.
func (s *Store) quarantine(name string) error {
	dir := filepath.Join(s.dir, quarantineDir)
	if err := s.fs.MkdirAll(dir); err != nil {
		return err
	}
	names, err := s.fs.List(dir)
	if err != nil {
		return err
	}
	aside, n := "", 1
	for aside == "" || slices.Contains(names, aside) {
		aside = fmt.Sprintf("%s.%d", name, n)
		n++
	}
	err = s.fs.Rename(filepath.Join(s.dir, name), filepath.Join(dir, aside))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.fs.SyncDir(dir)
}

// Drop forgets the files that lie wholly in windows up to through, by one write of the manifest. A file that reaches beyond
// stays, and so do those after it. A read that holds a dropped file ends well; a cursor that asks for what is gone gets a
// GoneError. Dropping again does nothing. After an error history is as before.
func (s *Store) Drop(through uint64) error {
	defer s.removeGone()
	last, err := s.drop(through)
	if err != nil {
		return fmt.Errorf("subtree: drop history up to window %d: %w", through, err)
	}
	if last == nil {
		return nil
	}
	defer s.incoming.Unlock()
	// What is left behind is swept by the next Drop, Install or Open.
	_ = s.sweep(func(_ fileSum, m *Meta) bool { return m != nil && m.LastWindow > last.LastWindow })
	return nil
}

// drop returns the last of the files that it has dropped, and with incoming locked: before the next Install, which must not find
// what the caller sweeps, but with Seal and Rewrite free to go on. nil: there was none.
func (s *Store) drop(through uint64) (last *Meta, err error) {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	files := s.snapshot()
	n := 0
	for n < len(files) && files[n].meta.LastWindow <= through {
		n++
	}
	if n == 0 {
		return nil, nil
	}
	last = &files[n-1].meta
	if err := s.commit(slices.Clone(files[n:]), base{last.LastWindow + 1, last.LastSeq + 1}, nil); err != nil {
		return nil, err
	}
	s.incoming.Lock()
	return last, nil
}
