package tipstore

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"pgregory.net/rapid"
)

// message is what the model keeps of a record.
type message struct {
	topic string
	id    topic.ID
	seq   uint64
	time  int64
	body  []byte
}

// writer feeds a store and the model of it: a slice of all messages ever appended.
type writer struct {
	t         testing.TB
	store     *Store
	table     *topic.Table
	model     []message
	first     uint64 // seq of model[0]
	published int    // messages of the model that are visible
	run       []byte
	fresh     []topic.ID
}

func newWriter(t testing.TB, o Options) *writer {
	t.Helper()
	table := topic.NewTable(4 << 20)
	store, err := Open(o, table)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return &writer{t: t, store: store, table: table, first: 1}
}

func (w *writer) next() uint64 { return w.first + uint64(len(w.model)) }

func (w *writer) intern(name string) (topic.ID, bool) {
	id, created, err := w.table.Intern([]byte(name))
	if err != nil {
		w.t.Fatal(err)
	}
	return id, created
}

// add puts a message into the run that the next flush appends.
func (w *writer) add(name string, size int) {
	id, created := w.intern(name)
	number := uint32(id)
	if created {
		number = record.NewTopic | uint32(len(w.fresh))
		w.fresh = append(w.fresh, id)
	}
	seq := w.next()
	body := bytes.Repeat([]byte{byte(seq)}, size)
	var err error
	if w.run, err = record.AppendRecord(w.run, number, nil, body); err != nil {
		w.t.Fatal(err)
	}
	w.model = append(w.model, message{name, id, seq, 0, body})
}

// flush appends what was added as one run at the time.
func (w *writer) flush(n int, time int64) {
	if n == 0 {
		return
	}
	from := len(w.model) - n
	for i := range w.model[from:] {
		w.model[from+i].time = time
	}
	stored := w.store.Append(w.run, n, w.fresh, w.first+uint64(from), time)
	if len(stored) != len(w.run) {
		w.t.Fatalf("stored %d bytes of %d", len(stored), len(w.run))
	}
	w.run, w.fresh = w.run[:0], w.fresh[:0]
}

func (w *writer) publish() {
	w.store.Publish()
	w.published = len(w.model)
}

func (w *writer) lastVisible() uint64 {
	if w.published == 0 {
		return 0
	}
	return w.first + uint64(w.published) - 1
}

// reader follows one cursor and the model beside it.
type reader struct {
	filters topic.Filters
	cursor  *Cursor
	view    *View
	want    []message // of the view
	next    uint64    // first seq not yet covered by a read
}

func (w *writer) newReader(next uint64, filters ...string) *reader {
	fs, err := topic.ParseFilters(filters)
	if err != nil {
		w.t.Fatal(err)
	}
	return &reader{filters: fs, cursor: w.store.NewCursor(topic.NewMatcher(w.table, fs), next), view: new(View), next: max(next, 1)}
}

// read does one read and compares it with the model.
func (w *writer) read(r *reader, l Limit) error {
	err := r.cursor.Read(r.view, l)
	oldest, _ := w.store.ring.tail.load()
	r.want = r.want[:0]
	if gone := (*GoneError)(nil); errors.As(err, &gone) {
		if r.next >= oldest || gone.Wanted != r.next || gone.Oldest != oldest {
			return fmt.Errorf("gone %+v at %d with the tail at %d", gone, r.next, oldest)
		}
		return err
	}
	if err != nil {
		return err
	}
	v := r.view
	if r.next < oldest {
		return fmt.Errorf("read at %d below the tail %d did not fail", r.next, oldest)
	}
	if v.Scanned < r.next-1 || v.Scanned > max(w.lastVisible(), r.next-1) || l.UpTo > 0 && v.Scanned > max(l.UpTo, r.next-1) {
		return fmt.Errorf("scanned %d from %d, up to %d, fence %d", v.Scanned, r.next, l.UpTo, w.lastVisible())
	}
	for seq := r.next; seq <= v.Scanned; seq++ {
		if m := w.model[seq-w.first]; r.filters.Match(m.topic) {
			r.want = append(r.want, m)
		}
	}
	if l.Count > 0 && v.Count > l.Count || l.Bytes > 0 && v.Bytes > l.Bytes && v.Count > 1 {
		return fmt.Errorf("%d records, %d bytes exceed %+v", v.Count, v.Bytes, l)
	}
	if r.cursor.Position() != v.Scanned {
		return fmt.Errorf("position %d, scanned %d", r.cursor.Position(), v.Scanned)
	}
	r.next = v.Scanned + 1
	return r.verify()
}

