package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/tipstore"
)

// lastOf is the slow obvious answer: each matching topic's last seq at or below upTo.
func lastOf(all []published, fs topic.Filters, upTo uint64) map[string]uint64 {
	want := map[string]uint64{}
	for i, m := range all[:upTo] {
		if fs.Match(m.topic) {
			want[m.topic] = uint64(i + 1)
		}
	}
	return want
}

// lastEach reads all pages of one snapshot.
func lastEach(s *Stream, q LastQuery) (seq uint64, got map[string]uint64, err error) {
	got = map[string]uint64{}
	for {
		page, err := s.LastEach(context.Background(), q)
		if err != nil {
			return q.Seq, nil, err
		}
		for _, m := range page.Messages {
			if _, twice := got[m.Topic]; twice {
				return page.Seq, nil, fmt.Errorf("topic %q comes twice", m.Topic)
			}
			got[m.Topic] = m.Record.Seq()
		}
		if page.Next == 0 {
			return page.Seq, got, nil
		}
		if page.Next <= q.After {
			return page.Seq, nil, fmt.Errorf("next is %d after %d", page.Next, q.After)
		}
		q.Seq, q.After = page.Seq, page.Next
	}
}

// checkPoints holds random point reads against a scan over all messages. Everything is kept.
func (w *readerWorld) checkPoints() {
	head, ctx := uint64(len(w.all)), context.Background()
	seq := uint64(rapid.IntRange(1, len(w.all)).Draw(w.r, "seq"))
	m, err := w.s.MessageAt(ctx, seq)
	if err != nil || m.Record.Seq() != seq || m.Topic != w.all[seq-1].topic || m.Record.Time() != w.all[seq-1].time {
		w.r.Fatalf("message at %d: %q %v %v, want %+v", seq, m.Topic, m.Record, err, w.all[seq-1])
	}
	fs, err := topic.ParseFilters(rapid.SliceOfN(rapid.SampledFrom(readerFilters), 1, 4).Draw(w.r, "filters"))
	if err != nil {
		w.r.Fatal(err)
	}
	q := LastQuery{Filters: fs, Count: rapid.IntRange(0, 4).Draw(w.r, "count"), Bytes: rapid.IntRange(0, 300).Draw(w.r, "bytes")}
	if rapid.Bool().Draw(w.r, "past") {
		q.Seq, head = seq, seq
	}
	at, got, err := lastEach(w.s, q)
	if want := lastOf(w.all, fs, head); err != nil || at != head || !maps.Equal(got, want) {
		w.r.Fatalf("last under %v at %d of %d: at %d, %v, %v, want %v", fs.Strings(), q.Seq, len(w.all), at, got, err, want)
	}
	for name, want := range got {
		m, err := w.s.Last(ctx, name, q.Seq)
		if err != nil || m.Topic != name || m.Record.Seq() != want {
			w.r.Fatalf("last of %q at %d: %q %v, %v, want %d", name, q.Seq, m.Topic, m.Record, err, want)
		}
	}
}

// TestPointsAgainstBruteForce: point reads from a tiny ring and from history, with random plans and rewrites.
func TestPointsAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &readerWorld{feeder: historyFeeder(t, vfs.NewMem()), r: r, now: 1000}
		defer w.close(t)
		if err := w.windows(rapid.SampledFrom([]uint64{1, 2000, 9000}).Draw(r, "window")); err != nil {
			r.Fatal(err)
		}
		w.write()
		w.live(100, step{5, always(w.write)}, step{1, always(w.planAny)}, step{4, always(w.checkPoints)})
		w.checkPoints()
	})
}

// lastSnapshot is what one reader found last under its filters at a seq.
type lastSnapshot struct {
	filters topic.Filters
	seq     uint64
	got     map[string]uint64
}

// lastReaders take snapshots of a stream until they are told to stop.
type lastReaders struct {
	t    *testing.T
	s    *Stream
	stop chan struct{}
	wg   sync.WaitGroup

	mu    sync.Mutex
	taken []lastSnapshot // Guarded by mu
}

func (l *lastReaders) run(filters topic.Filters, count int) {
	for {
		seq, got, err := lastEach(l.s, LastQuery{Filters: filters, Count: count})
		if err != nil {
			l.t.Error(err)
			return
		}
		l.mu.Lock()
		l.taken = append(l.taken, lastSnapshot{filters, seq, got})
		l.mu.Unlock()
		select {
		case <-l.stop:
			return
		default:
		}
	}
}

// more waits until so many snapshots have been taken from now on.
func (l *lastReaders) more(n int) {
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.taken)
	}
	before := count()
	eventually(l.t, "readers to take snapshots", func() bool { return l.t.Failed() || count() >= before+n })
}

