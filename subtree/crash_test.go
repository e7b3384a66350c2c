package subtree

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/vfs"
)

var errPower = errors.New("the power is gone")

// cutAfter lets a number of changing steps through and fails all later ones. It returns the count of steps seen.
func cutAfter(fs *vfs.Mem, steps int) (seen *int) {
	seen = new(int)
	fs.SetHook(func(op vfs.Op, name string) error {
		if op == vfs.OpRead || op == vfs.OpOpen {
			return nil
		}
		*seen++
		if *seen > steps {
			return errPower
		}
		return nil
	})
	return seen
}

// crashCase is an operation to be cut at each of its steps.
type crashCase struct {
	name    string
	prepare func(t *testing.T, st *Store, s *stream)
	run     func(st *Store, s *stream) error
	before  []string // files when it has not happened
	after   []string // and when it has
}

func sealNext(st *Store, s *stream) error {
	w := s.window(3, s.last())
	return st.Seal(w, s.runs(w))
}

func rewriteTwo(st *Store, s *stream) error {
	return st.Rewrite(context.Background(), Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: s.plans(1)}, nil)
}

func mergeAll(st *Store, s *stream) error {
	return st.Rewrite(context.Background(), Generation{Number: 2, FirstWindow: 1, LastWindow: 3, Plans: s.plans(2)}, nil)
}

func crashCases(t *testing.T, s *stream) []crashCase {
	peer := peerOf(t, s, 3)
	t.Cleanup(func() { _ = peer.Close() })
	two := func(t *testing.T, st *Store, s *stream) {
		for i := range 2 {
			mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
		}
	}
	return []crashCase{
		{"open", func(*testing.T, *Store, *stream) {}, func(st *Store, s *stream) error { return nil }, nil, nil},
		{"first seal", func(*testing.T, *Store, *stream) {}, func(st *Store, s *stream) error {
			return st.Seal(s.window(1, s.cuts[0]), s.runs(s.window(1, s.cuts[0])))
		}, nil, []string{"w-1.cnts"}},
		{"seal", two, sealNext, []string{"w-1.cnts", "w-2.cnts"}, []string{"w-1.cnts", "w-2.cnts", "w-3.cnts"}},
		{"rewrite", two, rewriteTwo, []string{"w-1.cnts", "w-2.cnts"}, []string{"g-1.cnts"}},
		{"merge", func(t *testing.T, st *Store, s *stream) {
			two(t, st, s)
			if err := errors.Join(rewriteTwo(st, s), sealNext(st, s)); err != nil {
				t.Fatal(err)
			}
		}, mergeAll, []string{"g-1.cnts", "w-3.cnts"}, []string{"g-2.cnts"}},
		{"drop", two, func(st *Store, _ *stream) error { return st.Drop(1) }, []string{"w-1.cnts", "w-2.cnts"}, []string{"w-2.cnts"}},
		{"drop all", two, func(st *Store, _ *stream) error { return st.Drop(7) }, []string{"w-1.cnts", "w-2.cnts"}, nil},
		{"receive and install", two, func(st *Store, s *stream) error { return takeOver(st, peer, 0) },
			[]string{"w-1.cnts", "w-2.cnts"}, []string{"g-1.cnts", "w-3.cnts"}},
		{"install beyond a gap", func(t *testing.T, st *Store, s *stream) {
			mustSeal(t, st, s, s.window(1, s.cuts[0]))
		}, func(st *Store, s *stream) error { return takeOver(st, peer, 1) }, []string{"w-1.cnts"}, []string{"w-3.cnts"}},
	}
}

// takeOver receives and installs the files of a peer from one on.
func takeOver(st, peer *Store, from int) error {
	list := peer.Files()[from:]
	if err := fetch(st, peer, list); err != nil {
		return err
	}
	return st.Install(list)
}

func crashStream(t *testing.T) *stream {
	s, r := newStream(), rand.New(rand.NewSource(5))
	for range 3 {
		s.fill(t, r, 100, false)
		s.add(t, "a/b/large", make([]byte, 70_000))
		s.cut()
	}
	return s
}

