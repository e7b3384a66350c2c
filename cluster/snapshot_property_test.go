package cluster

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// snapshotWorld is a world of readers whose stream is restored from snapshots.
type snapshotWorld struct {
	*historyWorld
	digest  map[string]string // of the log so far
	pending *pendingSnapshot  // captured, not written yet
	last    *writtenSnapshot

	restored int // times that a snapshot was restored
}

type pendingSnapshot struct {
	index uint64
	state *streamState
}

// writtenSnapshot is a state file, and the parts of the manifest that restoring looks at.
type writtenSnapshot struct {
	m     snapManifest
	state []byte
}

// capture takes the state now; it is written later.
func (w *snapshotWorld) capture() bool {
	if w.pending != nil {
		return false
	}
	w.pending = &pendingSnapshot{w.index, w.s.capture()}
	return true
}

// persist writes what was captured, though the stream has gone on since.
func (w *snapshotWorld) persist() bool {
	if w.pending == nil {
		return false
	}
	p := w.pending
	w.pending = nil
	sealed, ok := p.state.state.Sealed()
	if ok {
		if err := w.s.history.archiver.await(context.Background(), sealed.Number); err != nil {
			w.r.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := p.state.writeTo(context.Background(), &b); err != nil {
		w.r.Fatal(err)
	}
	st := p.state.state
	w.last = &writtenSnapshot{state: b.Bytes(), m: snapManifest{
		index: p.index, seq: st.Seq(), firstSeq: st.First(), window: sealed.Number, windowSeq: sealed.LastSeq,
	}}
	return true
}

// restartFromSnapshot loses tip and state and restores them from the last snapshot and the log behind it. The ring may have another
// size after it.
func (w *snapshotWorld) restartFromSnapshot() {
	w.pending = nil
	w.digest = w.s.machine.Digest().Parts
	w.shut()
	o := historyOptions(w.fs)
	o.Tip.SizeBytes = int64(rapid.SampledFrom([]int{16, 40, 200}).Draw(w.r, "KiB of ring")) << 10
	s, err := openStream(o)
	if err != nil {
		w.r.Fatal(err)
	}
	w.s = s
	from := w.restore()
	s.start()
	w.comeBack(func() {
		for i := from; i < w.index; i++ {
			if _, _, err := s.Apply(i+1, w.log[i], nil); err != nil {
				w.r.Fatal(err)
			}
		}
		if got := s.machine.Digest().Parts; !maps.Equal(got, w.digest) {
			w.r.Fatalf("after the restart\n%v\nbefore it\n%v", got, w.digest)
		}
	})
}

// restore brings the last snapshot, if there is one, into a stream that was just opened. It returns the index up to which the log is in it.
func (w *snapshotWorld) restore() (index uint64) {
	if w.last == nil {
		return 0
	}
	w.restored++
	if err := w.s.restore(&w.last.m, bytes.NewReader(w.last.state)); err != nil {
		w.r.Fatal(err)
	}
	if err := w.s.tip.Check(); err != nil {
		w.r.Fatal(err)
	}
	if first, last := w.s.Bounds(); first != 1 && last > 0 || last != w.last.m.seq {
		w.r.Fatalf("restored at %d, %d to %d can be read", w.last.m.seq, first, last)
	}
	return w.last.m.index
}

// produce uses a producer, so that the state holds some.
func (w *snapshotWorld) produce() {
	id := record.ProducerID{byte(rapid.IntRange(1, 3).Draw(w.r, "producer"))}
	if err := w.command(w.now, record.KindOpenProducer, fsm.OpenProducerBody(id)); err != nil {
		w.r.Fatal(err)
	}
}

// TestSnapshotsAgainstBruteForce: snapshots taken and written at any time, restarts from them in a ring of any size, while windows are
// sealed, archived, planned and merged and writes fail. State and files are as if nothing had happened, and every reader gets exactly
// what a scan over all messages says.
func TestSnapshotsAgainstBruteForce(t *testing.T) {
	restored := 0
	rapid.Check(t, func(r *rapid.T) {
		w := &snapshotWorld{historyWorld: newHistoryWorld(t, r, 1, 2000, 9000, 1<<30)}
		restart := func() { w.healthy(w.restartFromSnapshot) }
		w.live(step{4, always(w.produce)}, step{8, w.capture}, step{8, w.persist}, step{4, always(restart)})
		w.finish()
		restored += w.restored
	})
	if !testing.Short() && restored == 0 { // the few random cases of a short run may all be small
		t.Error("nothing was restored: the test shows nothing")
	}
}

// pointReads is what point reads say of a stream of 400 messages.
func pointReads(t *testing.T, s *Stream) string {
	t.Helper()
	var out strings.Builder
	for seq := range uint64(400) {
		m, err := s.MessageAt(t.Context(), seq+1)
		fmt.Fprintln(&out, m.Topic, m.Record, err)
	}
	for _, seq := range []uint64{0, 1, 50, 200, 399, 400} {
		m, err := s.Last(t.Context(), "a/b/3", seq)
		fmt.Fprintln(&out, m.Topic, m.Record, err)
		page, err := s.LastEach(t.Context(), LastQuery{Filters: mustFilters(t, "a/**"), Seq: seq})
		fmt.Fprintln(&out, page, err)
	}
	return out.String()
}

// TestRestoredPointReads: what a restored stream says of single messages is what it said before.
func TestRestoredPointReads(t *testing.T) {
	fs := vfs.NewMem()
	w := &snapshotWorld{historyWorld: &historyWorld{readerWorld: &readerWorld{feeder: historyFeeder(t, fs)}}}
	mustDo(t, w.windows(3000))
	for i := range 200 {
		mustDo(t, w.publish(int64(i), make([]byte, 50), fmt.Sprintf("a/b/%d", i%17), "a/c"))
	}
	w.settled(t)
	want := pointReads(t, w.s)
	w.capture()
	w.persist()
	w.close(t)
	s, err := openStream(historyOptions(fs))
	mustDo(t, err)
	defer func() { mustDo(t, s.Close()) }()
	mustDo(t, s.restore(&w.last.m, bytes.NewReader(w.last.state)))
	s.start()
	if got := pointReads(t, s); got != want {
		t.Errorf("restored:\n%s\nbefore:\n%s", got, want)
	}
	if s.machine.LastMessageTime() != 199 || s.machine.LastTime() != 199 {
		t.Errorf("times %d and %d", s.machine.LastMessageTime(), s.machine.LastTime())
	}
}

// TestRestoreFromBeforeRetention: a snapshot older than what retention has dropped since is as good as any: the log seals the same windows,
// which history does not have any more, and drops them again.
func TestRestoreFromBeforeRetention(t *testing.T) {
	fs := vfs.NewMem()
	w := &snapshotWorld{historyWorld: &historyWorld{readerWorld: &readerWorld{feeder: historyFeeder(t, fs)}}}
	mustDo(t, w.windows(1000))
	fill := func() {
		for i := range 100 {
			mustDo(t, w.publish(int64(i), make([]byte, 50), fmt.Sprintf("a/b/%d", i%7), "a/c"))
		}
	}
	fill()
	w.capture()
	w.persist()
	fill()
	fill()
	w.settled(t)
	sealed := newestSealed(w.s.machine).Number
	through, _ := w.s.machine.Window(sealed - 3)
	if through.FirstSeq <= w.last.m.seq {
		t.Fatalf("window %d begins at seq %d, the snapshot ends with %d", through.Number, through.FirstSeq, w.last.m.seq)
	}
	mustDo(t, w.command(200, record.KindRetain, fsm.RetainBody(through.Number)))
	eventually(t, "history to be dropped", func() bool {
		first, _ := w.s.history.store.Bounds()
		return first == through.LastSeq+1
	})
	want, files := w.s.machine.Digest().Parts, fmt.Sprint(w.s.HistoryFiles())
	w.close(t)

	s, err := openStream(historyOptions(fs))
	mustDo(t, err)
	mustDo(t, s.restore(&w.last.m, bytes.NewReader(w.last.state)))
	s.start()
	for i := w.last.m.index; i < w.index; i++ {
		_, _, err := s.Apply(i+1, w.log[i], nil)
		mustDo(t, err)
	}
	w.s = s
	w.settled(t)
	if got := s.machine.Digest().Parts; !maps.Equal(got, want) || fmt.Sprint(s.HistoryFiles()) != files {
		t.Errorf("restored\n%v %v\nbefore\n%v %v", got, s.HistoryFiles(), want, files)
	}
	if first, last := s.Bounds(); first != through.LastSeq+1 || last != 600 {
		t.Errorf("%d to %d can be read", first, last)
	}
	r, err := s.OpenReader(ReaderOptions{Filters: mustFilters(t, "**"), Start: wire.StartFirst})
	mustDo(t, err)
	var v tipstore.View
	for next := through.LastSeq + 1; r.Position() < 600; {
		mustDo(t, r.Read(&v, tipstore.Limit{}))
		if v.Count > 0 && v.First != next {
			t.Fatalf("got seq %d, want %d", v.First, next)
		}
		next += uint64(v.Count)
	}
	v.Release()
	r.Close()
	w.close(t)
}
