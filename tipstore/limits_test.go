package tipstore

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// benchRun is a run of count records, of so many bytes of payload, spread over partitions in turn.
func benchRun(w *writer, count, partitions, size int) []byte {
	var run []byte
	for i := range count {
		id, _ := w.intern(fmt.Sprintf("part/p%d/t", i%partitions))
		run, _ = record.AppendRecord(run, uint32(id), nil, make([]byte, size))
	}
	return run
}

// skipLong leaves out what takes minutes and finds nothing more.
func skipLong(t *testing.T) {
	if invariants || heapByDefault {
		t.Skip("one goroutine, and slow under the race detector or with the invariants checked at every append")
	}
}

// TestPoolIsAsItWas turns the ring over with many partitions, then with one other, and wants every block of the many back.
func TestPoolIsAsItWas(t *testing.T) {
	skipLong(t)
	w := newWriter(t, Options{ChunkBytes: 64 << 10, SizeBytes: 1 << 20})
	seq := uint64(1)
	fill := func(partitions int) Stats {
		run := benchRun(w, 1000, partitions, 8)
		for range 3 * (1 << 20) / len(run) {
			w.store.Append(run, 1000, nil, seq, 1)
			w.store.Publish()
			seq += 1000
		}
		w.store.cleaner.run(w.store, len(w.store.cleaner.todo))
		if err := w.store.Check(); err != nil {
			t.Fatal(err)
		}
		return w.store.Stats()
	}
	blocks := 0
	for turn := range 10 {
		many := fill(1000)
		one := fill(1)
		need := int(one.LastSeq-one.FirstSeq)/BlockEntries + 3 // of the one partition that is left
		if used := one.Blocks - one.FreeBlocks; used > need {
			t.Fatalf("turn %d: %d blocks in use, one partition needs %d", turn, used, need)
		}
		if used := many.Blocks - many.FreeBlocks; used < need+20 {
			t.Fatalf("turn %d: 1000 partitions take only %d blocks: the test shows nothing", turn, used)
		}
		if turn == 0 {
			blocks = one.Blocks
		}
		if one.Blocks != blocks {
			t.Fatalf("turn %d: the pool grew from %d to %d blocks", turn, blocks, one.Blocks)
		}
	}
}

// TestIndexBytes holds the price of the index: at most 8 bytes for a message of 32 bytes, and little for a partition with
// one message.
func TestIndexBytes(t *testing.T) {
	skipLong(t)
	w := newWriter(t, Options{ChunkBytes: 1 << 20, SizeBytes: 32 << 20})
	run := benchRun(w, 1000, 100, 8)
	n := 32 << 20 / len(run) * 1000
	for seq := 1; seq <= n; seq += 1000 {
		w.store.Append(run, 1000, nil, uint64(seq), 1)
	}
	w.store.Publish()
	if perMessage := float64(w.store.Stats().IndexBytes) / float64(n); perMessage > 8 {
		t.Errorf("%.1f bytes of index per message", perMessage)
	} else {
		t.Logf("%.2f bytes of index per message", perMessage)
	}

	w = newWriter(t, Options{ChunkBytes: 1 << 20, SizeBytes: 64 << 20})
	const partitions = 200_000
	for i := range partitions {
		w.add(fmt.Sprintf("many/p%d", i), 8)
		if i%1000 == 999 {
			w.flush(1000, 1)
		}
	}
	w.publish()
	if perPartition := float64(w.store.Stats().IndexBytes) / partitions; perPartition > 100 {
		t.Errorf("%.1f bytes of index per partition with one message", perPartition)
	} else {
		t.Logf("%.1f bytes of index per partition with one message", perPartition)
	}
}

// TestSteadyStateAllocatesNothing turns a ring over and reads it by both ways.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	skipLong(t)
	w := newWriter(t, Options{ChunkBytes: 64 << 10, SizeBytes: 1 << 20})
	run := benchRun(w, 100, 50, 40)
	seq := uint64(1)
	write := func() {
		w.store.Append(run, 100, nil, seq, 1)
		w.store.Publish()
		seq += 100
	}
	for range 1000 {
		write()
	}
	w.store.NewWatch(mustFilters(t, "**"), func() {}).Arm()
	if n := testing.AllocsPerRun(2000, write); n != 0 {
		t.Errorf("append and publish: %v allocations", n)
	}
	for _, merge := range []bool{false, true} {
		w.store.merge = merge
		var v View
		c := w.store.NewCursor(topic.NewMatcher(w.table, mustFilters(t, "part/p1/**", "part/p7/t", "part/p30/**")), seq)
		read := func() {
			write()
			if err := c.Read(&v, Limit{}); err != nil || v.Count != 6 {
				t.Fatalf("%d records, %v", v.Count, err)
			}
		}
		read()
		if n := testing.AllocsPerRun(2000, read); n != 0 {
			t.Errorf("read, merge %v: %v allocations", merge, n)
		}
		v.Release()
	}
}

