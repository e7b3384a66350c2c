package subtree

import (
	"bytes"
	"context"
	"errors"
	"math/rand"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// follower is a cursor and what it must return.
type follower struct {
	c       *Cursor
	v       View
	filters topic.Filters
	got     []byte
	next    uint64
}

func follow(st *Store, fs topic.Filters, next uint64) *follower {
	return &follower{c: st.NewCursor(topic.NewMatcher(st.table, fs), next), filters: fs, next: next}
}

// step reads once and keeps a copy.
func (f *follower) step(l Limit) error {
	before := f.c.Position()
	if err := f.c.Read(&f.v, l); err != nil {
		return err
	}
	for _, p := range f.v.Parts {
		f.got = append(f.got, p...)
	}
	return checkView(&f.v, l, before, f.c.Position())
}

// check compares what was read with the stream up to the position.
func (f *follower) check(s *stream) error {
	return same(f.got, s.want(f.filters, f.next, f.c.Position()))
}

func (f *follower) close() {
	f.v.Release()
	f.c.Close()
}

// TestTogether: cursors in any number and order, many with the same filters, from anywhere, with any limits, resting, closed and
// opened at any time, read what each would read alone; and what they keep for each other stays in its bound and is gone at the end.
func TestTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewSource(int64(rapid.Uint32().Draw(t, "seed"))))
		s := newStream()
		limit := int64(1 + r.Intn(300_000))
		st := mustOpen(t, vfs.NewMem(), s, Options{SharedBytes: limit, CursorBytes: 1 + r.Intn(1<<20)})
		defer st.Close()
		for range 1 + r.Intn(4) {
			s.fill(t, r, 1+r.Intn(1200), r.Intn(3) == 0)
			mustSeal(t, st, s, s.cut())
		}
		unions := []topic.Filters{mustFilters(t, "**"), mustFilters(t, randomFilters(r)...)}
		var all []*follower
		generation := uint64(0)
		for range 40 {
			switch k := r.Intn(12); {
			case k < 2 || len(all) == 0:
				all = append(all, follow(st, unions[r.Intn(2)], 1+uint64(r.Intn(2)*r.Intn(int(s.last())))))
			case k == 2:
				all[r.Intn(len(all))].c.Rest()
			case k == 3:
				i := r.Intn(len(all))
				if err := all[i].check(s); err != nil {
					t.Fatal(err)
				}
				all[i].close()
				all = append(all[:i], all[i+1:]...)
			case k == 4 && r.Intn(4) == 0:
				generation++
				_, last := st.Windows()
				mustRewrite(t, st, Generation{Number: generation, FirstWindow: 1, LastWindow: last, Plans: s.plans(r.Intn(4))})
			default:
				l := Limit{Bytes: r.Intn(3) * r.Intn(200_000), Count: r.Intn(2) * r.Intn(500), UpTo: uint64(r.Intn(2) * r.Intn(int(s.last()))), Scan: r.Intn(2) * r.Intn(200_000)}
				f := all[r.Intn(len(all))]
				if err := f.step(l); err != nil {
					t.Fatal(err)
				}
			}
			checkGroups(t, st, limit)
		}
		for _, f := range all {
			for f.c.Position() < s.last() {
				if err := f.step(Limit{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := f.check(s); err != nil {
				t.Fatal(err)
			}
			f.close()
		}
		if x := &st.groups.mu; x.bytes != 0 || x.order.Len() != 0 || len(x.all) != 0 {
			t.Fatal("kept for nobody: bytes", x.bytes, "chunks", x.order.Len(), "groups", len(x.all))
		}
	})
}

