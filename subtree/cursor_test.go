package subtree

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"sync"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// wide adds n messages of a size, spread over partitions.
func (s *stream) wide(t tester, partitions, n, size int) {
	payload := make([]byte, size)
	r := rand.New(rand.NewSource(int64(n)))
	for i := range n {
		r.Read(payload)
		s.time++
		s.add(t, fmt.Sprintf("p/%03d/t%d", r.Intn(partitions), i%3), payload)
	}
}

// TestCursorOverRewrites: a cursor in the middle of a file goes on in the file that replaces it.
func TestCursorOverRewrites(t *testing.T) {
	s, fs := newStream(), vfs.NewMem()
	st := mustOpen(t, fs, s, Options{CursorBytes: 100_000, CacheBytes: 1})
	defer st.Close()
	for range 2 {
		s.wide(t, 5, 3000, 500)
		mustSeal(t, st, s, s.cut())
	}
	filters := mustFilters(t, "p/**")
	c := st.NewCursor(topic.NewMatcher(s.table, filters), 1)
	defer c.Close()
	var got []byte
	var v View
	defer v.Release()
	for i := 0; v.Scanned < s.last(); i++ {
		if err := c.Read(&v, Limit{Bytes: 50_000}); err != nil {
			t.Fatal(err)
		}
		got = append(got, v.Parts[0]...)
		switch i {
		case 3:
			mustRewrite(t, st, Generation{Number: 1, FirstWindow: 1, LastWindow: 1, Plans: s.plans(1)})
		case 9:
			mustRewrite(t, st, Generation{Number: 2, FirstWindow: 1, LastWindow: 2, Plans: s.plans(2)})
		}
	}
	if err := same(got, s.want(filters, 1, s.last())); err != nil {
		t.Fatal(err)
	}
	if names, _ := fs.List("history"); len(names) != 2 {
		t.Errorf("an idle cursor keeps files: %v", names)
	}
}

// TestCursorMemory holds a cursor to what DESIGN.md says: CursorBytes, or minShare for each section if that is more, and
// constant buffers; whatever the sections are.
func TestCursorMemory(t *testing.T) {
	s, fs := newStream(), vfs.NewMem()
	s.wide(t, 200, 30_000, 300)
	for i := range 40 {
		s.add(t, fmt.Sprintf("p/%03d/large", i), make([]byte, 200_000))
	}
	s.wide(t, 200, 3000, 300)
	for _, budget := range []int{1, 2 << 20, 8 << 20} {
		st := mustOpen(t, fs, s, Options{CursorBytes: budget})
		mustSeal(t, st, s, s.window(1, s.last()))
		c := st.NewCursor(topic.NewMatcher(s.table, everything()), 1)
		var v View
		most, counted := 0, 0
		for v.Scanned < s.last() {
			if err := c.Read(&v, Limit{Bytes: 20_000}); err != nil {
				t.Fatal(err)
			}
			held := 0
			for i := range c.merge.sources {
				held += cap(c.merge.sources[i].buf)
			}
			if held != c.merge.held {
				t.Fatalf("sources hold %d bytes, counted are %d", held, c.merge.held)
			}
			most = max(most, held)
			counted += v.Count
			if spare := len(c.merge.spare); spare > maxSpare || cap(c.merge.raw) > 2*blockBytes || cap(c.merge.buf) > 2*blockBytes {
				t.Fatalf("%d spare buffers, scratch of %d and %d bytes", spare, cap(c.merge.raw), cap(c.merge.buf))
			}
		}
		if limit := max(budget, 200*minShare) + maxRawBlock; most > limit || counted != int(s.last()) {
			t.Errorf("budget %d: held up to %d bytes, the limit is %d; %d messages", budget, most, limit, counted)
		}
		c.Rest()
		if c.merge != nil || c.group != nil || len(st.groups.mu.all) > 0 {
			t.Error("a resting cursor holds memory")
		}
		v.Release()
		_ = st.Close()
	}
}