// verify compares the view's bytes with what the model says; also later, while the view is pinned.
func (r *reader) verify() error {
	v := r.view
	if v.Count != len(r.want) {
		return fmt.Errorf("%d records, want %d", v.Count, len(r.want))
	}
	if v.Count > 0 && (v.First != r.want[0].seq || v.Last != r.want[len(r.want)-1].seq) {
		return fmt.Errorf("first %d last %d, want %d %d", v.First, v.Last, r.want[0].seq, r.want[len(r.want)-1].seq)
	}
	i, size := 0, 0
	for _, part := range v.Parts {
		size += len(part)
		for len(part) > 0 {
			rec, rest, err := record.Next(part)
			if err != nil {
				return err
			}
			if err := r.want[i].equals(rec); err != nil {
				return err
			}
			part = rest
			i++
		}
	}
	if i != v.Count || size != v.Bytes {
		return fmt.Errorf("%d records of %d bytes in parts, view says %d of %d", i, size, v.Count, v.Bytes)
	}
	return nil
}

func (m message) equals(rec record.Record) error {
	if rec.Seq() != m.seq || rec.Time() != m.time || rec.Topic() != uint32(m.id) || !bytes.Equal(rec.Payload(), m.body) {
		return fmt.Errorf("record seq %d time %d topic %d (%d bytes), want %d %d %d (%d bytes)",
			rec.Seq(), rec.Time(), rec.Topic(), len(rec.Payload()), m.seq, m.time, m.id, len(m.body))
	}
	return nil
}

var someTopics = []string{"a", "b", "a/x", "a/y", "b/x", "b/x/1", "b/x/2", "b/x/2/z", "c/d/e/f", "c/d/e/g", "c/d", "d/1", "d/2", "d/3"}

var someFilters = []string{"**", "a", "a/**", "a/x", "b/**", "b/x/**", "b/x/2/**", "b/x/1", "c/d/e/**", "c/d", "d/**", "d/2", "no/such", "later/**"}

// drawRun appends and perhaps publishes a random run.
func (w *writer) drawRun(t *rapid.T, time *int64) {
	n := rapid.IntRange(1, 40).Draw(t, "count")
	bytes, added := 0, 0
	hot := rapid.SampledFrom(someTopics).Draw(t, "hot")
	for range n {
		name := hot
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			name = rapid.SampledFrom(someTopics).Draw(t, "topic")
		case 1:
			name = fmt.Sprintf("later/%d/t", rapid.IntRange(0, 300).Draw(t, "new"))
		}
		size := rapid.IntRange(0, 90).Draw(t, "size")
		if bytes += record.PaddedSize(nil, size); bytes > minChunkBytes {
			break
		}
		w.add(name, size)
		added++
	}
	*time += rapid.Int64Range(0, 3).Draw(t, "later")
	w.flush(added, *time)
	if rapid.IntRange(0, 3).Draw(t, "publish") > 0 {
		w.publish()
	}
}

func drawLimit(t *rapid.T, w *writer) Limit {
	var l Limit
	if rapid.Bool().Draw(t, "limited") {
		l.Bytes = rapid.SampledFrom([]int{1, 100, 1000, 10000}).Draw(t, "bytes")
	}
	if rapid.Bool().Draw(t, "counted") {
		l.Count = rapid.IntRange(1, 20).Draw(t, "records")
	}
	if rapid.IntRange(0, 3).Draw(t, "bounded") == 0 {
		l.UpTo = rapid.Uint64Range(1, w.next()+3).Draw(t, "upto")
	}
	if rapid.IntRange(0, 2).Draw(t, "scanned") == 0 {
		l.Scan = rapid.IntRange(1, 4000).Draw(t, "scan")
	}
	return l
}

// TestAgainstModel compares random appends and reads with a slice of messages: tiny chunks, so that the ring turns over
// many times, and views kept across that.
func TestAgainstModel(t *testing.T) {
	for _, indexOff := range []bool{false, true} {
		t.Run(fmt.Sprintf("indexOff=%v", indexOff), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				spares := rapid.IntRange(0, 3).Draw(rt, "spares")
				m := &machine{writer: newWriter(t, Options{ChunkBytes: minChunkBytes, IndexOff: indexOff, SpareChunks: spares})}
				m.first = rapid.SampledFrom([]uint64{1, 1000}).Draw(rt, "first")
				m.floor = drawFloor(rt, m.writer)
				rt.Repeat(rapid.StateMachineActions(m))
				for _, r := range m.readers {
					r.view.Release()
				}
				if n := m.store.Stats().PinnedChunks; n != 0 {
					rt.Fatalf("%d chunks pinned in the end", n)
				}
			})
		})
	}
}

