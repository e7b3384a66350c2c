package subtree

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// damagedStream has one generation and one window, small.
func damagedStream(t *testing.T) (*stream, *vfs.Mem) { return damagedStreamOf(t, 9) }

// walk reads everything by all ways, and returns the first error. Whatever it is given must be right.
func walk(t *testing.T, fs vfs.FS, s *stream) error {
	st, err := Open(fs, "history", s.table, Options{})
	if err != nil {
		return err
	}
	defer st.Close()
	var errs []error
	for _, list := range [][]string{{"**"}, {"a/**"}, {"b/a", "b/b/**", "c/c/a"}} {
		fs := mustFilters(t, list...)
		got, err := readAll(st, fs, 1, func() Limit { return Limit{Count: 3} })
		if want := s.want(fs, 1, s.last()); !bytes.HasPrefix(want, got) || err == nil && len(got) < len(want) {
			t.Fatalf("%v: damaged bytes were served", list)
		}
		errs = append(errs, err)
	}
	first, last := st.Windows()
	errs = append(errs, st.Volumes(first, last, func(topic.ID, []TopicVolume) error { return nil }))
	if err := errors.Join(errs...); err != nil && len(st.Damaged()) == 0 {
		t.Fatalf("%v, but nothing is listed as damaged", err)
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// TestEveryFlippedByte: there is no byte of any file whose damage goes unseen.
func TestEveryFlippedByte(t *testing.T) {
	s, fs := damagedStream(t)
	if err := walk(t, fs, s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"g-1.cnts", "w-3.cnts", manifestName} {
		path := filepath.Join("history", name)
		good, err := fs.Bytes(path)
		if err != nil {
			t.Fatal(err)
		}
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (at % 8)
			fs.SetBytes(path, bad)
			checkCorrupt(t, walk(t, fs, s), name, int64(at))
		}
		fs.SetBytes(path, good)
	}
}

func checkCorrupt(t *testing.T, err error, name string, at int64) {
	t.Helper()
	var e *CorruptError
	if !errors.As(err, &e) || !errors.Is(err, ErrCorrupt) || e.File != name || e.Offset < 0 {
		t.Fatalf("%s damaged at byte %d: %v", name, at, err)
	}
	if !strings.Contains(e.Error(), name) || !strings.Contains(e.Error(), "byte") {
		t.Fatalf("the error does not name file and offset: %v", e)
	}
}

func TestCutAndZeroedFiles(t *testing.T) {
	s, fs := damagedStream(t)
	for _, name := range []string{"g-1.cnts", "w-3.cnts", manifestName} {
		path := filepath.Join("history", name)
		good, _ := fs.Bytes(path)
		for at := 0; at < len(good); at += 1 + len(good)/97 {
			fs.SetBytes(path, good[:at])
			checkCorrupt(t, walk(t, fs, s), name, int64(at))
			zeroed := bytes.Clone(good)
			clear(zeroed[at:min(at+512, len(zeroed))])
			if !bytes.Equal(zeroed, good) {
				fs.SetBytes(path, zeroed)
				checkCorrupt(t, walk(t, fs, s), name, int64(at))
			}
		}
		fs.SetBytes(path, append(bytes.Clone(good), 0))
		checkCorrupt(t, walk(t, fs, s), name, int64(len(good)))
		fs.SetBytes(path, good)
	}
}

func TestForeignAndFutureFiles(t *testing.T) {
	s, fs := damagedStream(t)
	other := newStream()
	ofs := vfs.NewMem()
	ost := mustOpen(t, ofs, other, Options{})
	for range 3 {
		other.fill(t, rand.New(rand.NewSource(10)), 12, false)
		mustSeal(t, ost, other, other.cut())
	}
	_ = ost.Close()
	read := func(fs *vfs.Mem, name string) []byte {
		b, err := fs.Bytes(filepath.Join("history", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	good := read(fs, "w-3.cnts")
	future := bytes.Clone(good)
	le.PutUint32(future[8:], version+1)
	le.PutUint32(future[60:], checksum(future[:60]))
	futureTail := bytes.Clone(good)
	tail := futureTail[len(good)-tailSize:]
	le.PutUint32(tail[20:], version+1)
	le.PutUint32(tail[32:], checksum(tail[:32]))
	sameSize := make([]byte, len(good))
	copy(sameSize, "SQLite format 3\x00")
	for _, c := range []struct {
		name string
		b    []byte
		rule string
	}{
		{"of another stream", read(ofs, "w-3.cnts"), ""},
		{"of another window", read(fs, "g-1.cnts"), ""},
		{"of another program", sameSize, "wrong magic"},
		{"of a newer version", future, "newer program"},
		{"with a newer tail", futureTail, "newer program"},
	} {
		fs.SetBytes("history/w-3.cnts", c.b)
		err := walk(t, fs, s)
		checkCorrupt(t, err, "w-3.cnts", 0)
		if !strings.Contains(err.Error(), c.rule) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	fs.SetBytes("history/w-3.cnts", good)
	stranger := newStream()
	for i := range s.table.Nodes() {
		stranger.add(t, fmt.Sprintf("s/t/x%d", i), nil)
	}
	st := mustOpen(t, fs, stranger, Options{})
	_, err := readAll(st, everything(), 1, noLimit)
	checkCorrupt(t, err, "g-1.cnts", 0)
	_ = st.Close()
	if err := fs.Remove("history/MANIFEST"); err != nil {
		t.Fatal(err)
	}
	checkCorrupt(t, walk(t, fs, s), manifestName, 0)
	if _, err := fs.Bytes("history/w-3.cnts"); err != nil {
		t.Error("a missing manifest cost data:", err)
	}
}

// TestMissingFileIsSealedAgain: the rest is served, reads of the gap fail, and the archiver's next visit mends it.
func TestMissingFileIsSealedAgain(t *testing.T) {
	s, fs := damagedStream(t)
	want, _ := fs.Bytes("history/w-3.cnts")
	if err := fs.Remove("history/w-3.cnts"); err != nil {
		t.Fatal(err)
	}
	st := mustOpen(t, fs, s, Options{})
	defer st.Close()
	if d := st.Damaged(); len(d) != 1 || d[0].File != "w-3.cnts" {
		t.Fatalf("damaged: %v", d)
	}
	got, err := readAll(st, everything(), 1, noLimit)
	checkCorrupt(t, err, "w-3.cnts", 0)
	if err := same(got, s.want(everything(), 1, s.cuts[1])); err != nil {
		t.Error("what is whole was not served:", err)
	}
	w := s.window(3, s.last())
	other := newStream()
	other.fill(t, rand.New(rand.NewSource(77)), 36, false)
	if err := st.Seal(w, other.runs(w)); err == nil {
		t.Error("the damaged file was made anew of other messages")
	}
	mustSeal(t, st, s, w)
	if d := st.Damaged(); len(d) != 0 {
		t.Errorf("mended, but damaged: %v", d)
	}
	if b, _ := fs.Bytes("history/w-3.cnts"); !bytes.Equal(b, want) {
		t.Error("the mended file has other bytes")
	}
	if got, err := readAll(st, everything(), 1, noLimit); err != nil || same(got, s.want(everything(), 1, s.last())) != nil {
		t.Error("mended, but:", err)
	}
}

// TestReadErrors: a disk that cannot be read is a damaged file, and nothing read before is lost.
func TestReadErrors(t *testing.T) {
	s, fs := damagedStream(t)
	st := mustOpen(t, fs, s, Options{CacheBytes: 1})
	defer st.Close()
	broken := false
	fs.SetHook(func(op vfs.Op, name string) error {
		if broken && op == vfs.OpRead && strings.Contains(name, "w-3") {
			return errPower
		}
		return nil
	})
	c := st.NewCursor(topic.NewMatcher(s.table, everything()), 1)
	defer c.Close()
	broken = true
	got, err := drainCursor(st, c, func() Limit { return Limit{Count: 5} })
	checkCorrupt(t, err, "w-3.cnts", 0)
	if !errors.Is(err, errPower) {
		t.Errorf("the cause is not told: %v", err)
	}
	broken = false
	more, err := drainCursor(st, c, noLimit)
	if err != nil || same(append(got, more...), s.want(everything(), 1, s.last())) != nil {
		t.Errorf("after the disk has recovered: %v", err)
	}
}
