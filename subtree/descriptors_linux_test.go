package subtree

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// openIn counts the process's open files within a folder, removed ones too.
func openIn(t *testing.T, dir string) (n int) {
	const fds = "/proc/self/fd"
	entries, err := os.ReadDir(fds)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(fds, e.Name())); err == nil && strings.HasPrefix(path, dir) {
			n++
		}
	}
	return n
}

// TestOpenFilesAreBounded: readers come and go over many files, which are sealed, merged and dropped beside them. Open are at
// most OpenFiles, one for each reader, those that a Rewrite reads, and what a Seal and a Rewrite write: a new file and a folder
// or a manifest each. Idle cursors hold none; what was dropped does not stay open.
func TestOpenFilesAreBounded(t *testing.T) {
	const readers, idle, merged, writing = 6, 4, 4, 4
	dir := t.TempDir()
	s := newStream()
	st, err := Open(vfs.OS(), dir, s.table, Options{OpenFiles: idle})
	if err != nil {
		t.Fatal(err)
	}
	for range 41 { // one, and then whole rounds
		for range 20 {
			s.add(t, "a/b/c", []byte("payload"))
		}
		s.cut()
	}
	most := 0
	look := func() { most = max(most, openIn(t, dir)) }
	var sealed atomic.Uint64
	seal := func() {
		n := int(sealed.Load()) + 1
		mustSeal(t, st, s, s.window(n, s.cuts[n-1]))
		sealed.Add(1)
		look()
	}
	seal()
	var wg sync.WaitGroup
	var done atomic.Bool
	for range readers {
		wg.Go(func() {
			for !done.Load() {
				readSome(t, st)
			}
		})
	}
	for int(sealed.Load()) < len(s.cuts) {
		for range merged {
			seal()
		}
		_, last := st.Windows()
		g := Generation{Number: last, FirstWindow: last - merged + 1, LastWindow: last}
		if err := st.Rewrite(context.Background(), g, nil); err != nil {
			t.Fatal(err)
		}
		look()
		if last > 20 {
			if err := st.Drop(last - 20); err != nil {
				t.Fatal(err)
			}
			look()
		}
	}
	done.Store(true)
	wg.Wait()
	if limit := idle + readers + merged + writing; most > limit {
		t.Errorf("up to %d files were open, the bound is %d", most, limit)
	}
	if n := openIn(t, dir); n > idle {
		t.Errorf("%d files are open when nobody reads, the bound is %d", n, idle)
	}
	if err := st.Drop(sealed.Load()); err != nil {
		t.Fatal(err)
	}
	if n := openIn(t, dir); n != 0 {
		t.Errorf("%d dropped files are open", n)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

// readSome opens a few readers at random places, which read a little, and closes them.
func readSome(t *testing.T, st *Store) {
	first, last := st.Bounds()
	var gone *GoneError
	for i := range uint64(5) {
		c := st.NewCursor(topic.NewMatcher(st.table, everything()), first+(last-first)*i/5)
		var v View
		// What was dropped meanwhile is gone.
		if err := c.Read(&v, Limit{Count: 30}); err != nil && !errors.As(err, &gone) {
			t.Error(err)
		}
		v.Release()
		c.Close()
	}
}
