package subtree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// badInputs are the ways in which a file can be wrong: other says what another stream has in its place; nil: no such file.
func badInputs(good, other []byte, manifest bool) map[string][][]byte {
	n := len(good)
	change := func(fn func(b []byte)) []byte {
		b := bytes.Clone(good)
		fn(b)
		return b
	}
	bad := map[string][][]byte{
		"missing": {nil}, "truncated": {{}}, "longer": {append(bytes.Clone(good), 0)}, "foreign": {other},
		"of another program": {bytes.Repeat([]byte("SQLite format 3\x00"), 1+n/16)[:n]},
		"all zero":           {make([]byte, n)},
		"future version": {change(func(b []byte) {
			if le.PutUint32(b[8:], 99); manifest {
				le.PutUint32(b[n-4:], checksum(b[:n-4]))
			} else {
				le.PutUint32(b[60:], checksum(b[:60]))
			}
		})},
	}
	for at := 1; at < n; at += 1 + n/41 {
		bad["truncated"] = append(bad["truncated"], good[:at])
		bad["zeroed range"] = append(bad["zeroed range"], change(func(b []byte) { clear(b[at:min(n, at+64)]) }))
	}
	for at := 0; at < n; at += 1 + n/400 { // each single byte: TestEveryFlippedByte
		bad["one bit flipped"] = append(bad["one bit flipped"], change(func(b []byte) { b[at] ^= 1 << (at * 5 % 8) }))
	}
	for name, list := range bad { // a range that is zero anyway is not damaged by zeros
		bad[name] = slices.DeleteFunc(list, func(b []byte) bool { return b != nil && bytes.Equal(b, good) })
	}
	return bad
}

// contents are all files of a file system, wherever they are.
func contents(t *testing.T, mem *vfs.Mem) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, dir := range []string{"history", "history/incoming", "history/quarantine"} {
		names, err := mem.List(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := mem.Bytes(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			all[string(b)] = true
		}
	}
	return all
}

// TestBadInput gives the Store every kind of file in every kind of bad state: an error that names file and offset, nothing
// wrong is served, nothing panics, and no data is deleted.
func TestBadInput(t *testing.T) {
	s, mem := damagedStream(t)
	_, strange := damagedStreamOf(t, 10)
	received := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	list := st.Files()
	to := mustOpen(t, received, s, Options{})
	if err := fetch(to, st, list); err != nil {
		t.Fatal(err)
	}
	_, _ = st.Close(), to.Close()
	part := filepath.Join(incomingDir, fmt.Sprintf("%x%s", list[1].SHA256, fileSuffix))
	for _, c := range []struct {
		kind, path, other string
		fs                *vfs.Mem
		use               func(mem *vfs.Mem) error
	}{
		{"window", "w-3.cnts", "w-3.cnts", mem, func(mem *vfs.Mem) error { return useHistory(t, mem, s, "w-3.cnts") }},
		{"generation", "g-1.cnts", "g-1.cnts", mem, func(mem *vfs.Mem) error { return useHistory(t, mem, s, "g-1.cnts") }},
		{"manifest", manifestName, manifestName, mem, func(mem *vfs.Mem) error { return walk(t, mem, s) }},
		{"received file", part, "w-3.cnts", received, func(mem *vfs.Mem) error { return useReceived(t, mem, s, list) }},
	} {
		path := filepath.Join("history", c.path)
		good, err := c.fs.Bytes(path)
		if err != nil {
			t.Fatal(err)
		}
		foreign, err := strange.Bytes(filepath.Join("history", c.other))
		if err != nil {
			t.Fatal(err)
		}
		for name, variants := range badInputs(good, foreign, c.kind == "manifest") {
			t.Run(c.kind+"/"+name, func(t *testing.T) {
				for i, b := range variants {
					mem := c.fs.Crash(nil)
					if err := mem.Remove(path); err != nil {
						t.Fatal(err)
					}
					if b != nil {
						mem.SetBytes(path, b)
					}
					before := contents(t, mem)
					err := c.use(mem)
					var e *CorruptError
					gone := c.kind == "received file" && errors.Is(err, fs.ErrNotExist)
					if !gone && (!errors.As(err, &e) || !errors.Is(err, ErrCorrupt) || e.File == "" || e.Offset < 0 || name != "foreign" && e.Offset > int64(max(len(b), len(good)))) {
						t.Fatalf("variant %d: %v", i, err)
					}
					if e != nil && name != "foreign" && e.File != c.path && c.kind != "received file" {
						t.Fatalf("variant %d names another file: %v", i, err)
					}
					after := contents(t, mem)
					for content := range before {
						if !after[content] && content != string(b) {
							t.Fatalf("variant %d cost a file of %d bytes", i, len(content))
						}
					}
					if c.kind != "received file" && b != nil && !after[string(b)] {
						t.Fatalf("variant %d: the bad file itself is gone", i)
					}
				}
			})
		}
	}
}

// useHistory reads everything, and scrubs; one of the files is bad.
func useHistory(t *testing.T, mem *vfs.Mem, s *stream, bad string) error {
	err := walk(t, mem, s)
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	if serr := st.Scrub(context.Background(), nil); serr != nil {
		t.Fatal(serr)
	}
	if d := st.Damaged(); len(d) != 1 || d[0].File != bad {
		t.Fatalf("scrubbed, damaged: %v", d)
	}
	return err
}

// useReceived installs a received file that is bad.
func useReceived(t *testing.T, mem *vfs.Mem, s *stream, list []Meta) error {
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	err := st.Install(list)
	if len(st.Files()) > 0 {
		t.Fatal("installed")
	}
	if missing := st.Missing(list); len(missing) != 1 {
		t.Fatalf("not missing after %v: %v", err, missing)
	}
	return err
}

// damagedStreamOf is damagedStream with messages of another seed.
func damagedStreamOf(t *testing.T, seed int64) (*stream, *vfs.Mem) {
	s, r := newStream(), rand.New(rand.NewSource(seed))
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	for range 3 {
		s.fill(t, r, 12, false)
		mustSeal(t, st, s, s.cut())
	}
	mustRewrite(t, st, Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: s.plans(2)})
	if err := mem.SyncDir("history"); err != nil { // what the rewrite has removed stays so
		t.Fatal(err)
	}
	return s, mem
}
