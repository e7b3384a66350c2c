package subtree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// spoil flips a byte in the middle of a file and returns the damaged bytes.
func spoil(t *testing.T, mem *vfs.Mem, name string) []byte {
	t.Helper()
	b, err := mem.Bytes(filepath.Join("history", name))
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	mem.SetBytes(filepath.Join("history", name), b)
	return b
}

// quarantined tells whether bytes are kept in the quarantine.
func quarantined(mem *vfs.Mem, b []byte) bool {
	names, _ := mem.List("history/quarantine")
	for _, name := range names {
		if kept, err := mem.Bytes(filepath.Join("history/quarantine", name)); err == nil && bytes.Equal(kept, b) {
			return true
		}
	}
	return false
}

// TestMendAtEveryStep scrubs a damaged file, fetches it again and installs it, with the power cut at each step. The damaged
// bytes are never served. They are kept, unless a file of another name has replaced them and the power goes right then.
func TestMendAtEveryStep(t *testing.T) {
	s := crashStream(t)
	peer := peerOf(t, s, 3)
	defer peer.Close()
	merged := mustOpen(t, vfs.NewMem(), s, Options{})
	defer merged.Close()
	for i := range 3 {
		mustSeal(t, merged, s, s.window(i+1, s.cuts[i]))
	}
	if err := mergeAll(merged, s); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]*Store{"by the same file": peer, "by another": merged} {
		t.Run(name, func(t *testing.T) {
			mend := func(st *Store) error {
				if err := st.Scrub(context.Background(), nil); err != nil {
					return err
				}
				return errors.Join(fetch(st, from, from.Files()), st.Install(from.Files()))
			}
			for steps, done := 0, false; !done; steps++ {
				mem := vfs.NewMem()
				st := mustOpen(t, mem, s, Options{})
				if err := errors.Join(fetch(st, peer, peer.Files()), st.Install(peer.Files())); err != nil {
					t.Fatal(err)
				}
				bad := spoil(t, mem, "g-1.cnts")
				seen := cutAfter(mem, steps)
				err := mend(st)
				if done = *seen <= steps; done && err != nil {
					t.Fatal(err)
				}
				if err == nil && len(st.Damaged()) > 0 || done && !quarantined(mem, bad) {
					t.Fatalf("mended, but damaged: %v, quarantined: %t", st.Damaged(), quarantined(mem, bad))
				}
				for seed := range 6 {
					var r *rand.Rand
					if seed > 0 {
						r = rand.New(rand.NewSource(int64(steps*100 + seed)))
					}
					checkMend(t, mem.Crash(r), s, mend, fmt.Sprintf("cut after %d steps, seed %d", steps, seed), bad, seed == 0 && from == peer)
				}
			}
		})
	}
}

func checkMend(t *testing.T, mem *vfs.Mem, s *stream, mend func(*Store) error, when string, bad []byte, kept bool) {
	t.Helper()
	st, err := Open(mem, "history", s.table, Options{})
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	defer st.Close()
	got, err := readAll(st, everything(), 1, noLimit)
	if !bytes.HasPrefix(s.want(everything(), 1, s.last()), got) || err != nil && !errors.Is(err, ErrCorrupt) {
		t.Fatalf("%s: damaged bytes were served, or %v", when, err)
	}
	if err := mend(st); err != nil {
		t.Fatalf("%s: again: %v", when, err)
	}
	checkWhole(t, st, mem, s, when)
	if kept && !quarantined(mem, bad) {
		t.Fatalf("%s: the damaged bytes are lost", when)
	}
}

// countingLimiter counts bytes and fails when its budget is used up.
type countingLimiter struct{ asked, budget int }

var errBudget = errors.New("enough")

func (l *countingLimiter) Wait(_ context.Context, n int) error {
	l.asked += n
	if l.budget -= n; l.budget < 0 {
		return errBudget
	}
	return nil
}

