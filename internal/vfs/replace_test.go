package vfs

import (
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var errStep = errors.New("the step fails")

// replaceCases are what a file holds before it is replaced; "-": it does not exist.
var replaceCases = []string{"-", "", "old content, longer than what comes after it"}

const newContent = "new content"

// replaceRig is a folder with the file to be replaced, durable.
func replaceRig(t *testing.T, before string) *Mem {
	t.Helper()
	m := NewMem()
	if err := m.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	if before != "-" {
		put(t, m, "d/x", before, true)
	}
	if err := m.SyncDir("d"); err != nil {
		t.Fatal(err)
	}
	return m
}

// wantReplaced: replacing works, whatever came before, and leaves nothing else.
func wantReplaced(t *testing.T, m *Mem, when string) {
	t.Helper()
	if err := Replace(m, "d/x", []byte(newContent)); err != nil {
		t.Fatalf("%s: again: %v", when, err)
	}
	list, err := m.List("d")
	if got := get(m.Crash(nil), "d/x"); got != newContent || err != nil || !slices.Equal(list, []string{"x"}) {
		t.Fatalf("%s: again: %q, and the folder has %q, %v", when, got, list, err)
	}
}

// TestReplaceCutAtEveryStep cuts the power before each step: the file is the old one or the new one, and the new one if it was said to be.
func TestReplaceCutAtEveryStep(t *testing.T) {
	for _, before := range replaceCases {
		left := map[string]int{}
		for steps, done := 0, false; !done; steps++ {
			m, seen := replaceRig(t, before), 0
			m.SetHook(func(Op, string) error {
				if seen++; seen > steps {
					return errStep
				}
				return nil
			})
			err := Replace(m, "d/x", []byte(newContent))
			if done = seen <= steps; done != (err == nil) || err != nil && !errors.Is(err, errStep) {
				t.Fatalf("cut after %d of %d steps: %v", steps, seen, err)
			}
			for seed := range int64(20) {
				var r *rand.Rand // at first all is lost that was not synced
				if seed > 0 {
					r = rand.New(rand.NewSource(seed))
				}
				when := fmt.Sprintf("%q, cut after %d steps, seed %d", before, steps, seed)
				after := m.Crash(r)
				got := get(after, "d/x")
				if got != newContent && (done || got != before) {
					t.Fatalf("%s: the file is %q", when, got)
				}
				left[got]++
				wantReplaced(t, after, when)
			}
		}
		if left[before] == 0 || left[newContent] <= 20 {
			t.Errorf("%q: cuts have left %v: they show nothing", before, left)
		}
	}
}

// TestReplaceFailingSteps fails one step, as a full disk does: the file is the old one, no other is left, and it can be done again.
func TestReplaceFailingSteps(t *testing.T) {
	for _, before := range replaceCases {
		var ops []Op
		for step, done := 1, false; !done; step++ {
			m, seen, failed := replaceRig(t, before), 0, Op("")
			m.SetHook(func(op Op, _ string) error {
				if seen++; seen != step {
					return nil
				}
				failed = op
				if op == OpWrite {
					return &ShortWrite{3, errStep}
				}
				return errStep
			})
			err := Replace(m, "d/x", []byte(newContent))
			m.SetHook(nil)
			when := fmt.Sprintf("%q, %s fails", before, failed)
			if done = failed == ""; done {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			ops = append(ops, failed)
			want, files := before, []string{"x"}
			if failed == OpSyncDir { // the disk may say either
				want = newContent
			}
			if want == "-" {
				files = nil
			}
			list, lerr := m.List("d")
			if got := get(m, "d/x"); !errors.Is(err, errStep) || got != want || lerr != nil || !slices.Equal(list, files) {
				t.Fatalf("%s: %v, the file is %q, the folder has %q, %v", when, err, got, list, lerr)
			}
			if got := get(m.Crash(nil), "d/x"); got != before {
				t.Fatalf("%s, and a crash: the file is %q", when, got)
			}
			wantReplaced(t, m, when)
		}
		if want := []Op{OpCreate, OpWrite, OpSync, OpRename, OpSyncDir}; !slices.Equal(ops, want) {
			t.Errorf("%q: the steps were %v, want %v", before, ops, want)
		}
	}
}

// TestWriteTempFill: what fill returns is returned, and what it wrote is gone.
func TestWriteTempFill(t *testing.T) {
	m := replaceRig(t, "old")
	err := WriteTemp(m, "d/x", func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, errStep)
	})
	if list, lerr := m.List("d"); !errors.Is(err, errStep) || lerr != nil || !slices.Equal(list, []string{"x"}) || get(m, "d/x") != "old" {
		t.Errorf("%v, the folder has %q, %v", err, list, lerr)
	}
}

// TestReplaceOnDisk: a temporary file that a crash has left is no hindrance, and none is left; the world may not read the file.
func TestReplaceOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(path+TempSuffix, []byte(strings.Repeat("half", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"1", "2"} {
		if err := Replace(OS(), path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + TempSuffix); get(OS(), path) != content || !os.IsNotExist(err) {
			t.Errorf("%q, %v", get(OS(), path), err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("%v, %v", info, err)
	}
	if err := Replace(OS(), filepath.Join(path, "y"), nil); err == nil {
		t.Error("a file in what is no folder")
	}
}