// TestPointsUnderWrites: readers take snapshots while messages keep coming; each must be the truth of its seq.
func TestPointsUnderWrites(t *testing.T) {
	f := historyFeeder(t, vfs.NewMem())
	f.keep = false
	defer f.close(t)
	if err := f.windows(4000); err != nil {
		t.Fatal(err)
	}
	readers := &lastReaders{t: t, s: f.s, stop: make(chan struct{})}
	for n, names := range [][]string{{"**"}, {"a/**", "hot/1"}, {"hot/**", "new/**"}} {
		filters := mustFilters(t, names...)
		readers.wg.Go(func() { readers.run(filters, n+1) })
	}
	var all []published
	for i := range 3000 {
		if i%1000 == 500 { // of so many one was begun after the first of them was taken
			readers.more(4)
		}
		topics := []string{"hot/1", "hot/2", "hot/1"}
		if i%50 == 0 {
			topics = append(topics, fmt.Sprintf("a/%d", i/50%20), fmt.Sprintf("new/%d", i/500))
		}
		if err := f.publish(int64(i), make([]byte, 40), topics...); err != nil {
			t.Fatal(err)
		}
		for _, name := range topics {
			all = append(all, published{name, int64(i)})
		}
	}
	close(readers.stop)
	readers.wg.Wait()
	behind := 0
	for _, s := range readers.taken {
		if want := lastOf(all, s.filters, s.seq); !maps.Equal(s.got, want) {
			t.Fatalf("last under %v at %d: %v, want %v", s.filters.Strings(), s.seq, s.got, want)
		}
		if s.seq > 0 && s.seq < uint64(len(all)) {
			behind++
		}
	}
	if behind == 0 {
		t.Error("no snapshot was taken while messages came: the test shows nothing")
	}
}

// TestPointErrors: what is not there says why.
func TestPointErrors(t *testing.T) {
	f := newFeeder(t, smallTip)
	defer f.s.Close()
	ctx := context.Background()
	page, err := f.s.LastEach(ctx, LastQuery{Filters: mustFilters(t, "**")})
	if err != nil || page.Seq != 0 || len(page.Messages) != 0 || page.Next != 0 {
		t.Errorf("of an empty stream: %+v, %v", page, err)
	}
	for range 300 {
		if err := f.publish(1, make([]byte, 100), "a/b/c"); err != nil {
			t.Fatal(err)
		}
		if f.index == 1 {
			if err := f.publish(1, nil, "old/one"); err != nil {
				t.Fatal(err)
			}
		}
	}
	oldest, newest := f.s.Bounds()
	if oldest < 3 {
		t.Fatalf("the oldest seq is %d: the ring did not wrap", oldest)
	}
	var (
		gone   *tipstore.GoneError
		notYet *NotYetError
	)
	if _, err := f.s.MessageAt(ctx, newest+1); !errors.As(err, &notYet) || notYet.Newest != newest {
		t.Errorf("beyond the end: %v", err)
	}
	for _, seq := range []uint64{0, 1, oldest - 1} {
		if _, err := f.s.MessageAt(ctx, seq); !errors.As(err, &gone) || gone.Oldest != oldest || gone.Wanted != seq {
			t.Errorf("message %d: %v", seq, err)
		}
	}
	if _, err := f.s.Last(ctx, "old/one", 0); !errors.As(err, &gone) || gone.Oldest != oldest || gone.Wanted != 2 {
		t.Errorf("last of a topic whose messages are gone: %v", err)
	}
	for _, name := range []string{"a", "a/b", "never", "a/b/c/d"} {
		if _, err := f.s.Last(ctx, name, 0); !errors.Is(err, ErrNoMessage) {
			t.Errorf("last of %q: %v", name, err)
		}
	}
	if _, err := f.s.Last(ctx, "a/b/c", newest+1); !errors.As(err, &notYet) {
		t.Errorf("at a seq to come: %v", err)
	}
	if _, err := f.s.LastEach(ctx, LastQuery{Filters: mustFilters(t, "**"), Seq: oldest - 1}); !errors.As(err, &gone) {
		t.Errorf("snapshot at a seq that is gone: %v", err)
	}
	if _, got, err := lastEach(f.s, LastQuery{Filters: mustFilters(t, "**")}); err != nil || !maps.Equal(got, map[string]uint64{"a/b/c": newest}) {
		t.Errorf("topics whose messages are gone are left out: %v, %v", got, err)
	}
	if page, err := f.s.LastEach(ctx, LastQuery{Filters: mustFilters(t, "**"), After: ^uint64(0)}); err != nil || len(page.Messages) > 0 || page.Next != 0 {
		t.Errorf("after all: %+v, %v", page, err)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := f.s.Last(cancelled, "a/b/c", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLastOfManyTopics: more topics than a page walks the tree for, so that it passes over the table.
func TestLastOfManyTopics(t *testing.T) {
	s, err := NewStream(StreamOptions{Tip: tipstore.Options{ChunkBytes: 1 << 20, SizeBytes: 4 << 20}, MaxProducers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f := &feeder{s: s}
	var all []published
	for i := range 20 {
		var names []string
		for j := range 500 {
			names = append(names, fmt.Sprintf("t%d/%d", j%7, i*500+j))
		}
		names = append(names, names[0], "t3/0")
		if err := f.publish(int64(i), nil, names...); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			all = append(all, published{name, int64(i)})
		}
	}
	for _, seq := range []uint64{0, 1, 700, 5000} {
		for _, filters := range [][]string{{"**"}, {"t3/**", "t4/**", "t5/**", "t1/1"}, {"t3/**"}, {"t2/9000", "none/**"}} {
			fs, at := mustFilters(t, filters...), seq
			if at == 0 {
				at = uint64(len(all))
			}
			_, got, err := lastEach(s, LastQuery{Filters: fs, Seq: seq})
			if want := lastOf(all, fs, at); err != nil || !maps.Equal(got, want) {
				t.Errorf("%v at %d: %d topics, %v, want %d", filters, seq, len(got), err, len(want))
			}
		}
	}
}