// checkGroups adds up what cursors keep for each other.
func checkGroups(t tester, st *Store, limit int64) {
	x := &st.groups.mu
	x.Lock()
	defer x.Unlock()
	bytes, chunks := int64(0), 0
	for _, g := range x.all {
		if g.cursors < 1 || len(g.merges) > g.cursors || len(g.making) > 0 {
			t.Fatal("cursors", g.cursors, "merges", len(g.merges), "being made", len(g.making))
		}
		for i, c := range g.chunks {
			bytes += c.size()
			chunks++
			if i > 0 && c.after <= g.chunks[i-1].after || c.through <= c.after || c.element == nil {
				t.Fatal("chunks are not in order")
			}
		}
	}
	if bytes != x.bytes || bytes > limit || chunks != x.order.Len() {
		t.Fatal("chunks hold", bytes, "counted are", x.bytes, "limit", limit)
	}
}

// TestTogetherDecodesOnce: cursors that go through history side by side decode it once, not once each.
func TestTogetherDecodesOnce(t *testing.T) {
	s, st, _ := togetherHistory(t)
	const readers = 10
	var all []*follower
	for range readers {
		all = append(all, follow(st, everything(), 1))
	}
	var decoded uint64
	for all[0].c.Position() < s.last() {
		for _, f := range all {
			if err := f.step(Limit{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range all {
		if err := f.check(s); err != nil {
			t.Fatal(err)
		}
		decoded += f.c.Stats().DecodedBytes
		f.close()
	}
	// The first one began alone, and the second one read what it had read by then.
	if size := uint64(len(s.want(everything(), 1, s.last()))); decoded < size || decoded > size*3 {
		t.Errorf("%d readers decoded %d bytes of %d", readers, decoded, size)
	}
}

// TestTogetherAtOnce: the same from goroutines of their own, beside rewrites.
func TestTogetherAtOnce(t *testing.T) {
	s, st, _ := togetherHistory(t)
	want := s.want(everything(), 1, s.last())
	var wg sync.WaitGroup
	for i := range 5 {
		wg.Go(func() {
			got, err := readAll(st, everything(), 1, func() Limit { return Limit{Bytes: 1000 * (i + 1) * (i + 1)} })
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("reader %d: %d bytes of %d, %v", i, len(got), len(want), err)
			}
		})
	}
	for i := range uint64(3) {
		if err := st.Rewrite(context.Background(), Generation{Number: i + 1, FirstWindow: 1, LastWindow: 2, Plans: s.plans(int(i))}, nil); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	if x := &st.groups.mu; x.bytes != 0 || len(x.all) != 0 {
		t.Errorf("%d bytes and %d groups are left", x.bytes, len(x.all))
	}
}

// TestTogetherMeetsDamage: each cursor gets the records before a fault, and then the fault.
func TestTogetherMeetsDamage(t *testing.T) {
	s, st, fs := togetherHistory(t)
	f := st.snapshot()[0]
	sec := func() section {
		f, err := st.acquire(f)
		if err != nil {
			t.Fatal(err)
		}
		defer st.release(f)
		return f.foot.sections[0]
	}()
	b, err := fs.Bytes(f.path())
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Clone(b)
	b[sec.data+sec.dataSize-1] ^= 1
	fs.SetBytes(f.path(), b)
	var all []*follower
	for range 3 {
		all = append(all, follow(st, everything(), 1))
	}
	for range 100 {
		for _, f := range all {
			var damage *CorruptError
			if err := f.step(Limit{}); err != nil && !errors.As(err, &damage) {
				t.Fatal(err)
			}
		}
	}
	for _, f := range all {
		if err := f.check(s); err != nil || f.c.Position() != all[0].c.Position() || f.c.Position() == 0 {
			t.Errorf("at %d: %v", f.c.Position(), err)
		}
		if err := f.step(Limit{}); err == nil {
			t.Error("no error at the fault")
		}
		f.close()
	}
}

// togetherHistory is two windows of 1.5 MB.
func togetherHistory(t *testing.T) (*stream, *Store, *vfs.Mem) {
	s, fs := newStream(), vfs.NewMem()
	st := mustOpen(t, fs, s, Options{})
	t.Cleanup(func() { _ = st.Close() })
	for range 2 {
		s.wide(t, 20, 5000, 250)
		mustSeal(t, st, s, s.cut())
	}
	return s, st, fs
}
