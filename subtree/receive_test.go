package subtree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// fetch brings files from one Store to another, without installing them.
func fetch(to, from *Store, list []Meta) error {
	for _, m := range to.Missing(list) {
		if err := fetchOne(to, from, m); err != nil {
			return err
		}
	}
	return nil
}

func fetchOne(to, from *Store, m Meta) error {
	h, err := from.OpenSum(m.SHA256)
	if err != nil {
		return err
	}
	defer h.Close()
	in, err := to.Receive(m)
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := h.Seek(in.Have(), io.SeekStart); err != nil {
		return err
	}
	if _, err := io.CopyBuffer(struct{ io.Writer }{in}, struct{ io.Reader }{h}, make([]byte, 700)); err != nil {
		return err
	}
	return in.Commit()
}

// peerOf holds the first windows of a stream, the first two of them as a generation.
func peerOf(t tester, s *stream, windows int) *Store {
	peer := mustOpen(t, vfs.NewMem(), s, Options{})
	for i := range windows {
		mustSeal(t, peer, s, s.window(i+1, s.cuts[i]))
	}
	mustRewrite(t, peer, Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: s.plans(1)})
	return peer
}

// incomingNames are the received files and parts in a folder.
func incomingNames(t *testing.T, fs *vfs.Mem) string {
	t.Helper()
	names, err := fs.List("history/incoming")
	if err != nil {
		return ""
	}
	for i := range names {
		names[i] = names[i][64:]
	}
	return strings.Join(names, " ")
}

