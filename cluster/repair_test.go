package cluster_test

import (
	"crypto/sha256"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// unplanned is withHistory that is split into stores only by PlanNow.
func unplanned(i int, o *cluster.Options) {
	withHistory(i, o)
	o.History.PlanWindows = -1
}

// damageFile changes a file so that it is no longer what it was.
func damageFile(t *testing.T, path string) (what string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	switch rand.IntN(4) {
	case 0:
		what, b = "cut", b[:rand.IntN(len(b))]
	case 1:
		what, b = "zeroed", make([]byte, len(b))
	default:
		what = "a bit flipped"
		b[rand.IntN(len(b))] ^= 1 << rand.IntN(8)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return what
}

// readSome reads from a start to the end, and compares. It is false when damage has kept it from the end; what came before was right.
func (h *chronicle) readSome(m *clustertest.Member, start uint64) bool {
	h.t.Helper()
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		h.t.Fatal(err)
	}
	r, err := m.Stream().OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartSeq, Value: start})
	if err != nil {
		h.t.Fatal(err)
	}
	defer r.Close()
	var v tipstore.View
	defer v.Release()
	next := start
	for next <= uint64(len(h.all)) {
		if err := r.Read(&v, tipstore.Limit{Bytes: 4 << 10}); err != nil {
			if !errors.Is(err, subtree.ErrCorrupt) {
				h.t.Fatalf("read on after %d: %v", next, err)
			}
			return false
		}
		for _, part := range v.Parts {
			for ; len(part) > 0; part = part[record.Scan(part):] {
				rec := record.First(part)
				got := clustertest.Message{Topic: m.Stream().Table().Name(topic.ID(rec.Topic())), Payload: string(rec.Payload()), Seq: rec.Seq()}
				if got != h.all[next-1] {
					h.t.Fatalf("wrong message %d served: %+v, want %+v", next, got, h.all[next-1])
				}
				next++
			}
		}
		v.Release()
	}
	return true
}

// wantWholeFiles compares the bytes of a node's files with its manifest.
func wantWholeFiles(t *testing.T, m *clustertest.Member) {
	t.Helper()
	for _, f := range m.Stream().HistoryFiles() {
		if b, err := os.ReadFile(filepath.Join(m.Dir, "history", f.Name())); err != nil || sha256.Sum256(b) != f.SHA256 {
			t.Errorf("node %d: %s is not whole (%v)", m.Index, f.Name(), err)
		}
	}
}

// TestDamageIsRepaired: files of each kind are damaged on one node, found by readers or by scrubbing, and come back from the others; no
// reader gets anything wrong meanwhile.
func TestDamageIsRepaired(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: unplanned})
	h := newChronicle(t, c, 21)
	h.publish(150)
	if _, err := c.Leader().PlanNow(testContext(t)); err != nil {
		t.Fatal(err)
	}
	h.publish(30)
	h.wantEqualFiles()
	repaired := uint64(0)
	for round := range 6 {
		m := c.Members[round%3]
		kind := []subtree.Kind{subtree.KindWindow, subtree.KindGeneration}[round%2]
		files := m.Stream().HistoryFiles()
		of := slices.DeleteFunc(slices.Clone(files), func(f subtree.Meta) bool { return f.Kind != kind })
		if len(of) == 0 {
			t.Fatalf("there is no %v among %+v", kind, files)
		}
		f := of[rand.IntN(len(of))]
		what := damageFile(t, filepath.Join(m.Dir, "history", f.Name()))
		if round < 3 {
			if err := m.Stream().ScrubNow(testContext(t)); err != nil {
				t.Fatal(err)
			}
		}
		c.Eventually(f.Name()+" ("+what+") to be repaired", func() bool {
			h.readSome(m, f.FirstSeq)
			_ = m.Stream().ScrubNow(t.Context()) // a reader does not see every byte
			st := m.Status(testContext(t)).History
			return len(st.Damaged) == 0 && h.readSome(m, 1) && st.Repaired > 0
		})
		wantWholeFiles(t, m)
		if kept, err := os.ReadDir(filepath.Join(m.Dir, "history", "quarantine")); err != nil || len(kept) == 0 {
			t.Errorf("the damaged bytes are not kept aside: %v, %v", kept, err)
		}
		repaired += m.Status(testContext(t)).History.Repaired
	}
	if repaired == 0 {
		t.Error("nothing was repaired")
	}
	h.wantEqualFiles()
}

// TestRepairByOtherFiles: a node whose windows are not rewritten yet has one damaged that all others have rewritten.
func TestRepairByOtherFiles(t *testing.T) {
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) {
		unplanned(i, o)
		if i == 0 {
			o.Stream.History.RewriteRate = 1
		}
	}})
	h := newChronicle(t, c, 22)
	h.publish(150)
	if _, err := c.Leader().PlanNow(testContext(t)); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Members[1:] {
		c.Eventually("windows to be rewritten", func() bool {
			st := m.Stream().HistoryStatus()
			return st.Generations > 0 && st.PendingGenerations == 0
		})
	}
	m := c.Members[0]
	f := m.Stream().HistoryFiles()[2]
	if f.Kind != subtree.KindWindow {
		t.Fatal("it is rewritten already: the test shows nothing")
	}
	damageFile(t, filepath.Join(m.Dir, "history", f.Name()))
	if err := m.Stream().ScrubNow(testContext(t)); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the window to be replaced", func() bool { return len(m.Stream().HistoryStatus().Damaged) == 0 })
	if !h.readSome(m, 1) {
		t.Error("damaged still")
	}
	wantWholeFiles(t, m)
}

// TestDamageWithoutHelp: a node that no other can help says so, serves what is whole, and loses nothing.
func TestDamageWithoutHelp(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: unplanned})
	h := newChronicle(t, c, 23)
	h.publish(100)
	h.wantEqualFiles()
	m := c.Leader()
	files := m.Stream().HistoryFiles()
	f := files[0] // long gone from the tip
	path := filepath.Join(m.Dir, "history", f.Name())
	spoiled := make([]byte, f.Size) // a single bit could be one that no reader needs
	if err := os.WriteFile(path, spoiled, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := m.Stream().ScrubNow(testContext(t)); err != nil {
		t.Fatal(err)
	}
	c.Eventually("the problem to show", func() bool {
		st := m.Status(testContext(t))
		return !st.Healthy && len(st.History.Damaged) == 1
	})
	time.Sleep(20 * time.Millisecond) // attempts to repair change nothing
	if h.readSome(m, 1) || !h.readSome(m, f.LastSeq+1) {
		t.Error("what is damaged is served, or what is whole is not")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != string(spoiled) {
		t.Errorf("the damaged file was changed: %v", err)
	}
}
