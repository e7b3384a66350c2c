package subtree

import (
	"errors"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// spoiledHistory is a history of two windows as a generation and one more, with a manifest that is damaged or missing, and its files.
func spoiledHistory(t *testing.T, s *stream, missing bool) (*vfs.Mem, []Meta) {
	t.Helper()
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	for i := range 3 {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
	}
	mustRewrite(t, st, Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: s.plans(1)})
	files := st.Files()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if missing {
		if err := errors.Join(mem.Remove("history/MANIFEST"), mem.SyncDir("history")); err != nil {
			t.Fatal(err)
		}
		return mem, files
	}
	b, err := mem.Bytes("history/MANIFEST")
	if err != nil {
		t.Fatal(err)
	}
	b[50] ^= 1
	mem.SetBytes("history/MANIFEST", b)
	return mem, files
}

// TestLoosen: after it a history opens empty, and installing its files takes nothing from elsewhere; whatever step the power was cut at.
func TestLoosen(t *testing.T) {
	s := crashStream(t)
	cut := errors.New("power cut")
	cuts := 0
	for _, missing := range []bool{false, true} {
		for step, done := 0, false; !done; step++ {
			mem, files := spoiledHistory(t, s, missing)
			if _, err := Open(mem, "history", s.table, Options{}); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("opened: %v", err)
			}
			left := step
			mem.SetHook(func(vfs.Op, string) error {
				if left--; left < 0 {
					return cut
				}
				return nil
			})
			_, err := Loosen(mem, "history", "aside")
			mem.SetHook(nil)
			if done = err == nil; !done {
				if cuts++; !errors.Is(err, cut) {
					t.Fatal(err)
				}
				mem = mem.Crash([]*rand.Rand{nil, rand.New(rand.NewSource(int64(step)))}[step%2])
				if _, err := Loosen(mem, "history", "aside"); err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
			}
			checkLoose(t, mem, s, files, done || step%2 == 0)
		}
	}
	if cuts < 10 {
		t.Errorf("%d power cuts", cuts)
	}
}

// checkLoose opens a history that was taken apart and installs files in it; exact: none is missing.
func checkLoose(t *testing.T, mem *vfs.Mem, s *stream, files []Meta, exact bool) {
	t.Helper()
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	if _, last := st.Bounds(); last != 0 || len(st.Damaged()) > 0 {
		t.Fatalf("it is not empty: %d, %v", last, st.Damaged())
	}
	missing := st.Missing(files)
	if len(missing) > 0 {
		if exact {
			t.Fatalf("%v would be fetched again", missing)
		}
		return
	}
	if err := st.Install(files); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(st.Files(), files) {
		t.Fatalf("%v, not %v", st.Files(), files)
	}
	if left := incomingNames(t, mem); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// TestNewerManifest: one of a newer program is told from one whose version is damaged.
func TestNewerManifest(t *testing.T) {
	s := crashStream(t)
	mem, _ := spoiledHistory(t, s, false)
	b, err := mem.Bytes("history/MANIFEST")
	if err != nil {
		t.Fatal(err)
	}
	b[50] ^= 1 // whole again
	for name, want := range map[string]bool{"damaged": false, "newer": true} {
		bad := slices.Clone(b)
		bad[8] ^= 16
		if want {
			end := len(bad) - 4
			le.PutUint32(bad[end:], checksum(bad[:end]))
		}
		mem.SetBytes("history/MANIFEST", bad)
		_, err := Open(mem, "history", s.table, Options{})
		if errors.Is(err, ErrNewerVersion) != want || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "version") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