// machine is what rapid drives: one writer, any number of readers, and the model.
type machine struct {
	*writer
	readers []*reader
	time    int64
	floor   uint64 // NoFloor: nothing is held
}

func drawFloor(rt *rapid.T, w *writer) uint64 {
	if rapid.Bool().Draw(rt, "archived") {
		w.store.SetFloor(w.first - 1)
	}
	return w.store.Floor()
}

// Archive raises the floor.
func (m *machine) Archive(rt *rapid.T) {
	if last := m.lastVisible(); m.floor != NoFloor && last > m.floor {
		m.floor = rapid.Uint64Range(m.floor, last).Draw(rt, "floor")
		m.store.SetFloor(m.floor)
	}
}

// allowGone fails on any error but a GoneError, which writer.read has checked.
func allowGone(rt *rapid.T, err error) {
	if gone := (*GoneError)(nil); err != nil && !errors.As(err, &gone) {
		rt.Fatal(err)
	}
}

// ForceMerge lets later rounds merge whatever it costs, or choose.
func (m *machine) ForceMerge(rt *rapid.T) { m.store.MergeAlways(rapid.Bool().Draw(rt, "merge")) }

func (m *machine) Append(rt *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(rt, "runs") {
		m.drawRun(rt, &m.time)
	}
}

func (m *machine) Open(rt *rapid.T) {
	first, last := m.store.Bounds()
	next := rapid.Uint64Range(max(first, 3)-3, last+3).Draw(rt, "next")
	filters := rapid.SliceOfNDistinct(rapid.SampledFrom(someFilters), 1, 4, rapid.ID).Draw(rt, "filters")
	m.readers = append(m.readers, m.newReader(next, filters...))
}

func (m *machine) Read(rt *rapid.T) {
	for _, r := range m.readers {
		if !rapid.Bool().Draw(rt, "reads") {
			continue
		}
		if err := m.read(r, drawLimit(rt, m.writer)); err != nil {
			allowGone(rt, err)
			_, last := m.store.Bounds()
			again := rapid.Uint64Range(last+1-min(last, 20), last+1).Draw(rt, "again")
			*r = *m.newReader(again, r.filters.Strings()...)
		}
	}
}

func (m *machine) CatchUp(rt *rapid.T) {
	for _, r := range m.readers {
		for r.next <= m.lastVisible() {
			from := r.next
			if err := m.read(r, Limit{}); err != nil {
				allowGone(rt, err)
				break
			}
			if r.next == from {
				rt.Fatalf("no progress at %d below the fence %d", from, m.lastVisible())
			}
		}
	}
}

func (m *machine) Release(*rapid.T) {
	for _, r := range m.readers {
		r.view.Release()
		r.want, r.view.Count, r.view.Bytes = nil, 0, 0
	}
}

func (m *machine) Time(rt *rapid.T) {
	at := rapid.Int64Range(0, m.time+1).Draw(rt, "at")
	if got, want := m.store.SeqAtTime(at), m.seqAtTime(at); got != want {
		rt.Fatalf("seq at time %d: %d, want %d", at, got, want)
	}
}

// Check runs after each of the others: nothing held is gone, kept views must not change, and all structures must hold.
func (m *machine) Check(rt *rapid.T) {
	if first, _ := m.store.Bounds(); m.floor != NoFloor && first > m.floor+1 {
		rt.Fatalf("the tip begins with seq %d, but only %d are archived", first, m.floor)
	}
	for i, r := range m.readers {
		if err := r.verify(); err != nil {
			rt.Fatalf("view of reader %d (%v) changed: %v", i, r.filters, err)
		}
	}
	if err := m.store.Check(); err != nil {
		rt.Fatal(err)
	}
}

func (w *writer) seqAtTime(at int64) uint64 {
	first, last := w.store.Bounds()
	for seq := first; seq <= last; seq++ {
		if w.model[seq-w.first].time >= at {
			return seq
		}
	}
	return last + 1
}
