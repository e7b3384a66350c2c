package tipstore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// law says what the message of each seq is, so that readers know what to expect without sharing a model with the writer.
type law struct{ topics []string }

func newLaw(partitions int) law {
	var l law
	for i := range partitions {
		for j := range 3 {
			l.topics = append(l.topics, fmt.Sprintf("p%d/q/t%d", i, j))
		}
	}
	return l
}

// bodies[b] is a stretch of the byte b.
var bodies = func() (all [256][]byte) {
	for i := range all {
		all[i] = bytes.Repeat([]byte{byte(i)}, 120)
	}
	return all
}()

func mix(seq uint64) uint64 {
	seq = (seq ^ seq>>31) * 0x9e3779b97f4a7c15
	return seq ^ seq>>29
}

// topic favours some partitions much over others, and lets new ones come into use over time.
func (l law) topic(seq uint64) string {
	h := mix(seq)
	n := min(uint64(len(l.topics)), 6+seq/40)
	if h%4 != 0 {
		n = min(n, 9)
	}
	return l.topics[h/4%n]
}

func (l law) body(seq uint64) []byte {
	return bodies[seq%256][:mix(seq+1)%120]
}

// feed appends messages of the law in runs until last, publishing after some of them.
func (l law) feed(w *writer, last uint64, rnd *rand.Rand) {
	ids := map[string]topic.ID{}
	run, fresh := []byte(nil), []topic.ID(nil)
	for seq := uint64(1); seq <= last; {
		run, fresh = run[:0], fresh[:0]
		first := seq
		for n := 1 + rnd.IntN(60); n > 0 && seq <= last && len(run) < minChunkBytes-200; n-- {
			name := l.topic(seq)
			id, known := ids[name]
			if !known {
				id, _ = w.intern(name)
				ids[name] = id
				fresh = append(fresh, id)
			}
			number := uint32(id)
			if !known {
				number = record.NewTopic | uint32(len(fresh)-1)
			}
			run, _ = record.AppendRecord(run, number, nil, l.body(seq))
			seq++
		}
		w.store.Append(run, int(seq-first), fresh, first, int64(first))
		if rnd.IntN(3) > 0 || seq > last {
			w.store.Publish()
		}
		if rnd.IntN(8) == 0 {
			runtime.Gosched() // else the readers hardly get to read
		}
	}
}

// check compares a view with the law.
func (l law) check(v *View, table *topic.Table, fs topic.Filters, next uint64) error {
	i := 0
	var parts []byte
	for _, p := range v.Parts {
		parts = append(parts, p...)
	}
	for seq := next; seq <= v.Scanned; seq++ {
		name := l.topic(seq)
		if !fs.Match(name) {
			continue
		}
		rec, rest, err := record.Next(parts)
		if err != nil {
			return fmt.Errorf("%v: seq %d: %w", fs, seq, err)
		}
		parts = rest
		if rec.Seq() != seq || table.Name(topic.ID(rec.Topic())) != name || !bytes.Equal(rec.Payload(), l.body(seq)) {
			return fmt.Errorf("%v: record seq %d topic %q, want %d %q", fs, rec.Seq(), table.Name(topic.ID(rec.Topic())), seq, name)
		}
		i++
	}
	if i != v.Count || len(parts) > 0 {
		return fmt.Errorf("%v: %d records expected in %d..%d, view has %d", fs, i, next, v.Scanned, v.Count)
	}
	return nil
}

// stressReader reads up to last with random limits, sleeping on a watch, and keeps some views for a while.
type stressReader struct {
	law    law
	w      *writer
	fs     topic.Filters
	last   uint64
	rnd    *rand.Rand
	lagged *atomic.Int64
	done   chan struct{} // closed when all is published
	views  [3]View
	nexts  [3]uint64
}

func (r *stressReader) run() error {
	woken := make(chan struct{}, 1)
	watch := r.w.store.NewWatch(r.fs, func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	defer watch.Close()
	next := uint64(1)
	cursor := r.w.store.NewCursor(topic.NewMatcher(r.w.table, r.fs), next)
	for turn := 0; next <= r.last; turn++ {
		watch.Arm()
		i := turn % len(r.views)
		v := &r.views[i]
		if v.Count > 0 && len(v.Parts) > 0 { // kept across other reads: must not have changed
			if err := r.law.check(v, r.w.table, r.fs, r.nexts[i]); err != nil {
				return fmt.Errorf("kept view: %w", err)
			}
		}
		limit := Limit{Bytes: r.rnd.IntN(6000), Count: r.rnd.IntN(50), Scan: r.rnd.IntN(20000)}
		err := cursor.Read(v, limit)
		if gone := (*GoneError)(nil); errors.As(err, &gone) {
			r.lagged.Add(1)
			first, last := r.w.store.Bounds()
			next = min(max(first, gone.Oldest)+r.rnd.Uint64N(max(last, first)-first+1), r.last)
			cursor.Close()
			cursor = r.w.store.NewCursor(topic.NewMatcher(r.w.table, r.fs), next)
			continue
		}
		if err := r.law.check(v, r.w.table, r.fs, next); err != nil {
			return err
		}
		r.nexts[i] = next
		next = v.Scanned + 1
		if _, last := r.w.store.Bounds(); v.Count == 0 && v.Scanned < r.last && v.Scanned >= last {
			select {
			case <-woken:
			case <-r.done:
			}
		}
		if r.rnd.IntN(3) == 0 {
			v.Release()
			v.Count = 0
		}
	}
	for i := range r.views {
		r.views[i].Release()
	}
	return nil
}

// TestReadersBesideWriter runs one writer and many readers over a small ring that turns over thousands of times.
func TestReadersBesideWriter(t *testing.T) {
	const readers = 12
	last := uint64(150_000)
	if heapByDefault || invariants || testing.Short() {
		last = 12_000
	}
	for name, o := range map[string]Options{
		"index":    {ChunkBytes: minChunkBytes, SizeBytes: 16 * minChunkBytes},
		"merge":    {ChunkBytes: minChunkBytes, SizeBytes: 16 * minChunkBytes, heap: true},
		"no spare": {ChunkBytes: minChunkBytes, SpareChunks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w, l := newWriter(t, o), newLaw(200)
			w.store.merge = name == "merge"
			var lagged atomic.Int64
			done := make(chan struct{})
			var group sync.WaitGroup
			for i := range readers {
				filters := [][]string{{"**"}, {"p0/**"}, {"p0/q/t1"}, {"p1/**", "p2/q/t0", "p77/**"}, {"p190/**"}, {"p1/q/t1", "p3/**", "p4/**"}}[i%6]
				fs, err := topic.ParseFilters(filters)
				if err != nil {
					t.Fatal(err)
				}
				r := &stressReader{law: l, w: w, fs: fs, last: last, rnd: rand.New(rand.NewPCG(uint64(i), 7)), lagged: &lagged, done: done}
				group.Go(func() {
					if err := r.run(); err != nil {
						t.Error(err)
					}
				})
			}
			l.feed(w, last, rand.New(rand.NewPCG(1, 2)))
			close(done)
			group.Wait()
			if err := w.store.Check(); err != nil {
				t.Error(err)
			}
			st := w.store.Stats()
			if st.PinnedChunks != 0 || st.Watches != 0 {
				t.Errorf("left behind: %+v", st)
			}
			t.Logf("fell off %d times; %+v", lagged.Load(), st)
		})
	}
}
