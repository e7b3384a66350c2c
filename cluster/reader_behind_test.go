package cluster

import (
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// TestOpenAtTimeWhileReplaying: after a restart one file of history reaches beyond what has been replayed. A reader at a time that lies
// in it waits for the replay, and gets everything from that time on.
func TestOpenAtTimeWhileReplaying(t *testing.T) {
	const messages, half, from = 400, 300, 10
	mem := vfs.NewMem()
	f := historyFeeder(t, mem)
	if err := f.windows(1 << 30); err != nil {
		t.Fatal(err)
	}
	for i := 1; i <= messages; i++ {
		name := "early/topic"
		if i > half {
			name = "late/topic"
		}
		if err := f.publish(int64(i), make([]byte, 300), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.windows(1); err != nil { // with it the open window ends
		t.Fatal(err)
	}
	f.settled(t)
	f.close(t)

	log := f.log
	f.open(t, mem)
	defer f.close(t)
	apply := func(entries [][]byte, done int) {
		for i, entry := range entries {
			if _, _, err := f.s.Apply(uint64(done+i+1), entry, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(log[:half], 0)
	filters, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.s.OpenReader(ReaderOptions{Filters: filters, Start: wire.StartTime, Value: from})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var v tipstore.View
	defer v.Release()
	if err := r.Read(&v, tipstore.Limit{}); err != nil || r.Position() >= from {
		t.Fatalf("position %d while the log is replayed: %v", r.Position(), err)
	}
	looksSeldom(t, r, &v)
	apply(log[half:], half)
	first, got := uint64(0), 0
	for r.Position() < messages {
		if err := r.Read(&v, tipstore.Limit{}); err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = v.First
		}
		got += v.Count
	}
	if first != from || got != messages-from+1 {
		t.Fatalf("%d messages from seq %d on, want %d from %d on", got, first, messages-from+1, from)
	}
}

// looksSeldom reads while the replay does not go on.
func looksSeldom(t *testing.T, r *Reader, v *tipstore.View) {
	t.Helper()
	began := time.Now()
	for range 5 {
		if err := r.Read(v, tipstore.Limit{}); err != nil {
			t.Fatal(err)
		}
	}
	if d := time.Since(began); d < 20*behindMin {
		t.Errorf("looked five times in %v", d)
	}
}
