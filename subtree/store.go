package subtree

import (
	"container/list"
	"errors"
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// Store is the history of one stream: a folder of files and the manifest that names them. Every method may be called by
// any goroutine between Open and Close. Seals and rewrites run one at a time each, beside each other and beside readers.
//
// Locks, in the order in which they are taken: sealing, rewriting or scrubbing, publishing, incoming, a file's opening, mu,
// the cache's or the groups'.
type Store struct {
	fs     vfs.FS
	dir    string
	table  *topic.Table
	o      Options
	cache  *cache
	groups *groups
	views  sync.Pool // of *[]byte: buffers of views
	// chunks are of *[]byte, maxChunk each: the memory of windows to be sealed
	chunks sync.Pool
	// spillLimit is spillMemory; tests make it small.
	spillLimit int

	sealing   sync.Mutex // held by Seal
	rewriting sync.Mutex // held by Rewrite
	scrubbing sync.Mutex // held by Scrub
	scrubbed  uint64     // last seq that the round of Scrub under way is done with; guarded by scrubbing
	// publishing is held while the manifest changes. What mu.files holds changes only under both.
	publishing sync.Mutex
	edition    uint64     // at least that of the manifest on disk; guarded by publishing
	incoming   sync.Mutex // held while the names in the folder of received files change
	read       readCounts

	mu struct {
		sync.Mutex
		files    []*file                  // in seq order, adjacent; the slice is replaced, never changed
		base     base                     // that of files, if there are any
		arriving []*file                  // a commit gives them their names
		idle     list.List                // of *file: open and without references, the one idle for longest in front
		gone     []*file                  // retired and without references: to be removed
		removing map[string]bool          // names that are being removed from the disk; removal tells when that ends
		removal  *sync.Cond               // on mu
		damaged  map[string]*CorruptError // by file name
		received map[fileSum]*received    // whole, but not in the manifest
		receive  map[fileSum]bool         // an Incoming is open
		closed   bool
	}
}

// Open reads the manifest of a folder, which it makes if there is none, and removes what a crash left. A file that is
// missing or of another size than the manifest says does not keep the rest from being served: it is listed by Damaged, and
// reads that need it fail. The topics of all files must be topics of t, though maybe not yet (see ErrTableBehind).
func Open(fs vfs.FS, dir string, t *topic.Table, o Options) (*Store, error) {
	o.normalise()
	s := &Store{fs: fs, dir: dir, table: t, o: o, cache: newCache(o.CacheBytes), groups: newGroups(o.SharedBytes), spillLimit: spillMemory}
	s.views.New = func() any { return new([]byte) }
	s.mu.removing = make(map[string]bool)
	s.mu.removal = sync.NewCond(&s.mu)
	s.mu.damaged = make(map[string]*CorruptError)
	s.mu.received = make(map[fileSum]*received)
	s.mu.receive = make(map[fileSum]bool)
	if err := fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("subtree: open %s: %w", dir, err)
	}
	m, err := readManifest(fs, dir)
	if err == nil && m == nil {
		m, err = s.firstManifest()
	}
	if err == nil {
		err = s.load(m)
	}
	if err != nil {
		return nil, fmt.Errorf("subtree: open %s: %w", dir, err)
	}
	return s, nil
}

// load takes over what a manifest says and clears up.
func (s *Store) load(m *manifest) error {
	s.edition, s.mu.base = m.edition, m.base
	for i := range m.files {
		f := newFile(s, m.files[i])
		if e := f.checkPresence(); e != nil {
			s.mu.damaged[f.name] = e
		}
		s.mu.files = append(s.mu.files, f)
	}
	if err := s.removeLeftovers(); err != nil {
		return err
	}
	return s.findReceived()
}

// firstManifest writes the manifest of an empty history, before there is any file. Files without one are somebody's
// history: nothing is deleted then.
func (s *Store) firstManifest() (*manifest, error) {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, fileSuffix) {
			return nil, &CorruptError{Op: "open", File: manifestName, Rule: "the manifest is missing, but there is " + name + ": put it back, or move the files away"}
		}
	}
	m := &manifest{edition: 1, base: base{1, 1}}
	return m, vfs.Replace(s.fs, filepath.Join(s.dir, manifestName), m.encode())
}

// removeLeftovers removes what an operation left that a crash ended: temporary files, and files that did not get into the
// manifest or have left it.
//
// A file that the manifest does not name is removed only if the manifest is whole and has all of its windows, or has dropped
// them. Else the manifest may be a wrong one, and the file moves to the quarantine.
func (s *Store) removeLeftovers() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	keep := make(map[string]bool, len(s.mu.files))
	for _, f := range s.mu.files {
		keep[f.name] = true
	}
	_, last := s.Windows()
	for _, name := range names {
		path := filepath.Join(s.dir, name)
		switch {
		case keep[name] || !strings.HasSuffix(name, tempSuffix) && !isFileName(name):
		case strings.HasSuffix(name, tempSuffix):
			err = s.fs.Remove(path)
		default:
			if m := s.headerOf(path); m != nil && len(s.mu.damaged) == 0 && m.LastWindow <= last {
				err = s.fs.Remove(path)
			} else {
				err = s.quarantine(name)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isFileName tells whether Meta.Name could be name.
func isFileName(name string) bool {
	for _, kind := range []Kind{KindWindow, KindGeneration} {
		var n uint64
		if _, err := fmt.Sscanf(name, string(kind.String()[0])+"-%d"+fileSuffix, &n); err == nil && fileName(kind, n) == name {
			return true
		}
	}
	return false
}

// Close closes the files. No other method may be running or be called any more.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil
	}
	s.mu.closed = true
	var errs []error
	for _, f := range s.mu.files {
		errs = append(errs, f.closeHandle())
	}
	s.mu.idle.Init()
	return errors.Join(errs...)
}

// Files lists the files in seq order.
func (s *Store) Files() []Meta {
	files := s.snapshot()
	list := make([]Meta, len(files))
	for i, f := range files {
		list[i] = f.meta
	}
	return list
}

// snapshot is the files of now.
func (s *Store) snapshot() []*file {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.files
}

// Damaged lists the files that failed a check since Open, one error each, in order of their names.
func (s *Store) Damaged() []*CorruptError {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*CorruptError, 0, len(s.mu.damaged))
	for _, e := range s.mu.damaged {
		list = append(list, e)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].File < list[j].File })
	return list
}

// noteDamage keeps an error for Damaged if it is a CorruptError, and returns it.
func (s *Store) noteDamage(err error) error {
	var e *CorruptError
	if errors.As(err, &e) {
		s.mu.Lock()
		// What has left is not missed, and its name may be another file's by now.
		if s.mu.damaged[e.File] == nil && (e.of == nil || !e.of.retired) {
			s.mu.damaged[e.File] = e
		}
		s.mu.Unlock()
	}
	return err
}

// Bounds are the oldest and the newest seq of history; last is first-1 if it is empty, (1, 0) in the beginning.
func (s *Store) Bounds() (first, last uint64) {
	files, b := s.extent()
	if len(files) == 0 {
		return b.seq, b.seq - 1
	}
	return b.seq, files[len(files)-1].meta.LastSeq
}

// Windows are the oldest and the newest window; last is first-1 if there is none, (1, 0) in the beginning.
func (s *Store) Windows() (first, last uint64) {
	files, b := s.extent()
	if len(files) == 0 {
		return b.window, b.window - 1
	}
	return b.window, files[len(files)-1].meta.LastWindow
}

// extent is the files of now and where they begin.
func (s *Store) extent() ([]*file, base) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.files, s.mu.base
}