// TestReceiveResumes: a transfer goes on where it stopped, also after a restart.
func TestReceiveResumes(t *testing.T) {
	s := crashStream(t)
	peer := peerOf(t, s, 3)
	defer peer.Close()
	m := peer.Files()[0]
	h, err := peer.OpenSum(m.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	good, err := io.ReadAll(h)
	if err != nil || int64(len(good)) != h.Size() || h.Meta() != m {
		t.Fatalf("%d bytes, %v", len(good), err)
	}
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	for at, n := 0, 1; at < len(good); n *= 3 {
		in, err := st.Receive(m)
		if err != nil || in.Have() != int64(at) {
			t.Fatalf("have %d, want %d: %v", in.Have(), at, err)
		}
		if _, err := st.Receive(m); !errors.Is(err, ErrReceiving) {
			t.Fatalf("received twice at a time: %v", err)
		}
		next := min(len(good), at+n)
		if _, err := in.Write(good[at:next]); err != nil {
			t.Fatal(err)
		}
		if next < len(good) {
			if err := in.Commit(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "end early") {
				t.Fatalf("%d of %d bytes were taken for all: %v", next, len(good), err)
			}
		}
		if at = next; at >= headerSize && at < len(good)/2 {
			if err := errors.Join(in.Close(), in.Close(), st.Close()); err != nil {
				t.Fatal(err)
			}
			st = mustOpen(t, mem, s, Options{})
			continue
		}
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	in, err := st.Receive(m)
	if err != nil || in.Commit() != nil || in.Commit() != nil || in.Close() != nil || in.Have() != m.Size {
		t.Fatal(err)
	}
	if len(st.Missing([]Meta{m})) != 0 || len(st.Files()) != 0 || len(st.Damaged()) != 0 {
		t.Fatal("received, but not so")
	}
	_ = st.Close()
	st = mustOpen(t, mem.Crash(nil), s, Options{})
	defer st.Close()
	if len(st.Missing([]Meta{m})) != 0 {
		t.Fatal("received, but lost in a crash")
	}
	if err := st.Install([]Meta{m}); err != nil || fileNames(st) != "g-1.cnts" {
		t.Fatal(err, fileNames(st))
	}
	if in, err := st.Receive(m); err != nil || in.Have() != m.Size || in.Commit() != nil {
		t.Fatal("what is here is received again:", err)
	}
}

// TestReceiveRefuses what is not the file: the error says so, nothing is received, nothing counts as damage.
func TestReceiveRefuses(t *testing.T) {
	s := crashStream(t)
	peer := peerOf(t, s, 3)
	defer peer.Close()
	m, other := peer.Files()[1], peer.Files()[0]
	read := func(m Meta) []byte {
		h, err := peer.OpenSum(m.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		b, _ := io.ReadAll(h)
		return b
	}
	good := read(m)
	flipped := bytes.Clone(good)
	flipped[len(good)/2] ^= 4
	lying := m
	lying.MaxTopic++
	broken := m
	broken.LastSeq = 0
	for _, c := range []struct {
		name string
		m    Meta
		b    []byte
		rule string
		left string // of the part
	}{
		{"garbage", m, bytes.Repeat([]byte("garbage "), 100), "wrong magic", ""},
		{"one byte wrong", m, flipped, "SHA-256", ""},
		{"another file", m, read(other), "another file", ""},
		{"too much", m, append(bytes.Clone(good), 1), "more bytes", ".part"},
		{"too little", m, good[:len(good)-1], "end early", ".part"},
		{"nothing", m, nil, "end early", ".part"},
		{"a description that lies", lying, good, "figures", ""},
		{"a description that makes no sense", broken, good, "ends before it begins", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			st := mustOpen(t, mem, s, Options{})
			defer st.Close()
			err := func() error {
				in, err := st.Receive(c.m)
				if err != nil {
					return err
				}
				defer in.Close()
				for b := c.b; len(b) > 0; b = b[min(len(b), 50):] {
					if _, err := in.Write(b[:min(len(b), 50)]); err != nil {
						return err
					}
				}
				return in.Commit()
			}()
			var e *CorruptError
			if !errors.As(err, &e) || e.File != c.m.Name() || e.Op != "receive" || !strings.Contains(err.Error(), c.rule) {
				t.Fatalf("%v", err)
			}
			if got := incomingNames(t, mem); got != c.left || len(st.Damaged()) > 0 || len(st.Missing([]Meta{c.m})) != 1 {
				t.Fatalf("left: %q, damaged: %v", got, st.Damaged())
			}
			if err := st.Install([]Meta{c.m}); err == nil || fileNames(st) != "" {
				t.Fatal("installed:", err)
			}
			if err := fetchOne(st, peer, m); err != nil {
				t.Fatal("the good bytes, after that:", err)
			}
		})
	}
}

// TestBadParts: whatever a part file holds, it is taken for nothing else than a part, and never keeps the good file away.
func TestBadParts(t *testing.T) {
	s := crashStream(t)
	peer := peerOf(t, s, 3)
	defer peer.Close()
	m := peer.Files()[1]
	h, err := peer.OpenSum(m.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	good, _ := io.ReadAll(h)
	_ = h.Close()
	zeroed, flipped := bytes.Clone(good), bytes.Clone(good)
	clear(zeroed[len(good)/3 : len(good)/2])
	flipped[len(good)/2] ^= 1
	future := bytes.Clone(good)
	le.PutUint32(future[8:], version+1)
	le.PutUint32(future[60:], checksum(future[:60]))
	for name, b := range map[string][]byte{
		"empty": {}, "cut in the header": good[:10], "cut": good[:len(good)/2], "whole": good, "longer": append(bytes.Clone(good), 0),
		"zeroed": zeroed, "flipped": flipped, "foreign": []byte(strings.Repeat("SQLite format 3\x00", 50)), "future": future,
	} {
		for _, suffix := range []string{partSuffix, fileSuffix} {
			mem := vfs.NewMem()
			if err := mem.MkdirAll("history/incoming"); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("history/incoming", fmt.Sprintf("%x%s", m.SHA256, suffix))
			mem.SetBytes(path, b)
			mem.SetBytes("history/incoming/notes.txt", []byte("not ours"))
			st := mustOpen(t, mem, s, Options{})
			err := st.Install([]Meta{m})
			if whole := bytes.Equal(b, good) && suffix == fileSuffix; (err == nil) != whole {
				t.Fatalf("%s%s: installed: %v", name, suffix, err)
			}
			for try := 0; len(st.Missing([]Meta{m})) > 0; try++ {
				if err := fetchOne(st, peer, m); err != nil && (try > 0 || !errors.Is(err, ErrCorrupt)) {
					t.Fatalf("%s%s: %v", name, suffix, err)
				}
			}
			if err := st.Install([]Meta{m}); err != nil {
				t.Fatalf("%s%s: %v", name, suffix, err)
			}
			if err := checkAll(st, s); err != nil {
				t.Fatalf("%s%s: %v", name, suffix, err)
			}
			if names, _ := mem.List("history/incoming"); strings.Join(names, " ") != "notes.txt" {
				t.Fatalf("%s%s: left behind: %v", name, suffix, names)
			}
			_ = st.Close()
		}
	}
}

// checkAll reads all that history says it holds, and scrubs it.
func checkAll(st *Store, s *stream) error {
	first, last := st.Bounds()
	got, err := readAll(st, everything(), first, noLimit)
	if err == nil {
		err = same(got, s.want(everything(), first, last))
	}
	if err == nil {
		err = st.Scrub(context.Background(), nil)
	}
	if d := st.Damaged(); err == nil && len(d) > 0 {
		err = d[0]
	}
	return err
}

// TestUselessPartsAreRemoved by Install, Drop, Forget and Open; what may be of use stays.
func TestUselessPartsAreRemoved(t *testing.T) {
	s := crashStream(t)
	peer := peerOf(t, s, 3)
	defer peer.Close()
	windows := mustOpen(t, vfs.NewMem(), s, Options{})
	defer windows.Close()
	for i := range 3 {
		mustSeal(t, windows, s, s.window(i+1, s.cuts[i]))
	}
	part := func(t *testing.T, st *Store, m Meta, size int64) {
		h, err := windows.OpenSum(m.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		in, err := st.Receive(m)
		if err == nil {
			_, err = io.CopyN(in, h, size)
		}
		if err = errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		run  func(st *Store) error
		left string
	}{
		{"nothing", func(*Store) error { return nil }, ".part .part .part"},
		{"install", func(st *Store) error { return errors.Join(fetch(st, peer, peer.Files()), st.Install(peer.Files()[:1])) }, ".cnts"},
		{"forget", func(st *Store) error { return st.Forget(windows.Files()[:1]) }, ".part"},
		{"drop", func(st *Store) error {
			w := s.window(1, s.cuts[0])
			return errors.Join(st.Seal(w, s.runs(w)), st.Drop(2))
		}, ".part .part"},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			st := mustOpen(t, mem, s, Options{})
			for _, m := range windows.Files() {
				part(t, st, m, m.Size/2)
			}
			if err := c.run(st); err != nil {
				t.Fatal(err)
			}
			if got := incomingNames(t, mem); got != c.left {
				t.Fatalf("left: %q, want %q", got, c.left)
			}
			_ = st.Close()
		})
	}
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	part(t, st, windows.Files()[0], 20) // less than a header
	part(t, st, windows.Files()[1], windows.Files()[1].Size/2)
	if err := fetchOne(st, windows, windows.Files()[2]); err != nil {
		t.Fatal(err)
	}
	mustSeal(t, st, s, s.window(1, s.cuts[0]))
	mustSeal(t, st, s, s.window(2, s.cuts[1]))
	_ = st.Close()
	st = mustOpen(t, mem, s, Options{})
	if got := incomingNames(t, mem); got != ".cnts" {
		t.Errorf("after a restart: %q", got)
	}
	if missing := st.Missing(windows.Files()); len(missing) != 0 {
		t.Errorf("missing: %v", missing)
	}
	_ = st.Close()
}

// TestMetaBytes: a description goes to other nodes and back; one that makes no sense is refused.
func TestMetaBytes(t *testing.T) {
	s, mem := damagedStream(t)
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	for _, m := range st.Files() {
		b, err := m.MarshalBinary()
		var back Meta
		if err = errors.Join(err, back.UnmarshalBinary(b)); err != nil || back != m {
			t.Errorf("%+v, want %+v: %v", back, m, err)
		}
		clear(b[16:24])
		if err := back.UnmarshalBinary(b); !errors.Is(err, ErrCorrupt) || back != m {
			t.Error("a window 0:", err)
		}
		if err := back.UnmarshalBinary(b[1:]); !errors.Is(err, ErrCorrupt) {
			t.Error("cut:", err)
		}
	}
}

// TestHeldOutlivesTheManifest: what somebody sends on stays readable, and goes when he is done.
func TestHeldOutlivesTheManifest(t *testing.T) {
	s := crashStream(t)
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	for i := range 3 {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
	}
	m := st.Files()[0]
	want, _ := mem.Bytes("history/w-1.cnts")
	h, err := st.OpenSum(m.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	c := st.NewCursor(topic.NewMatcher(s.table, everything()), 1)
	defer c.Close()
	var v View
	defer v.Release()
	if err := c.Read(&v, Limit{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Drop(1), st.Drop(1), st.Drop(0)); err != nil {
		t.Fatal(err)
	}
	var gone *GoneError
	if err := c.Read(&v, Limit{}); !errors.As(err, &gone) || gone.Wanted != 2 || gone.Oldest != s.cuts[0]+1 {
		t.Errorf("a cursor in what was dropped: %v", err)
	}
	if got, err := io.ReadAll(h); err != nil || !bytes.Equal(got, want) {
		t.Errorf("a held file: %d bytes, %v", len(got), err)
	}
	if _, err := st.OpenSum(m.SHA256); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a dropped file is opened:", err)
	}
	if err := errors.Join(h.Close(), h.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := mem.Bytes("history/w-1.cnts"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a dropped file stays:", err)
	}
	if err := checkAll(st, s); err != nil {
		t.Error(err)
	}
}

// TestNameIsUsedAgain: a file that left but is still held must not take a later one of its name with it when it goes.
func TestNameIsUsedAgain(t *testing.T) {
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
	h, err := st.OpenSum(st.Files()[0].SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if err := rewriteTwo(st, s); err != nil {
		t.Fatal(err)
	}
	g, err := st.OpenSum(st.Files()[0].SHA256)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(fetch(st, windows, windows.Files()), st.Install(windows.Files()), h.Close()); err != nil {
		t.Fatal(err)
	}
	if fileNames(st) != "w-1.cnts w-2.cnts w-3.cnts" {
		t.Fatal(fileNames(st))
	}
	checkWhole(t, st, mem, s, "windows again, the generation held", "g-1.cnts")
	if err := errors.Join(rewriteTwo(st, s), g.Close()); err != nil {
		t.Fatal(err)
	}
	checkWhole(t, st, mem, s, "the generation again")
}

// TestFullDiskWhileReceiving: what fits is kept, and the rest follows when there is room.
func TestFullDiskWhileReceiving(t *testing.T) {
	s := crashStream(t)
	peer := peerOf(t, s, 3)
	defer peer.Close()
	mem, full := vfs.NewMem(), errors.New("no space left on device")
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	room, r := 0, rand.New(rand.NewSource(1))
	mem.SetHook(func(op vfs.Op, name string) error {
		if op != vfs.OpWrite && op != vfs.OpSync {
			return nil
		}
		if room--; room < 0 {
			return &vfs.ShortWrite{Bytes: r.Intn(700), Err: full}
		}
		return nil
	})
	tries := 0
	for ; ; tries++ {
		err := fetch(st, peer, peer.Files())
		if err == nil {
			err = st.Install(peer.Files())
		}
		if err == nil {
			break
		}
		if !errors.Is(err, full) {
			t.Fatal(err)
		}
		room = tries % 4
	}
	if tries < 20 {
		t.Errorf("the disk was full only %d times", tries)
	}
	mem.SetHook(nil)
	checkWhole(t, st, mem, s, "after all")
}
