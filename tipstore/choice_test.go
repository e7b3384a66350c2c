package tipstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
)

// TestCursorChoosesTheCheaperWay: the figures of the cost model may be off, but not so far that these go wrong.
func TestCursorChoosesTheCheaperWay(t *testing.T) {
	skipLong(t)
	w := newWriter(t, Options{ChunkBytes: 1 << 20, SizeBytes: 32 << 20})
	run := benchRun(w, 1000, 1000, 32)
	seq := uint64(1)
	for range 200 {
		w.store.Append(run, 1000, nil, seq, 1)
		seq += 1000
	}
	w.store.Publish()
	var half, few []string
	for i := range 500 {
		half = append(half, fmt.Sprintf("part/p%d/**", i))
	}
	few = half[:10]
	read := func(c *Cursor) (index, linear uint64) {
		before := w.store.Stats()
		var v View
		defer v.Release()
		for _, last := w.store.Bounds(); c.Position() < last; {
			if err := c.Read(&v, Limit{}); err != nil {
				t.Fatal(err)
			}
		}
		after := w.store.Stats()
		return after.IndexReads - before.IndexReads, after.LinearReads - before.LinearReads
	}
	cursor := func(next uint64, filters ...string) *Cursor {
		return w.store.NewCursor(topic.NewMatcher(w.table, mustFilters(t, filters...)), next)
	}
	if index, linear := read(cursor(1, few...)); linear > 0 || index == 0 {
		t.Errorf("one in a hundred of all: %d by index, %d linear", index, linear)
	}
	if index, linear := read(cursor(1, half...)); index > 0 || linear == 0 {
		t.Errorf("half of all: %d by index, %d linear", index, linear)
	}
	if index, linear := read(cursor(1, "**")); index > 0 || linear == 0 {
		t.Errorf("everything: %d by index, %d linear", index, linear)
	}
	if index, linear := read(cursor(seq-20, half...)); index > 0 || linear == 0 {
		t.Errorf("500 lists and 20 new messages: %d by index, %d linear", index, linear)
	}
	if index, linear := read(cursor(1, "nobody/**")); linear > 0 || index != 1 {
		t.Errorf("a topic that nobody publishes to: %d by index, %d linear", index, linear)
	}
}

// TestPairIsLoadedWhole lets readers load while the writer stores as fast as it can.
func TestPairIsLoadedWhole(t *testing.T) {
	var p pair
	p.store(0, ^uint64(0))
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for last := uint64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				seq, pos := p.load()
				if pos != ^seq || seq < last {
					t.Errorf("seq %d with position %d after seq %d", seq, ^pos, last)
					return
				}
				last = seq
			}
		})
	}
	for i := range uint64(300_000) {
		p.store(i, ^i)
	}
	close(stop)
	group.Wait()
}
