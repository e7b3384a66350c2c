package tipstore

import (
	"testing"
)

// floorWriter is a writer whose appends are whole chunks of one message each: seq n fills chunk n.
func floorWriter(t *testing.T) (w *writer, fill func()) {
	w = newWriter(t, Options{ChunkBytes: minChunkBytes, SizeBytes: MinChunks * minChunkBytes, OverflowChunks: 3})
	return w, func() {
		w.add("a/b", minChunkBytes-100)
		w.flush(1, 1)
		w.publish()
	}
}

func (w *writer) wantBounds(first, last uint64) {
	w.t.Helper()
	if a, b := w.store.Bounds(); a != first || b != last {
		w.t.Fatalf("the tip holds %d to %d, want %d to %d", a, b, first, last)
	}
	if err := w.store.Check(); err != nil {
		w.t.Fatal(err)
	}
}

// TestFloorKeepsWhatIsOpen: what nobody can archive yet stays, however far beyond the ring's size, and goes when it is archived.
func TestFloorKeepsWhatIsOpen(t *testing.T) {
	w, fill := floorWriter(t)
	w.store.SetFloor(0)
	for range 50 {
		fill()
	}
	w.wantBounds(1, 50)
	r := w.newReader(1, "**")
	if err := w.read(r, Limit{}); err != nil {
		t.Fatal(err)
	}
	r.view.Release()
	if held := w.store.Stats().HeldChunks; held != 50-MinChunks {
		t.Errorf("%d chunks held, want %d", held, 50-MinChunks)
	}
	w.store.SetFloor(40)
	fill()
	w.wantBounds(41, 51)
	w.store.SetFloor(51)
	fill()
	w.wantBounds(53-MinChunks, 52)
	if n := w.store.Stats(); n.FloorWaits != 0 || n.HeldChunks != 0 {
		t.Errorf("%d waits, %d chunks held", n.FloorWaits, n.HeldChunks)
	}
}

// TestFloorMakesAppendWait: with all chunks full of what could be archived, and the overflow too, Append waits for the floor.
func TestFloorMakesAppendWait(t *testing.T) {
	w, fill := floorWriter(t)
	w.store.SetFloor(0)
	for seq := uint64(1); seq <= MinChunks+3; seq++ {
		fill()
		w.store.SetSealed(seq)
	}
	if n := w.store.Stats().FloorWaits; n != 0 {
		t.Fatalf("%d waits before the ring was full", n)
	}
	w.store.SetFloor(0) // a wake that changes nothing
	done := make(chan struct{})
	go func() { defer close(done); fill() }()
	for w.store.Stats().FloorWaits == 0 {
		select {
		case <-done:
			t.Fatal("append did not wait for the floor")
		default:
		}
	}
	w.store.SetFloor(1)
	<-done
	w.wantBounds(2, MinChunks+4)
	w.store.SetFloor(NoFloor)
	fill()
	w.wantBounds(6, MinChunks+5)
}