// TestBlocksAreSkipped: a topic's read decodes the blocks that hold it and no other.
func TestBlocksAreSkipped(t *testing.T) {
	s := newStream()
	st := mustOpen(t, vfs.NewMem(), s, Options{})
	defer st.Close()
	payload := make([]byte, 500)
	for i := range 4000 {
		rand.New(rand.NewSource(int64(i))).Read(payload)
		s.add(t, fmt.Sprintf("p/q/%d", i%7), payload)
		if i == 1000 || i == 3000 {
			s.add(t, "p/q/rare", payload)
		}
	}
	mustSeal(t, st, s, s.cut())
	filters := mustFilters(t, "p/q/rare")
	c := st.NewCursor(topic.NewMatcher(s.table, filters), 1)
	defer c.Close()
	got, err := drainCursor(st, c, noLimit)
	if err != nil || same(got, s.want(filters, 1, s.last())) != nil {
		t.Fatal(err)
	}
	if x := c.Stats(); x.Blocks != 2 || x.BlocksSkipped < 20 || x.Messages != 2 || x.DecodedBytes > 2*blockBytes {
		t.Errorf("%+v", x)
	}
	f, err := st.acquireAt(1)
	if err != nil {
		t.Fatal(err)
	}
	defer st.release(f)
	r := reader{cache: st.cache}
	for b := range f.foot.sections[0].blocks {
		row, err := r.row(f, &f.foot.sections[0], b)
		if err != nil || row.raw > blockBytes || b+1 < f.foot.sections[0].blocks && row.raw+600 < blockBytes {
			t.Errorf("block %d: %+v, %v", b, row, err)
		}
	}
}