// TestThousandReaders lets a thousand cursors read everything side by side.
func TestThousandReaders(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: 64 << 10, SizeBytes: 1 << 20})
	run := benchRun(w, 100, 50, 40)
	const messages = 8000
	for seq := uint64(1); seq <= messages; seq += 100 {
		w.store.Append(run, 100, nil, seq, 1)
	}
	w.store.Publish()
	var group sync.WaitGroup
	for i := range 1000 {
		group.Go(func() {
			fs := mustFilters(t, fmt.Sprintf("part/p%d/**", i%50))
			c := w.store.NewCursor(topic.NewMatcher(w.table, fs), 1)
			defer c.Close()
			var v View
			count := 0
			for c.Position() < messages {
				if err := c.Read(&v, Limit{Count: 7}); err != nil {
					t.Error(err)
					return
				}
				count += v.Count
				runtime.Gosched()
			}
			v.Release()
			if count != messages/50 {
				t.Errorf("%v: %d records, want %d", fs, count, messages/50)
			}
		})
	}
	group.Wait()
	if st := w.store.Stats(); st.PinnedChunks != 0 || st.SpareChunks != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPinnedViewsBoundMemory keeps views of more chunks than there may be spare ones: the memory stays bounded, the writer
// goes on, and no kept byte changes.
func TestPinnedViewsBoundMemory(t *testing.T) {
	const spares = 3
	w := newWriter(t, Options{ChunkBytes: minChunkBytes, SizeBytes: 8 * minChunkBytes, SpareChunks: spares})
	var readers []*reader
	for i := range 400 {
		w.add("a/b", 100)
		w.flush(1, int64(i))
		w.publish()
		r := w.newReader(w.lastVisible(), "**")
		if err := w.read(r, Limit{}); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	st := w.store.Stats()
	if st.SpareChunks > spares || st.PinnedChunks > spares || st.Copied == 0 {
		t.Errorf("%+v", st)
	}
	for _, r := range readers {
		if err := r.verify(); err != nil {
			t.Fatal(err)
		}
		r.view.Release()
	}
	if n := w.store.Stats().PinnedChunks; n != 0 {
		t.Errorf("%d chunks stay pinned", n)
	}
}

// TestStreamGoesOnBeyondHole: after a snapshot the stream continues at a later seq, and a reader below must notice.
func TestStreamGoesOnBeyondHole(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: minChunkBytes})
	if first, last := w.store.Bounds(); first != 1 || last != 0 {
		t.Fatalf("bounds %d %d of an empty tip", first, last)
	}
	w.add("a/b", 10)
	w.flush(1, 1)
	w.publish()
	waiting, future := w.newReader(2, "**"), w.newReader(101, "**")
	if err := w.read(waiting, Limit{}); err != nil {
		t.Fatal(err)
	}
	run := benchRun(w, 3, 1, 10)
	w.store.Append(run, 3, nil, 101, 2)
	if first, last := w.store.Bounds(); first != 101 || last != 100 {
		t.Errorf("bounds %d %d before the publish", first, last)
	}
	w.store.Publish()
	var gone *GoneError
	if err := waiting.cursor.Read(waiting.view, Limit{}); !errors.As(err, &gone) || gone.Wanted != 2 || gone.Oldest != 101 {
		t.Errorf("read over the hole: %v", err)
	}
	if err := future.cursor.Read(future.view, Limit{}); err != nil || future.view.First != 101 || future.view.Count != 3 {
		t.Errorf("read after the hole: %+v %v", future.view, err)
	}
	future.view.Release()
	if err := w.store.Check(); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesBadSizes(t *testing.T) {
	for _, o := range []Options{{ChunkBytes: 100}, {ChunkBytes: 2 << 30}, {SizeBytes: -1}, {SpareChunks: -1}} {
		if _, err := Open(o, topic.NewTable(10)); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
