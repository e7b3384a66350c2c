package subtree

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// Install puts files into the manifest by one write: each is there already, whole, or was received. Otherwise the error is
// fs.ErrNotExist, and history stays as it was: a Rewrite may have replaced a file that was not Missing. They must adjoin each other (ErrOutOfOrder). They replace whatever has windows
// of their range. Of the files before and after those stay that adjoin; the others leave, since history has no gaps. Installing
// the same again does nothing.
//
// Damaged bytes that are replaced move to the folder quarantine; the files are not listed as Damaged any more.
func (s *Store) Install(list []Meta) error {
	err := checkList(list)
	if err == nil {
		err = s.checkReceived(list)
	}
	if err == nil {
		err = s.install(list)
	}
	if err != nil {
		return fmt.Errorf("subtree: install %d files: %w", len(list), err)
	}
	return nil
}

// checkList holds a list of files to the rules of a manifest.
func checkList(list []Meta) error {
	names := make(map[string]bool, len(list))
	for i := range list {
		m := &list[i]
		if rule := m.validate(); rule != "" {
			return &CorruptError{Op: "install", File: m.Name(), Rule: rule}
		}
		if i > 0 && !m.follows(&list[i-1]) {
			return fmt.Errorf("%s (windows %d to %d, seqs %d to %d) does not follow on %s (up to window %d, seq %d): %w",
				m.Name(), m.FirstWindow, m.LastWindow, m.FirstSeq, m.LastSeq, list[i-1].Name(), list[i-1].LastWindow, list[i-1].LastSeq, ErrOutOfOrder)
		}
		if names[m.Name()] {
			return fmt.Errorf("two files are named %s: %w", m.Name(), ErrOutOfOrder)
		}
		names[m.Name()] = true
	}
	return nil
}

// checkReceived reads those of the files that were received before a restart once more.
func (s *Store) checkReceived(list []Meta) error {
	for i := range list {
		m := &list[i]
		s.mu.Lock()
		r := s.mu.received[m.SHA256]
		known := r == nil || r.checked || s.ownLocked(m) != nil
		s.mu.Unlock()
		if known {
			continue
		}
		if err := s.checkAgain(m); err != nil {
			return err
		}
	}
	return nil
}

// checkAgain checks a received file; one that has become wrong is thrown away and counts as missing.
func (s *Store) checkAgain(m *Meta) error {
	s.incoming.Lock()
	defer s.incoming.Unlock()
	f, path := newFile(s, *m), s.incomingPath(m.SHA256, fileSuffix)
	h, err := s.fs.Open(path)
	if err == nil {
		defer h.Close()
		if cerr := f.checkSize(h); cerr != nil {
			err = cerr
		} else if err = f.checkSum("install", h); err == nil {
			if _, cerr = f.readFooter(h); cerr != nil {
				err = cerr
			}
		}
	}
	wrong := errors.Is(err, ErrCorrupt)
	s.mu.Lock()
	if r := s.mu.received[m.SHA256]; err == nil && r != nil {
		r.checked = true
	} else if wrong {
		delete(s.mu.received, m.SHA256)
	}
	s.mu.Unlock()
	if wrong {
		_ = s.fs.Remove(path)
	}
	return err
}

func (s *Store) install(list []Meta) error {
	defer s.removeGone()
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.incoming.Lock()
	defer s.incoming.Unlock()
	next, added, err := s.arrange(list)
	if err != nil || slices.Equal(next, s.snapshot()) {
		return err
	}
	spoiled := s.pinSpoiled(next)
	err = s.commit(next, base{}, func() error { return s.place(added) })
	for _, f := range spoiled {
		if err == nil && !slices.ContainsFunc(next, func(g *file) bool { return g.name == f.name }) {
			_ = s.quarantine(f.name) // the files are in force; what cannot be moved aside is removed
		}
		s.unref(f)
	}
	if err != nil {
		return err
	}
	s.forgetInstalled(list)
	return nil
}

// arrange is the list of files as it will be, and those of it that were received.
func (s *Store) arrange(list []Meta) (next, added []*file, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(list) == 0 {
		return s.mu.files, nil, nil
	}
	first, last := &list[0], &list[len(list)-1]
	before, after := s.mu.files, s.mu.files
	for len(before) > 0 && before[len(before)-1].meta.LastWindow >= first.FirstWindow {
		before = before[:len(before)-1]
	}
	for len(after) > 0 && after[0].meta.FirstWindow <= last.LastWindow {
		after = after[1:]
	}
	if len(before) > 0 && first.follows(&before[len(before)-1].meta) {
		next = slices.Clone(before)
	}
	for i := range list {
		f := s.ownLocked(&list[i])
		if f == nil {
			if !s.isReceived(&list[i]) {
				return nil, nil, fmt.Errorf("%s with SHA-256 %x is not here: %w", list[i].Name(), list[i].SHA256, fs.ErrNotExist)
			}
			f = newFile(s, list[i])
			added = append(added, f)
		}
		next = append(next, f)
	}
	if len(after) > 0 && after[0].meta.follows(last) {
		next = append(next, after...)
	}
	return next, added, nil
}

// pinSpoiled takes a reference, without opening them, on the damaged files that will leave.
func (s *Store) pinSpoiled(next []*file) (list []*file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.mu.files {
		if s.mu.damaged[f.name] != nil && !slices.Contains(next, f) {
			f.refs++
			s.unidle(f)
			list = append(list, f)
		}
	}
	return list
}

// place gives received files their names. What has such a name now is damaged, or another file than it should be: it moves
// aside.
func (s *Store) place(added []*file) error {
	for _, f := range added {
		s.mu.Lock()
		r := s.mu.received[f.meta.SHA256]
		named := slices.ContainsFunc(s.mu.files, func(g *file) bool { return g.name == f.name })
		s.mu.Unlock()
		if r.placed != "" {
			continue
		}
		if named {
			if err := s.quarantine(f.name); err != nil {
				return err
			}
		}
		if err := s.fs.Rename(s.incomingPath(f.meta.SHA256, fileSuffix), f.path()); err != nil {
			return err
		}
		s.mu.Lock()
		r.placed = f.name
		s.mu.Unlock()
	}
	return s.fs.SyncDir(filepath.Clean(s.dir))
}

// forgetInstalled removes received bytes that are of no use any more: of files installed, of others in their range, and of
// those older than history.
func (s *Store) forgetInstalled(list []Meta) {
	s.mu.Lock()
	for i := range list {
		delete(s.mu.received, list[i].SHA256)
	}
	oldest := s.mu.base.window
	s.mu.Unlock()
	first, last := list[0].FirstWindow, list[len(list)-1].LastWindow
	// What cannot be removed now is swept by the next Install, Drop or Open.
	_ = s.sweep(func(sum fileSum, m *Meta) bool {
		return m != nil && m.LastWindow >= oldest && (m.LastWindow < first || m.FirstWindow > last)
	})
}
