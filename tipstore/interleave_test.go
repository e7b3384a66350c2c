package tipstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"pgregory.net/rapid"
)

// These tests stop a reader in the middle of what it does, let the writer go on, and let the reader continue: what a
// scheduler does once in a million reads.

// turnOver appends until so many chunks have been begun, to topics drawn by pick.
func (w *writer) turnOver(chunks int, pick func(i int) string) {
	for until, i := w.store.ring.last+uint64(chunks), 0; w.store.ring.last < until; i++ {
		w.add(pick(i), 40)
		w.flush(1, 1)
	}
	w.publish()
}

// TestWriterInsideRound turns the ring over between the beginning of a merge's round and its end, by as much as chance
// will have it: the cursor must notice, or return what is right.
func TestWriterInsideRound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWriter(t, Options{ChunkBytes: minChunkBytes, SizeBytes: 6 * minChunkBytes})
		w.store.MergeAlways(true)
		pick := func(int) string { return rapid.SampledFrom(someTopics).Draw(rt, "topic") }
		w.turnOver(rapid.IntRange(1, 7).Draw(rt, "before"), pick)
		first, last := w.store.Bounds()
		from := rapid.Uint64Range(first, last).Draw(rt, "from")
		reader := w.newReader(from, rapid.SampledFrom(someFilters[1:]).Draw(rt, "filter"))

		c := reader.cursor
		r := read{c: c, v: reader.view, l: Limit{}, scan: DefaultScanBytes}
		r.l.normalise()
		r.v.reset(&w.store.ring)
		r.fenceSeq, r.fencePos = w.store.fence.load()
		if c.place(r.fencePos) != nil || !r.beginMerge() {
			rt.Fatal("the round does not begin")
		}
		w.turnOver(rapid.IntRange(0, 9).Draw(rt, "inside"), pick)
		r.merge()
		oldest, _ := w.store.ring.tail.load()
		if c.scanned >= from && from < oldest {
			rt.Fatalf("read on to %d from %d although the tail is at %d", c.scanned, from, oldest)
		}
		if from >= oldest {
			finishAndCompare(rt, w, reader, &r)
		}
		reader.view.Release()
	})
}

// finishAndCompare checks a merge that was done step by step.
func finishAndCompare(rt *rapid.T, w *writer, reader *reader, r *read) {
	for seq := reader.next; seq <= r.c.scanned; seq++ {
		if m := w.model[seq-w.first]; reader.filters.Match(m.topic) {
			reader.want = append(reader.want, m)
		}
	}
	if err := reader.verify(); err != nil {
		rt.Fatal(err)
	}
}

// TestWriterBeforeTouch retires the chunks of a batch after it was found right and before its records are touched.
func TestWriterBeforeTouch(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: minChunkBytes})
	w.store.MergeAlways(true)
	w.turnOver(3, func(i int) string { return someTopics[i%3] })
	reader := w.newReader(1, "a/x")
	c := reader.cursor
	r := read{c: c, v: reader.view, scan: DefaultScanBytes}
	r.l.normalise()
	r.v.reset(&w.store.ring)
	r.fenceSeq, r.fencePos = w.store.fence.load()
	if c.place(r.fencePos) != nil || !r.beginMerge() {
		t.Fatal("the round does not begin")
	}
	c.merge.fill(&w.store.lists)
	if err := c.place(r.fencePos); err != nil {
		t.Fatal(err)
	}
	w.turnOver(5, func(int) string { return "b" })
	if c.merge.n == 0 || r.touch() {
		t.Fatalf("touched %d records of a retired chunk", c.merge.n)
	}
	c.merge.active = false
	var gone *GoneError
	if err := c.Read(reader.view, Limit{}); !errors.As(err, &gone) {
		t.Fatalf("read: %v", err)
	}
}

