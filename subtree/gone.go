package subtree

import "slices"

// retire is called when a file has left the manifest; mu is held.
func (s *Store) retire(f *file) {
	f.retired = true
	s.unidle(f)
	if f.refs == 0 {
		s.bury(f)
	}
}

// bury closes a file that has left and that nobody reads, and leaves it to removeGone; mu is held.
func (s *Store) bury(f *file) {
	_ = f.closeHandle()
	s.mu.gone = append(s.mu.gone, f)
}

// removeGone removes the files from the disk that have left and that nobody reads any more. That may take the disk long, so
// neither publishing nor incoming nor mu is held. What cannot be removed the next Open removes.
func (s *Store) removeGone() {
	for {
		f, remove := s.nextGone()
		if f == nil {
			return
		}
		s.cache.drop(f)
		s.groups.drop(f)
		if remove {
			_ = s.fs.Remove(f.path())
			s.removed(f.name)
		}
	}
}

// nextGone takes a file out of gone. remove tells that its name is nobody else's: nobody gets that name before removed is
// called.
func (s *Store) nextGone() (f *file, remove bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.gone) == 0 {
		return nil, false
	}
	f = s.mu.gone[0]
	s.mu.gone = slices.Delete(s.mu.gone, 0, 1)
	if s.isTaken(f.name) || s.mu.removing[f.name] {
		return f, false
	}
	s.mu.removing[f.name] = true
	return f, true
}

// removed ends the removal of a name.
func (s *Store) removed(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.removing, name)
	s.mu.removal.Broadcast()
}

// arrive protects the names of files from the removal of others that had them. It waits for a removal of one that is under way.
func (s *Store) arrive(files []*file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.arriving = files
	for slices.ContainsFunc(files, func(f *file) bool { return s.mu.removing[f.name] }) {
		s.mu.removal.Wait()
	}
}

// isTaken tells whether a name belongs to a file of the manifest or to one on its way there; mu is held.
func (s *Store) isTaken(name string) bool {
	named := func(f *file) bool { return f.name == name }
	if slices.ContainsFunc(s.mu.files, named) || slices.ContainsFunc(s.mu.arriving, named) {
		return true
	}
	for _, r := range s.mu.received {
		if r.placed == name {
			return true
		}
	}
	return false
}
