package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math/rand"
	"path/filepath"
	"slices"
	"testing"
)

func put(t *testing.T, f FS, name, content string, sync bool) {
	t.Helper()
	w, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write([]byte(content))
	if err == nil && sync {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
}

// appendTo writes to the end of a file and reads all of it back by the same handle.
func appendTo(t *testing.T, f FS, name, more string) {
	t.Helper()
	before, _ := f.Open(name)
	var size int64
	if before != nil {
		size, _ = before.Size()
		_ = before.Close()
	}
	a, err := f.OpenAppend(name)
	if err != nil {
		t.Fatal(err)
	}
	n, err := a.Write([]byte(more))
	b := make([]byte, len(more))
	_, rerr := a.ReadAt(b, size)
	if err = errors.Join(err, rerr, a.Sync(), a.Close()); err != nil || n != len(more) || string(b) != more {
		t.Fatalf("append %q to %s: %d bytes, read back %q, %v", more, name, n, b, err)
	}
}

func get(f FS, name string) string {
	b, err := ReadFile(f, name, 1<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return "-"
	}
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestBoth holds the memory to what the machine's file system does.
func TestBoth(t *testing.T) {
	for name, f := range map[string]FS{"os": OS(), "mem": NewMem()} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "a", "b")
			if _, err := f.List(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Error("list of a missing folder:", err)
			}
			if err := f.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			x, y := filepath.Join(dir, "x"), filepath.Join(dir, "y")
			put(t, f, x, "first", true)
			put(t, f, x, "2", true)
			put(t, f, y, "oth", false)
			put(t, f, filepath.Join(dir, "z2"), "longer", false)
			for _, more := range []string{"e", "r"} {
				appendTo(t, f, y, more)
			}
			appendTo(t, f, filepath.Join(dir, "z"), "new")
			if get(f, filepath.Join(dir, "z")) != "new" || f.Remove(filepath.Join(dir, "z")) != nil {
				t.Error("a file that is made by appending")
			}
			open, err := f.Open(y)
			if err != nil {
				t.Fatal(err)
			}
			open.Prefetch(0, 100)
			if err := errors.Join(f.Rename(x, y), f.SyncDir(dir)); err != nil {
				t.Fatal(err)
			}
			if b, err := ReadFile(f, x, 3); err == nil || b != nil {
				t.Errorf("a file that has moved: %q, %v", b, err)
			}
			if b, err := ReadFile(f, filepath.Join(dir, "z2"), 3); string(b) != "lon" || err != nil {
				t.Errorf("the beginning of a file: %q, %v", b, err)
			}
			if get(f, y) != "2" || get(f, x) != "-" {
				t.Errorf("renamed: x %q, y %q", get(f, x), get(f, y))
			}
			b := make([]byte, 10)
			if n, err := open.ReadAt(b, 2); n != 3 || !errors.Is(err, io.EOF) || string(b[:n]) != "her" {
				t.Errorf("a replaced file that is open: %q, %v", b[:n], err)
			}
			if err := open.Close(); err != nil {
				t.Error(err)
			}
			if _, err := open.ReadAt(b, 0); err == nil {
				t.Error("a closed file can be read")
			}
			if list, err := f.List(dir); err != nil || !slices.Equal(list, []string{"y", "z2"}) {
				t.Error(list, err)
			}
			for _, err := range []error{f.Remove(x), f.Rename(x, y)} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Error("a missing file:", err)
				}
			}
			if err := f.Remove(y); err != nil {
				t.Error(err)
			}
			if _, err := f.Create(filepath.Join(dir, "no", "x")); !errors.Is(err, fs.ErrNotExist) {
				t.Error("a file in a missing folder:", err)
			}
		})
	}
}

// TestCrash looks at all that a crash may leave: what was synced always, the rest sometimes.
func TestCrash(t *testing.T) {
	m := NewMem()
	if err := m.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	put(t, m, "d/durable", "old", true)
	put(t, m, "d/tail", "abc", true)
	if err := m.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	put(t, m, "d/unnamed", "content", true)
	put(t, m, "d/new", "new", true)
	if err := m.Rename("d/new", "d/durable"); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove("d/tail"); err != nil {
		t.Fatal(err)
	}
	put(t, m, "d/unsynced", "xyz", false)
	if err := m.SyncDir("e"); err != nil {
		t.Fatal(err)
	}

	strict := m.Crash(nil)
	if got := []string{get(strict, "d/durable"), get(strict, "d/tail"), get(strict, "d/unnamed"), get(strict, "d/unsynced")}; !slices.Equal(got, []string{"old", "abc", "-", "-"}) {
		t.Error("all is lost that was not synced:", got)
	}
	seen := map[string]map[string]bool{}
	for seed := range int64(300) {
		after := m.Crash(rand.New(rand.NewSource(seed)))
		for _, name := range []string{"d/durable", "d/tail", "d/unnamed", "d/unsynced"} {
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			seen[name][get(after, name)] = true
		}
	}
	want := map[string][]string{
		"d/durable": {"old", "new"}, "d/tail": {"abc", "-"}, "d/unnamed": {"-", "content"},
		"d/unsynced": {"-", "", "x", "xy", "xyz", "\x00", "\x00\x00", "\x00\x00\x00"},
	}
	for name, list := range want {
		if len(seen[name]) != len(list) {
			t.Errorf("%s: %v, want %q", name, seen[name], list)
		}
		for _, content := range list {
			if !seen[name][content] {
				t.Errorf("%s is never %q", name, content)
			}
		}
	}
}

func TestHook(t *testing.T) {
	m, stop := NewMem(), errors.New("stop")
	var ops []Op
	m.SetHook(func(op Op, name string) error {
		ops = append(ops, op)
		if op == OpSync {
			return stop
		}
		return nil
	})
	_ = m.MkdirAll("d")
	f, _ := m.Create("d/x")
	_, _ = f.Write([]byte("1"))
	if err := f.Sync(); !errors.Is(err, stop) {
		t.Error(err)
	}
	_ = m.SyncDir("d")
	m.SetHook(nil)
	_ = m.Remove("d/x")
	if !slices.Equal(ops, []Op{OpMkdir, OpCreate, OpWrite, OpSync, OpSyncDir}) {
		t.Error(ops)
	}
	if got := get(m.Crash(nil), "d/x"); got != "" {
		t.Errorf("a sync that failed made %q durable", got)
	}
}

// TestShortWrite: the last of the space is written, and what was synced before survives a crash.
func TestShortWrite(t *testing.T) {
	m, full := NewMem(), errors.New("no space left")
	if err := errors.Join(m.MkdirAll("d"), m.SyncDir("d")); err != nil {
		t.Fatal(err)
	}
	put(t, m, "d/x", "abc", true)
	if err := m.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	f, err := m.OpenAppend("d/x")
	if err != nil {
		t.Fatal(err)
	}
	m.SetHook(func(op Op, _ string) error {
		if op == OpWrite {
			return &ShortWrite{2, full}
		}
		return nil
	})
	if n, err := f.Write([]byte("defg")); n != 2 || !errors.Is(err, full) {
		t.Error(n, err)
	}
	if n, err := f.Write([]byte("h")); n != 1 || !errors.Is(err, full) {
		t.Error(n, err)
	}
	if got := get(m, "d/x"); got != "abcdeh" {
		t.Errorf("written: %q", got)
	}
	if got := get(m.Crash(nil), "d/x"); got != "abc" {
		t.Errorf("after a crash: %q", got)
	}
}