// TestScrubFindsEveryByte: whichever byte is wrong, and by which file, a round names it.
func TestScrubFindsEveryByte(t *testing.T) {
	s, mem := damagedStream(t)
	for _, name := range []string{"g-1.cnts", "w-3.cnts"} {
		path := filepath.Join("history", name)
		good, _ := mem.Bytes(path)
		for at := range good {
			bad := bytes.Clone(good)
			bad[at] ^= 1 << (at % 8)
			mem.SetBytes(path, bad)
			st := mustOpen(t, mem, s, Options{})
			if err := st.Scrub(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			if d := st.Damaged(); len(d) != 1 || d[0].File != name || d[0].Offset < 0 || d[0].Offset > int64(len(good)) {
				t.Fatalf("%s, byte %d: %v", name, at, d)
			}
			_ = st.Close()
		}
		mem.SetBytes(path, good)
	}
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	if err := errors.Join(st.Scrub(context.Background(), nil), checkAll(st, s)); err != nil {
		t.Fatal(err)
	}
}

// TestScrubLooksAtTheName: readers that have a file open do not hide from a round that the file is gone, longer or another's.
func TestScrubLooksAtTheName(t *testing.T) {
	path := filepath.Join("history", "g-1.cnts")
	for what, spoil := range map[string]func(mem *vfs.Mem, good []byte){
		"gone":      func(mem *vfs.Mem, _ []byte) { _ = mem.Remove(path) },
		"longer":    func(mem *vfs.Mem, good []byte) { mem.SetBytes(path, append(good, 0)) },
		"another's": func(mem *vfs.Mem, good []byte) { _ = mem.Remove(path); mem.SetBytes(path, make([]byte, len(good))) },
	} {
		s, mem := damagedStream(t)
		st := mustOpen(t, mem, s, Options{})
		if err := checkAll(st, s); err != nil {
			t.Fatal(err)
		}
		good, _ := mem.Bytes(path)
		spoil(mem, bytes.Clone(good))
		if err := st.Scrub(context.Background(), nil); err != nil {
			t.Fatal(err)
		}
		if d := st.Damaged(); len(d) != 1 || d[0].File != "g-1.cnts" {
			t.Errorf("%s: %v", what, d)
		}
		_ = st.Close()
	}
}

// TestScrubIsPaced, ends when it is told to, and goes on there.
func TestScrubIsPaced(t *testing.T) {
	s := crashStream(t)
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	defer st.Close()
	total := 0
	for i := range 3 {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
		total += int(st.Files()[i].Size)
	}
	read := map[string]int{}
	mem.SetHook(func(op vfs.Op, name string) error {
		if op == vfs.OpRead {
			read[filepath.Base(name)]++
		}
		return nil
	})
	l := &countingLimiter{budget: int(st.Files()[0].Size)}
	if err := st.Scrub(context.Background(), l); !errors.Is(err, errBudget) {
		t.Fatal(err)
	}
	if read["w-1.cnts"] == 0 || read["w-3.cnts"] > 0 {
		t.Fatalf("read before the end: %v", read)
	}
	clear(read)
	l.budget = total
	if err := st.Scrub(context.Background(), l); err != nil {
		t.Fatal(err)
	}
	if want := total + int(st.Files()[1].Size); l.asked != want || read["w-1.cnts"] > 0 || read["w-3.cnts"] == 0 {
		t.Fatalf("asked for %d bytes, want %d; read %v", l.asked, want, read)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := st.Scrub(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if disk, records := st.ReadStats(); disk != 0 || records != 0 {
		t.Errorf("scrubbing counts as reading: %d, %d", disk, records)
	}
	got, err := readAll(st, everything(), 1, noLimit)
	if disk, records := st.ReadStats(); err != nil || records != uint64(len(got)) || disk == 0 || disk > uint64(2*total) {
		t.Errorf("read %d bytes: %d from disk, %d of records, %v", len(got), disk, records, err)
	}
}

// fetchAndInstall repeats what a rewrite has undone by replacing a file that was not missing.
func fetchAndInstall(to, from *Store, list []Meta) error {
	for {
		if err := fetch(to, from, list); err != nil {
			return err
		}
		if err := to.Install(list); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

// others are goroutines that go on until they are stopped.
type others struct {
	t    *testing.T
	wg   sync.WaitGroup
	stop chan struct{}
}

// forever repeats do. That it is out of order, or asks for what is gone, is to be expected beside an Install.
func (o *others) forever(do func(i int) error) {
	o.wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-o.stop:
				return
			default:
			}
			var gone *GoneError
			if err := do(i); err != nil && !errors.Is(err, ErrOutOfOrder) && !errors.As(err, &gone) {
				o.t.Error(err)
				return
			}
		}
	})
}

// work seals, rewrites, scrubs and reads.
func (o *others) work(st *Store, s *stream) {
	o.forever(func(int) error {
		_, last := st.Windows()
		if int(last) == len(s.cuts) {
			return nil
		}
		w := s.window(int(last)+1, s.cuts[last])
		return st.Seal(w, s.runs(w))
	})
	generations := []Generation{{Number: 1, FirstWindow: 1, LastWindow: 3}, {Number: 2, FirstWindow: 4, LastWindow: 8}, {Number: 3, FirstWindow: 1, LastWindow: 8}}
	o.forever(func(i int) error {
		g := generations[i%3]
		g.Plans = s.plans(int(g.Number))
		return st.Rewrite(context.Background(), g, nil)
	})
	o.forever(func(int) error { return st.Scrub(context.Background(), nil) })
	for range 2 {
		o.forever(func(int) error {
			first, _ := st.Bounds()
			got, err := readAll(st, everything(), first, func() Limit { return Limit{Count: 50} })
			if want := s.want(everything(), first, s.last()); !bytes.HasPrefix(want, got) {
				return fmt.Errorf("from %d: other records: %v", first, seqsOf(got))
			}
			return err
		})
	}
}

// TestInstallBesideOthers lets seals, rewrites, drops, scrubs and readers run beside it.
func TestInstallBesideOthers(t *testing.T) {
	const windows = 12
	s, r := newStream(), rand.New(rand.NewSource(3))
	for range windows {
		s.fill(t, r, 60, false)
		s.cut()
	}
	source := mustOpen(t, vfs.NewMem(), s, Options{})
	defer source.Close()
	for i := range windows {
		mustSeal(t, source, s, s.window(i+1, s.cuts[i]))
	}
	all := source.Files()
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{OpenFiles: 2})
	defer st.Close()
	o := others{t: t, stop: make(chan struct{})}
	o.work(st, s)
	for i := range 50 {
		list := all[:1+r.Intn(windows)]
		list = list[r.Intn(len(list)):]
		if err := fetchAndInstall(st, source, list); err != nil {
			t.Fatal(err)
		}
		if i%10 == 9 {
			if err := st.Drop(list[0].FirstWindow); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(o.stop)
	o.wg.Wait()
	if err := fetchAndInstall(st, source, all[:1]); err != nil {
		t.Fatal(err)
	}
	for i := range windows {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
	}
	checkWhole(t, st, mem, s, "after all")
	if first, last := st.Bounds(); first != 1 || last != s.last() {
		t.Errorf("history holds %d to %d", first, last)
	}
}

// TestSealAfterDrop: an emptied history knows where it goes on, and what was dropped is not sealed again.
func TestSealAfterDrop(t *testing.T) {
	s := crashStream(t)
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	mustSeal(t, st, s, s.window(1, s.cuts[0]))
	mustSeal(t, st, s, s.window(2, s.cuts[1]))
	if err := st.Drop(2); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if first, last := st.Bounds(); first != s.cuts[1]+1 || last != s.cuts[1] {
			t.Fatalf("an empty history holds %d to %d", first, last)
		}
		if first, last := st.Windows(); first != 3 || last != 2 {
			t.Fatalf("an empty history holds windows %d to %d", first, last)
		}
		var gone *GoneError
		c := st.NewCursor(topic.NewMatcher(s.table, everything()), 1)
		if err := c.Read(&View{}, Limit{}); !errors.As(err, &gone) || gone.Oldest != s.cuts[1]+1 {
			t.Fatal(err)
		}
		w := s.window(2, s.cuts[1])
		if err := errors.Join(st.Seal(w, s.runs(w)), rewriteTwo(st, s)); err != nil || fileNames(st) != "" {
			t.Fatal(err, fileNames(st))
		}
		wrong := Window{Number: 3, FirstSeq: s.cuts[1], LastSeq: s.last()}
		if err := st.Seal(wrong, s.runs(wrong)); !errors.Is(err, ErrOutOfOrder) {
			t.Fatal(err)
		}
		_ = st.Close()
		st = mustOpen(t, mem, s, Options{})
	}
	mustSeal(t, st, s, s.window(3, s.last()))
	checkWhole(t, st, mem, s, "after the drop")
	_ = st.Close()
}

// TestWrongManifest: files that a manifest does not explain are never removed.
func TestWrongManifest(t *testing.T) {
	s := crashStream(t)
	mem := vfs.NewMem()
	st := mustOpen(t, mem, s, Options{})
	var manifests [][]byte
	for i := range 3 {
		b, _ := mem.Bytes("history/MANIFEST")
		manifests = append(manifests, b)
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
	}
	b, _ := mem.Bytes("history/MANIFEST")
	if err := mergeAll(st, s); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(st.Close(), mem.SyncDir("history")); err != nil {
		t.Fatal(err)
	}
	merged, _ := mem.Bytes("history/g-2.cnts")
	for i, m := range append(manifests, b) {
		mem := mem.Crash(nil)
		mem.SetBytes("history/MANIFEST", m)
		st := mustOpen(t, mem, s, Options{})
		if len(st.Files()) != i || len(st.Damaged()) != i || !quarantined(mem, merged) {
			t.Errorf("with the manifest of %d windows: %d files, %v, %t", i, len(st.Files()), st.Damaged(), quarantined(mem, merged))
		}
		_ = st.Close()
	}
	old := (&manifest{edition: 3, files: nil}).encode()
	old = append(old[:24:24], 0, 0, 0, 0)
	le.PutUint32(old[8:], 1)
	le.PutUint32(old[24:], checksum(old[:24]))
	mem = vfs.NewMem()
	if err := mem.MkdirAll("history"); err != nil {
		t.Fatal(err)
	}
	mem.SetBytes("history/MANIFEST", old)
	st = mustOpen(t, mem, s, Options{})
	mustSeal(t, st, s, s.window(1, s.cuts[0]))
	if fileNames(st) != "w-1.cnts" {
		t.Error("a manifest of version 1 is not gone on from:", fileNames(st))
	}
	_ = st.Close()
}
