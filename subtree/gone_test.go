package subtree

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// stuckRemoval makes the removal of a file of history wait. begun gets its name when it does; closing free lets it go on.
func stuckRemoval(mem *vfs.Mem) (begun chan string, free chan struct{}) {
	begun, free = make(chan string, 100), make(chan struct{})
	mem.SetHook(func(op vfs.Op, name string) error {
		if op == vfs.OpRemove && strings.HasSuffix(name, fileSuffix) {
			begun <- filepath.Base(name)
			<-free
		}
		return nil
	})
	return begun, free
}

// soon waits for an event, and fails if it does not come.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-time.After(30 * time.Second):
		t.Fatal("waited in vain for " + what)
		panic("unreachable")
	}
}

// begin runs an operation beside the test.
func begin(op func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- op() }()
	return done
}

// TestRemovalHoldsNobodyUp: while the disk takes its time to remove what was dropped, windows are sealed, readers open and read,
// and generations are written.
func TestRemovalHoldsNobodyUp(t *testing.T) {
	s := crashStream(t)
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	for i := range 2 {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
	}
	begun, free := stuckRemoval(mem)
	dropped := begin(func() error { return st.Drop(1) })
	if name := soon(t, "the removal", begun); name != "w-1.cnts" {
		t.Fatal("removed first:", name)
	}
	work := begin(func() error {
		w := s.window(3, s.cuts[2])
		if err := st.Seal(w, s.runs(w)); err != nil {
			return err
		}
		got, err := readAll(st, everything(), s.cuts[0]+1, noLimit)
		return errors.Join(err, same(got, s.want(everything(), s.cuts[0]+1, s.cuts[2])))
	})
	if err := soon(t, "sealing and reading", work); err != nil {
		t.Fatal(err)
	}
	close(free)
	if err := soon(t, "Drop", dropped); err != nil {
		t.Fatal(err)
	}
	if names, _ := mem.List("history"); strings.Join(names, " ") != "MANIFEST w-2.cnts w-3.cnts" {
		t.Error("left:", names)
	}
}

// TestNameComesBackDuringItsRemoval: a file whose name is being removed waits for that, and stays.
func TestNameComesBackDuringItsRemoval(t *testing.T) {
	s := crashStream(t)
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	windows := mustOpen(t, vfs.NewMem(), s, Options{})
	defer windows.Close()
	for i := range 3 {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
		mustSeal(t, windows, s, s.window(i+1, s.cuts[i]))
	}
	begun, free := stuckRemoval(mem)
	rewritten := begin(func() error { return rewriteTwo(st, s) })
	soon(t, "the removal", begun)
	if err := fetch(st, windows, windows.Files()); err != nil {
		t.Fatal(err)
	}
	installed := begin(func() error { return st.Install(windows.Files()) })
	close(free)
	if err := errors.Join(soon(t, "Rewrite", rewritten), soon(t, "Install", installed)); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, st, mem, s, "windows again")
}
