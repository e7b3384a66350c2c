package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// spoilings are what a disk does to a file, the first size bytes of which are in use.
func spoilings(size int) map[string]func(b []byte) []byte {
	tail := func(n int) int { return max(0, size-n) }
	list := map[string]func(b []byte) []byte{
		"cut to nothing":   func(b []byte) []byte { return b[:0] },
		"cut by one byte":  func(b []byte) []byte { return b[:tail(1)] },
		"cut by a page":    func(b []byte) []byte { return b[:tail(4096)] },
		"cut to half":      func(b []byte) []byte { return b[:size/2] },
		"tail of zeros":    func(b []byte) []byte { clear(b[tail(4096):]); return b },
		"half of zeros":    func(b []byte) []byte { clear(b[size/2:]); return b },
		"page of zeros":    func(b []byte) []byte { clear(b[size/8192*4096 : min(len(b), size/8192*4096+4096)]); return b },
		"bit at a quarter": func(b []byte) []byte { b[size/4] ^= 1; return b },
		"bit in the middle": func(b []byte) []byte {
			b[size/2] ^= 16
			return b
		},
		"bit near the end": func(b []byte) []byte { b[max(0, size-2)] ^= 64; return b },
	}
	for range 10 {
		at, bit := rand.IntN(size), rand.IntN(8)
		list[fmt.Sprintf("bit %d of byte %d", bit, at)] = func(b []byte) []byte { b[at] ^= 1 << bit; return b }
	}
	return list
}

// TestNodeWithDamagedFile: each kind of file that a node needs to start, damaged in each way. The node comes up and is what it was, or it
// says which file is wrong and what to do, and neither panics nor serves anything else.
func TestNodeWithDamagedFile(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 21)
	m := c.Leader()
	h.publish(40)
	if _, err := m.PlanNow(testContext(t)); err != nil {
		t.Fatal(err)
	}
	h.publish(20)
	c.Close(m)
	for _, file := range []string{"identity.json", "raft/log.db", "raft/stable.db"} {
		good, err := os.ReadFile(filepath.Join(m.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for name, spoil := range spoilings(len(bytes.TrimRight(good, "\x00"))) {
			t.Run(file+" "+name, func(t *testing.T) {
				dir := t.TempDir()
				if err := os.CopyFS(dir, os.DirFS(m.Dir)); err != nil {
					t.Fatal(err)
				}
				bad := spoil(append([]byte(nil), good...))
				if err := os.WriteFile(filepath.Join(dir, file), bad, 0o600); err != nil {
					t.Fatal(err)
				}
				h.wholeOrRefused(t, dir)
			})
		}
	}
	c.Restart(m)
	c.Leader()
	h.check(m, 10)
}

// wholeOrRefused starts a node on a folder.
func (h *chronicle) wholeOrRefused(t *testing.T, dir string) {
	t.Helper()
	o := clustertest.Defaults(dir)
	withSnapshots(0, &o)
	n, err := cluster.Open(o)
	if err != nil {
		wantAdvice(t, err)
		return
	}
	defer func() { _ = n.Close() }()
	ctx, cancel := context.WithTimeout(testContext(t), 20*time.Second)
	defer cancel()
	for n.WaitSeq(ctx, uint64(len(h.all))) != nil && n.Err() == nil {
		if ctx.Err() != nil {
			t.Fatalf("the node neither comes up nor fails: it has seq %d of %d", n.Stream().Machine().LastSeq(), len(h.all))
		}
	}
	if err := n.Err(); err != nil {
		wantAdvice(t, err)
		return
	}
	if got := n.Stream().Machine().LastSeq(); got != uint64(len(h.all)) {
		t.Errorf("the node came up with seq %d, it had %d", got, len(h.all))
	}
}

// wantAdvice: the error says where and what to do.
func wantAdvice(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, cluster.ErrClosed) {
		return
	}
	t.Log(err)
	if !strings.Contains(err.Error(), "empty the folder") && !strings.Contains(err.Error(), "newer version") {
		t.Errorf("the error does not say what to do: %v", err)
	}
}
