package cluster

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// boltLog makes a raft log whose pages are of every kind: branches, leaves, and values over many pages; some entries are deleted again.
func boltLog(tb testing.TB) []byte {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "log.db")
	s, err := openBolt(path, 0)
	if err != nil {
		tb.Fatal(err)
	}
	for i := uint64(1); i <= 600; i += 20 {
		var logs []*raft.Log
		for n := i; n < i+20; n++ {
			logs = append(logs, &raft.Log{Index: n, Term: 1, Data: make([]byte, 20+n%7*9)})
		}
		if i == 201 {
			logs[3].Data = make([]byte, 40_000)
		}
		if err := s.StoreLogs(logs); err != nil {
			tb.Fatal(err)
		}
	}
	if err := s.DeleteRange(1, 100); err != nil {
		tb.Fatal(err)
	}
	if err := s.Close(); err != nil {
		tb.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// openAndRead opens a log and reads all of it, as a start does.
func openAndRead(path string) error {
	s, err := openBolt(path, 0)
	if err != nil {
		return err
	}
	defer func() { _ = recovered(s.Close) }()
	return recovered(func() error {
		first, err := s.FirstIndex()
		if err != nil {
			return err
		}
		last, err := s.LastIndex()
		for i := first; i <= last && err == nil; i++ {
			var l raft.Log
			if err = s.GetLog(i, &l); l.Index != i && err == nil {
				err = errBolt
			}
		}
		return err
	})
}

// TestDamagedPages: bolt is never given a file on which it ends the process. Bytes of heads and of elements are what is spoiled most.
func TestDamagedPages(t *testing.T) {
	good := boltLog(t)
	path := filepath.Join(t.TempDir(), "log.db")
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openAndRead(path); err != nil {
		t.Fatalf("the whole file: %v", err)
	}
	refused, pages := 0, len(good)/os.Getpagesize()
	rapid.Check(t, func(r *rapid.T) {
		bad := append([]byte(nil), good...)
		for range rapid.IntRange(1, 3).Draw(r, "spoilt") {
			at := rapid.IntRange(0, pages-1).Draw(r, "page") * os.Getpagesize()
			at += rapid.IntRange(0, rapid.SampledFrom([]int{15, 100, os.Getpagesize() - 1}).Draw(r, "within")).Draw(r, "byte")
			bad[at] ^= 1 << rapid.IntRange(0, 7).Draw(r, "bit")
		}
		bad = bad[:len(bad)-rapid.SampledFrom([]int{0, 0, 0, 1, os.Getpagesize(), len(bad) / 2}).Draw(r, "cut")]
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			r.Fatal(err)
		}
		if openAndRead(path) != nil {
			refused++
		}
	})
	if refused == 0 {
		t.Error("no damage was seen: the test shows nothing")
	}
}

// FuzzBoltPages: pages of any content are walked to an end, or refused.
func FuzzBoltPages(f *testing.F) {
	f.Add(boltLog(f)[:64<<10])
	f.Add(make([]byte, 3*4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < 2*4096 {
			return // checkMetas refuses it
		}
		p, root, err := newBoltPages(b)
		if err != nil {
			return
		}
		if err := p.buckets(root); err == nil && uint64(len(p.seen))*p.size > uint64(len(b)) {
			t.Fatalf("%d pages of %d in %d bytes", len(p.seen), p.size, len(b))
		}
	})
}

// TestPagesInACircle: a branch that leads back to one above it ends the walk.
func TestPagesInACircle(t *testing.T) {
	good := boltLog(t)
	size := uint64(binary.LittleEndian.Uint32(good[boltMetaHead+8:]))
	circles := 0
	for page := uint64(2); page < uint64(len(good))/size; page++ {
		b := good[page*size:]
		if binary.LittleEndian.Uint64(b) != page || binary.LittleEndian.Uint16(b[8:]) != boltBranchPage {
			continue
		}
		bad := append([]byte(nil), good...)
		binary.LittleEndian.PutUint64(bad[page*size+boltPageHead+8:], page)
		p, root, err := newBoltPages(bad)
		if err != nil {
			t.Fatal(err)
		}
		if p.buckets(root) != nil {
			circles++
		}
	}
	if circles == 0 {
		t.Error("no branch of the tree in force was turned back on itself")
	}
}

// TestBoltOfANewerVersion: a file that a newer bolt wrote is not damaged, and says what to do.
func TestBoltOfANewerVersion(t *testing.T) {
	b := boltLog(t)
	for _, meta := range []int{0, os.Getpagesize()} {
		binary.LittleEndian.PutUint32(b[meta+boltMetaHead+4:], 3)
		sum := fnv.New64a()
		_, _ = sum.Write(b[meta+boltMetaHead : meta+boltMetaSum])
		binary.LittleEndian.PutUint64(b[meta+boltMetaSum:], sum.Sum64())
	}
	path := filepath.Join(t.TempDir(), "log.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := openAndRead(path); !errors.Is(err, errNewerVersion) || damageOf(err) != nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}