// TestCrashAtEveryStep cuts the power at each change that an operation makes to the disk, and looks at what could be left.
func TestCrashAtEveryStep(t *testing.T) {
	s := crashStream(t)
	for _, c := range crashCases(t, s) {
		t.Run(c.name, func(t *testing.T) {
			for steps, done := 0, false; !done; steps++ {
				fs := vfs.NewMem()
				if c.name != "open" {
					st := mustOpen(t, fs, s, Options{})
					c.prepare(t, st, s)
					_ = st.Close()
				}
				seen := cutAfter(fs, steps)
				st, err := Open(fs, "history", s.table, Options{})
				if err == nil {
					st.spillLimit = 3000
					err = c.run(st, s)
				}
				// Removing what a rewrite has replaced comes after the operation and may fail without an error.
				done = *seen <= steps
				if done && err != nil || !done && err != nil && !errors.Is(err, errPower) {
					t.Fatalf("after %d of %d steps: %v", steps, *seen, err)
				}
				for seed := range 8 {
					var r *rand.Rand // the first time all that was not synced is lost
					if seed > 0 {
						r = rand.New(rand.NewSource(int64(steps*100 + seed)))
					}
					checkAfterCrash(t, c, s, fs.Crash(r), err == nil, fmt.Sprintf("cut after %d steps, seed %d", steps, seed))
				}
			}
		})
	}
}

func checkAfterCrash(t *testing.T, c crashCase, s *stream, fs *vfs.Mem, finished bool, when string) {
	t.Helper()
	st, err := Open(fs, "history", s.table, Options{})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer st.Close()
	files := fileNames(st)
	if files != strings.Join(c.after, " ") && (finished || files != strings.Join(c.before, " ")) {
		t.Fatalf("%s: history holds %q, finished: %t", when, files, finished)
	}
	checkWhole(t, st, fs, s, when)
	if err := c.run(st, s); err != nil {
		t.Fatalf("%s: again: %v", when, err)
	}
	if files := fileNames(st); files != strings.Join(c.after, " ") {
		t.Fatalf("%s: again: history holds %q", when, files)
	}
	checkWhole(t, st, fs, s, when)
}

func fileNames(st *Store) string {
	var names []string
	for _, m := range st.Files() {
		names = append(names, m.Name())
	}
	return strings.Join(names, " ")
}

// checkWhole reads everything, compares each file's hash, and looks for files that nobody names.
func checkWhole(t *testing.T, st *Store, fs *vfs.Mem, s *stream, when string, others ...string) {
	t.Helper()
	if d := st.Damaged(); len(d) > 0 {
		t.Fatalf("%s: %v", when, d[0])
	}
	if err := checkAll(st, s); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	names := map[string]bool{manifestName: true}
	for _, name := range others {
		names[name] = true
	}
	for _, m := range st.Files() {
		names[m.Name()] = true
		b, err := fs.Bytes(filepath.Join("history", m.Name()))
		if err != nil || sha256.Sum256(b) != m.SHA256 || int64(len(b)) != m.Size {
			t.Fatalf("%s: %s is not what the manifest says: %v", when, m.Name(), err)
		}
	}
	list, err := fs.List("history")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		if !names[name] {
			t.Fatalf("%s: %s was left behind", when, name)
		}
	}
}

// TestFailingSteps makes one step fail, as a full disk does: history is as before, and the operation works when repeated.
func TestFailingSteps(t *testing.T) {
	s := crashStream(t)
	for _, c := range crashCases(t, s)[1:] {
		t.Run(c.name, func(t *testing.T) {
			for step, done := 1, false; !done; step++ {
				fs := vfs.NewMem()
				st := mustOpen(t, fs, s, Options{})
				c.prepare(t, st, s)
				seen := 0
				fs.SetHook(func(op vfs.Op, name string) error {
					if op == vfs.OpRead || op == vfs.OpOpen {
						return nil
					}
					if seen++; seen == step {
						return errPower
					}
					return nil
				})
				err := c.run(st, s)
				fs.SetHook(nil)
				done = seen < step
				want := c.before
				if err == nil {
					want = c.after
				}
				if files := fileNames(st); files != strings.Join(want, " ") {
					t.Fatalf("step %d failed (%v): history holds %q", step, err, files)
				}
				if rerr := checkAll(st, s); rerr != nil {
					t.Fatalf("step %d failed: %v", step, rerr)
				}
				checkAfterCrash(t, c, s, fs.Crash(nil), err == nil, fmt.Sprintf("crash after failure of step %d", step))
				if err := c.run(st, s); err != nil || fileNames(st) != strings.Join(c.after, " ") {
					t.Fatalf("again after failure of step %d: %v, %q", step, err, fileNames(st))
				}
				_ = st.Close()
			}
		})
	}
}