// TestEndOfBlockIsSeenTwice: between a source's look at the end of a block and its look for the next one the writer may
// fill the block and begin another. Going on to that would skip what came in between.
func TestEndOfBlockIsSeenTwice(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: 64 << 10})
	add := func(n int) {
		for range n {
			w.add("a/x", 8)
		}
		w.flush(n, 1)
		w.publish()
	}
	add(5)
	p := w.table.Partition(w.model[0].id)
	src := source{part: p}
	first, ok := src.seek(&w.store.lists, 1)
	if !ok || first != 1 {
		t.Fatalf("first unit %d, %v", first, ok)
	}
	src.next = 5 // at the end of what is written
	add(5)       // fills the block of 8 and begins the next
	if src.block.loadNext() == 0 {
		t.Fatal("there is no next block: the test shows nothing")
	}
	if moved, fresh := src.step(&w.store.lists); !moved || !fresh || src.next != 5 {
		t.Fatalf("step: moved %v, fresh %v, next %d", moved, fresh, src.next)
	}
	for seq := 6; seq <= 10; seq++ {
		unit, ok := src.seek(&w.store.lists, unitOf(uint64(32*(seq-1))))
		if want := unitOf(uint64(32 * (seq - 1))); !ok || unit != want {
			t.Fatalf("seq %d: unit %d %v, want %d", seq, unit, ok, want)
		}
	}
}

// TestBlockClosesBeforeDeltaOverflows puts records further apart than a delta reaches.
func TestBlockClosesBeforeDeltaOverflows(t *testing.T) {
	var x lists
	x.open(true)
	c := newChunk(make([]byte, minChunkBytes))
	units := []uint64{1, 2, 1 << 31, 1<<32 - 1, 1 << 32, 1<<33 + 1, 1<<40 + 7, 1<<40 + 8}
	for i, unit := range units {
		x.add(0, unit, c, uint32(i))
	}
	src, want := source{}, uint64(1)
	for i, unit := range units {
		got, ok := src.seek(&x, want)
		if !ok || got != unit {
			t.Fatalf("entry %d: unit %d %v, want %d", i, got, ok, unit)
		}
		want = got + 1
	}
	if got, ok := src.seek(&x, want); ok {
		t.Fatalf("unit %d after the last", got)
	}
	for i := range units {
		x.drop(0, units[i]+1)
		if i+1 < len(units) {
			if got, ok := (&source{}).seek(&x, units[i]+1); !ok || got != units[i+1] {
				t.Fatalf("after dropping %d entries: unit %d %v, want %d", i+1, got, ok, units[i+1])
			}
		}
	}
	if l := x.get(0); l.head.Load() != 0 || l.closed.Load() != 0 || x.pool.spare.Load() != x.pool.total.Load() {
		t.Fatalf("blocks remain: head %d, %d of %d cells free", l.head.Load(), x.pool.spare.Load(), x.pool.total.Load())
	}
}

// TestCleaningIsDoneInTime: when a chunk retires, the postings of the one before must be gone already, or the writer would
// have to stop for them.
func TestCleaningIsDoneInTime(t *testing.T) {
	skipLong(t)
	w := newWriter(t, Options{ChunkBytes: 1 << 20, SizeBytes: 4 << 20})
	run := benchRun(w, 32_000, 32_000, 8) // a chunk in one append would leave no time: take it in pieces of a tenth
	const piece = 3200
	seq, k, retired := uint64(1), &w.store.cleaner, 0
	for i := range 100 {
		last, late := w.store.ring.last, len(k.todo)-k.at
		w.store.Append(run[i%10*piece*32:][:piece*32], piece, nil, seq, 1)
		seq += piece
		if w.store.ring.last != last && len(k.todo) > 0 {
			retired++
			if late > piece*2 {
				t.Fatalf("append %d: %d partitions of %d were left to clean", i, late, len(k.todo))
			}
		}
	}
	if retired == 0 {
		t.Fatal("nothing was retired: the test shows nothing")
	}
}

// TestHoleFreesEverything: all chunks retire at once, and the postings of each must go.
func TestHoleFreesEverything(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: minChunkBytes})
	for i := range 400 {
		w.add(fmt.Sprintf("p%d/x", i), 8)
		w.flush(1, 1)
	}
	w.publish()
	id, _ := w.intern("p0/x")
	run := benchRun(w, 1, 1, 8)
	w.store.Append(run, 1, []topic.ID{id}, 10_000, 2)
	w.store.cleaner.run(w.store, len(w.store.cleaner.todo))
	if err := w.store.Check(); err != nil {
		t.Fatal(err)
	}
	if st := w.store.Stats(); st.Blocks-st.FreeBlocks != 1 {
		t.Fatalf("%d blocks in use for one record", st.Blocks-st.FreeBlocks)
	}
}