func TestCursorErrors(t *testing.T) {
	s := newStream()
	st := mustOpen(t, vfs.NewMem(), s, Options{})
	defer st.Close()
	s.add(t, "a/b/c", nil)
	s.cut()
	s.add(t, "a/b/c", nil)
	w := s.window(2, 2)
	mustSeal(t, st, s, w) // a history may begin with any window
	var v View
	var gone *GoneError
	c := st.NewCursor(topic.NewMatcher(s.table, everything()), 1)
	if err := c.Read(&v, Limit{}); !errors.As(err, &gone) || gone.Wanted != 1 || gone.Oldest != 2 {
		t.Error(err)
	}
	if _, err := st.MessageAt(1); !errors.As(err, &gone) {
		t.Error(err)
	}
	if _, err := st.MessageAt(3); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	other, err := Open(st.fs, "history", topic.NewTable(0), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	c = other.NewCursor(topic.NewMatcher(other.table, everything()), 2)
	if err := c.Read(&v, Limit{}); !errors.Is(err, ErrTableBehind) || c.Position() != 1 {
		t.Error(err)
	}
	for _, w := range []Window{{4, 3, 3}, {3, 4, 4}, {3, 3, 2}} {
		if err := st.Seal(w, s.runs(w)); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("%+v: %v", w, err)
		}
	}
	for _, g := range []Generation{{Number: 1, FirstWindow: 1, LastWindow: 2}, {Number: 1, FirstWindow: 2, LastWindow: 3}, {Number: 1}} {
		if err := st.Rewrite(context.Background(), g, nil); !errors.Is(err, ErrOutOfOrder) {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

// TestReadersBesideWriter runs under the race detector: readers of all kinds while windows are sealed and rewritten.
func TestReadersBesideWriter(t *testing.T) {
	s := newStream()
	r := rand.New(rand.NewSource(3))
	for range 12 {
		s.fill(t, r, 300, false)
		s.cut()
	}
	st := mustOpen(t, vfs.NewMem(), s, Options{OpenFiles: 1, CursorBytes: 20_000, CacheBytes: 20_000})
	defer st.Close()
	var readers sync.WaitGroup
	for i := range 4 {
		filters := mustFilters(t, [][]string{{"**"}, {"a/**"}, {"b/b/c", "c/**"}, {"a/a"}}[i]...)
		readers.Go(func() {
			c := st.NewCursor(topic.NewMatcher(s.table, filters), 1)
			defer c.Close()
			var v View
			defer v.Release()
			var got []byte
			for v.Scanned < s.last() {
				if err := c.Read(&v, Limit{Bytes: 5000}); err != nil {
					t.Error(err)
					return
				}
				for _, p := range v.Parts {
					got = append(got, p...)
				}
			}
			if err := same(got, s.want(filters, 1, s.last())); err != nil {
				t.Error(filters.Strings(), err)
			}
		})
	}
	for i := range s.cuts {
		mustSeal(t, st, s, s.window(i+1, s.cuts[i]))
		if i%4 == 3 {
			first := uint64(1)
			if i%8 == 3 {
				first = uint64(i - 2)
			}
			mustRewrite(t, st, Generation{Number: uint64(i), FirstWindow: first, LastWindow: uint64(i + 1), Plans: s.plans(i)})
		}
	}
	readers.Wait()
}

// TestRewriteStops ends a rewrite by its context and by its limiter.
func TestRewriteStops(t *testing.T) {
	s, fs := newStream(), vfs.NewMem()
	st := mustOpen(t, fs, s, Options{})
	defer st.Close()
	s.wide(t, 3, 3000, 500)
	mustSeal(t, st, s, s.cut())
	g := Generation{Number: 1, FirstWindow: 1, LastWindow: 1}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := st.Rewrite(ctx, g, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	stop := errors.New("enough")
	l := &counting{limit: 2, err: stop}
	if err := st.Rewrite(context.Background(), g, l); !errors.Is(err, stop) {
		t.Error(err)
	}
	if names, _ := fs.List("history"); len(names) != 2 || fileNames(st) != "w-1.cnts" {
		t.Errorf("left behind: %v", names)
	}
	l = &counting{limit: 1000}
	if err := st.Rewrite(context.Background(), g, l); err != nil || l.bytes < 1_400_000 {
		t.Errorf("%v, limiter saw %d bytes", err, l.bytes)
	}
}

type counting struct {
	calls, bytes, limit int
	err                 error
}

func (c *counting) Wait(_ context.Context, n int) error {
	c.calls++
	c.bytes += n
	if c.calls >= c.limit {
		return c.err
	}
	return nil
}

// TestBadPlans are refused, and history stays as it was.
func TestBadPlans(t *testing.T) {
	s := newStream()
	st := mustOpen(t, vfs.NewMem(), s, Options{})
	defer st.Close()
	s.add(t, "a/b/c", nil)
	mustSeal(t, st, s, s.cut())
	id, _ := s.table.Lookup("a/b")
	for _, plan := range []fixedPlan{{0, 0}, {2, 2}, {2, -1}} {
		g := Generation{Number: 1, FirstWindow: 1, LastWindow: 1, Plans: []PartitionPlan{{id, plan}}}
		if err := st.Rewrite(context.Background(), g, nil); err == nil || fileNames(st) != "w-1.cnts" {
			t.Errorf("%+v: %v, %s", plan, err, fileNames(st))
		}
	}
}

type fixedPlan struct{ stores, store int }

func (p fixedPlan) Stores() int        { return p.stores }
func (p fixedPlan) StoreOf(string) int { return p.store }

func TestSpillIsBounded(t *testing.T) {
	fs := vfs.NewMem()
	if err := fs.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	s := spill{fs: fs, path: "d/x", limit: 1000}
	var places []uint64
	for i := range 100 {
		at, err := s.put([]byte(fmt.Sprintf("%300d", i)))
		if err != nil || len(s.mem) > 1000 {
			t.Fatalf("%v, %d bytes in memory", err, len(s.mem))
		}
		places = append(places, at)
	}
	for i, at := range places {
		if b, err := s.get(at, 300); err != nil || string(b) != fmt.Sprintf("%300d", i) {
			t.Fatalf("block %d: %q, %v", i, b, err)
		}
	}
	s.close()
	if names, _ := fs.List("d"); len(names) > 0 {
		t.Error("the spill file stays:", names)
	}
}

// TestScanCountsFilesWithoutAMatch: a read that finds nothing ends after as many files as its limit says, and tells how far it is.
func TestScanCountsFilesWithoutAMatch(t *testing.T) {
	s := newStream()
	st := mustOpen(t, vfs.NewMem(), s, Options{})
	defer st.Close()
	const files = 10
	for range files {
		s.add(t, "a/b/c", nil)
		s.add(t, "x/y/z", nil)
		mustSeal(t, st, s, s.cut())
	}
	for _, filter := range []string{"x/y/never", "never/**", "x/y/never/**"} {
		for _, each := range []int{1, 3} {
			c := st.NewCursor(topic.NewMatcher(s.table, mustFilters(t, filter)), 1)
			var v View
			for last := uint64(0); last < s.last(); {
				if err := c.Read(&v, Limit{Scan: each * fileCost}); err != nil {
					t.Fatal(err)
				}
				last = min(last+uint64(2*each), s.last())
				if v.Count != 0 || v.Scanned != last || c.Position() != last {
					t.Fatalf("%s: %d messages, scanned %d, at %d, want %d", filter, v.Count, v.Scanned, c.Position(), last)
				}
			}
			c.Close()
		}
	}
}
