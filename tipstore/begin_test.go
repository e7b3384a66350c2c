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

// TestBeginAgain: what comes first may be later than was said, and a tip that holds messages may begin anew behind a hole.
func TestBeginAgain(t *testing.T) {
	w := newWriter(t, Options{ChunkBytes: minChunkBytes})
	w.store.Begin(0)
	w.wantBounds(1, 0)
	w.store.Begin(5)
	w.wantBounds(5, 4)
	fill := func(first uint64, n int) {
		w.first, w.model = first, nil
		for range n {
			w.add("a/b", 1000)
			w.flush(1, 1)
		}
		w.publish()
		w.wantBounds(first, first+uint64(n)-1)
		r := w.newReader(first, "**")
		if err := w.read(r, Limit{}); err != nil || r.view.Count == 0 || r.view.First != first {
			t.Errorf("%v, %+v", err, r.view)
		}
		r.view.Release()
	}
	fill(7, 9)
	w.store.Begin(20)
	w.wantBounds(20, 19)
	fill(20, 9)
	defer func() {
		if recover() == nil {
			t.Error("a tip went back")
		}
	}()
	w.store.Begin(28)
}
