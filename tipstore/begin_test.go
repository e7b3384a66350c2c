package tipstore

import (
	"errors"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
)

// TestBeginInTheMiddle: a tip that goes on behind what is kept elsewhere is empty at first, and then like any other.
func TestBeginInTheMiddle(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: minChunkBytes})
	w.store.Begin(100)
	w.first = 100
	w.wantBounds(100, 99)
	if seq := w.store.SeqAtTime(5); seq != 100 {
		t.Errorf("the first message after any time is %d", seq)
	}
	wakes := 0
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		t.Fatal(err)
	}
	watch := w.store.NewWatch(fs, func() { wakes++ })
	defer watch.Close()
	watch.Arm()
	now, before := w.newReader(100, "**"), w.newReader(50, "**")
	for range 2 {
		if err := w.read(now, Limit{}); err != nil || now.view.Count != 0 || now.view.Scanned != 99 {
			t.Fatalf("%v, %+v", err, now.view)
		}
	}
	if err := w.read(before, Limit{}); !errors.As(err, new(*GoneError)) {
		t.Errorf("a reader from before: %v", err)
	}
	for i := range 3 {
		w.add("a/b", 100)
		w.flush(1, int64(i))
		w.publish()
		w.wantBounds(100, 100+uint64(i))
		if err := w.read(now, Limit{}); err != nil || now.view.Count != 1 || now.view.First != 100+uint64(i) {
			t.Fatalf("%v, %+v", err, now.view)
		}
	}
	now.view.Release()
	if wakes != 1 {
		t.Errorf("%d wakes", wakes)
	}
}

// TestHoleAfterBegin: what comes first may be later than was said.
func TestHoleAfterBegin(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: minChunkBytes})
	w.store.Begin(0)
	w.wantBounds(1, 0)
	w.first = 7
	w.add("a/b", 10)
	w.flush(1, 1)
	w.publish()
	w.wantBounds(7, 7)
	defer func() {
		if recover() == nil {
			t.Error("a tip that has messages began again")
		}
	}()
	w.store.Begin(9)
}
