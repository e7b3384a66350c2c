package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

var readerTopics = []string{"a", "a/b", "a/b/c", "a/b/d", "a/e", "x/y", "x/y/z", "x/z", "q/w/e/r/t", "solo"}

var readerFilters = []string{"**", "a/**", "a", "a/b", "a/b/**", "x/y/**", "x/y", "x/**", "q/**", "q/w/e/r/t", "solo", "never/**", "later/**", "later/1"}

// published is a message as the slow obvious reader knows it. Its seq is its index + 1.
type published struct {
	topic string
	time  int64
}

// readerWorld drives one stream and many readers from one goroutine and holds each against a scan over all that was published.
type readerWorld struct {
	*feeder
	r       *rapid.T
	all     []published
	now     int64
	readers []*tracked
}

// tracked is a reader with what it must deliver.
type tracked struct {
	*Reader
	filters   topic.Filters
	start     uint64 // a match before it must not come; if since is set, found out later
	since     int64  // start time that is still to come, 0: none
	floating  bool   // the start moves up with the oldest kept until the first read
	delivered uint64 // last seq delivered, or start-1
}

func TestReaderAgainstBruteForce(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &readerWorld{feeder: newFeeder(t, smallTip), r: r, now: 1000}
		w.live(150, step{4, always(w.write)}, step{1, w.openOne(20)}, step{5, w.readAny})
		w.drainAll()
		if err := w.s.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

// write publishes one entry: sometimes large, so that the ring wraps; sometimes on a topic that is new.
func (w *readerWorld) write() {
	w.now += int64(rapid.IntRange(0, 2).Draw(w.r, "time"))
	topics := rapid.SliceOfN(rapid.SampledFrom(readerTopics), 1, 8).Draw(w.r, "topics")
	if rapid.IntRange(0, 9).Draw(w.r, "later") == 0 {
		topics = append(topics, fmt.Sprintf("later/%d", len(w.all)%3))
	}
	payload := make([]byte, rapid.SampledFrom([]int{0, 20, 300}).Draw(w.r, "payload"))
	if err := w.publish(w.now, payload, topics...); err != nil {
		w.r.Fatal(err)
	}
	for _, name := range topics {
		w.all = append(w.all, published{name, w.now})
	}
}

// openReader opens a reader at any start and works out what its first seq must be.
func (w *readerWorld) openReader() {
	names := rapid.SliceOfN(rapid.SampledFrom(readerFilters), 1, 4).Draw(w.r, "filters")
	fs, err := topic.ParseFilters(names)
	if err != nil {
		w.r.Fatal(err)
	}
	o := ReaderOptions{Filters: fs, Start: wire.StartKind(rapid.IntRange(0, 4).Draw(w.r, "start"))}
	oldest, head := w.s.Bounds()
	t := &tracked{filters: fs, start: oldest, floating: true}
	switch o.Start {
	case wire.StartNow:
		t.start, t.floating = head+1, false
	case wire.StartSeq:
		o.Value = uint64(rapid.IntRange(0, int(head)+20).Draw(w.r, "seq"))
		if o.Value > 0 {
			t.start, t.floating = o.Value, false
		}
	case wire.StartTime:
		at := w.now + int64(rapid.IntRange(-100, 5).Draw(w.r, "at"))
		o.Value, t.since = uint64(at), at
	case wire.StartAgo:
		o.Value = uint64(rapid.SampledFrom([]int{0, 1, 5, 50, math.MaxInt}).Draw(w.r, "ago"))
		if len(w.all) > 0 { // before the first message there is no time to count back from: all that comes
			t.since = max(1, w.all[len(w.all)-1].time-int64(o.Value))
		}
	}
	t.Reader, err = w.s.OpenReader(o)
	var gone *tipstore.GoneError
	if wantGone := o.Start == wire.StartSeq && o.Value > 0 && o.Value < oldest; wantGone != (err != nil) || err != nil && !errors.As(err, &gone) {
		w.r.Fatalf("open at seq %d of %d..%d: %v", o.Value, oldest, head, err)
	}
	if err != nil {
		if gone.Oldest != oldest || gone.Wanted != o.Value {
			w.r.Fatalf("%+v, oldest %d", gone, oldest)
		}
		return
	}
	if t.Head() != head {
		w.r.Fatalf("head %d, want %d", t.Head(), head)
	}
	w.locate(t)
	w.readers = append(w.readers, t)
}

// locate turns a start time into a seq once there is such a message.
func (w *readerWorld) locate(t *tracked) {
	if t.since != 0 {
		i := slices.IndexFunc(w.all, func(p published) bool { return p.time >= t.since })
		if i < 0 {
			t.start = uint64(len(w.all)) + 1
		} else {
			t.start, t.since = uint64(i)+1, 0
		}
	}
	if oldest, _ := w.s.Bounds(); t.floating {
		t.start = max(t.start, oldest)
	}
	t.delivered = t.start - 1
}

// read does one Read of reader i and checks it.
func (w *readerWorld) read(i int) (more bool) {
	t := w.readers[i]
	if t.floating {
		w.locate(t)
	}
	l := tipstore.Limit{
		Bytes: rapid.SampledFrom([]int{1, 200, 5000, 1 << 20}).Draw(w.r, "bytes"),
		Count: rapid.SampledFrom([]int{0, 1, 7}).Draw(w.r, "count"),
		Scan:  rapid.SampledFrom([]int{0, 1, 500}).Draw(w.r, "scan"),
	}
	oldest, fence := w.s.Bounds()
	before := t.Position()
	var v tipstore.View
	err := t.Read(&v, l)
	defer v.Release()
	if err != nil {
		var gone *tipstore.GoneError
		if !errors.As(err, &gone) || t.floating || before+1 >= oldest {
			w.r.Fatalf("read at %d, oldest %d, floating %v: %v", before, oldest, t.floating, err)
		}
		t.Close()
		w.readers = slices.Delete(w.readers, i, i+1)
		return false
	}
	if t.since == 0 {
		t.floating = false
	}
	w.checkView(t, &v)
	w.checkPosition(t, &v, before, fence)
	return t.Position() < fence
}

// checkView: what came is exactly what comes next by a scan over everything.
func (w *readerWorld) checkView(t *tracked, v *tipstore.View) {
	count := 0
	for _, run := range v.Parts {
		for ; len(run) > 0; run = run[record.Scan(run):] {
			rec := record.First(run)
			want := w.nextMatch(t)
			got := w.s.Table().Name(topic.ID(rec.Topic()))
			if rec.Seq() != want || got != w.all[want-1].topic || rec.Time() != w.all[want-1].time {
				w.r.Fatalf("filters %v from %d after %d: got seq %d on %q, want %d", t.filters, t.start, t.delivered, rec.Seq(), got, want)
			}
			t.delivered = want
			count++
		}
	}
	if count != v.Count {
		w.r.Fatalf("%d records, count %d", count, v.Count)
	}
}

// nextMatch is the first match after what was delivered, or one beyond the end.
func (w *readerWorld) nextMatch(t *tracked) uint64 {
	for seq := max(t.delivered+1, t.start); seq <= uint64(len(w.all)); seq++ {
		if t.filters.Match(w.all[seq-1].topic) {
			return seq
		}
	}
	return uint64(len(w.all)) + 1
}

// checkPosition: never ahead of a match that was not delivered, never back; and with it, caught-up is exact.
func (w *readerWorld) checkPosition(t *tracked, v *tipstore.View, before, fence uint64) {
	p := t.Position()
	if t.since == 0 && p >= t.start && w.nextMatch(t) <= p {
		w.r.Fatalf("position %d is ahead of match %d", p, w.nextMatch(t))
	}
	if p < before || p < t.delivered && v.Count > 0 {
		w.r.Fatalf("position %d, before %d, delivered %d", p, before, t.delivered)
	}
	if v.Count == 0 && v.Scanned >= fence && t.since == 0 && w.nextMatch(t) <= fence {
		w.r.Fatalf("nothing more, but %d matches", w.nextMatch(t))
	}
}

// drain reads to the fence, after which caught-up must hold.
func (w *readerWorld) drain(i int) {
	t := w.readers[i]
	for w.read(i) {
	}
	if i >= len(w.readers) || w.readers[i] != t {
		return // fell off the tip
	}
	if t.Position() < t.Head() {
		w.r.Fatalf("drained to %d, head was %d", t.Position(), t.Head())
	}
}

// TestReaderLive: readers that sleep until woken get every match of what a writer publishes meanwhile, whenever they started.
func TestReaderLive(t *testing.T) {
	const entries, perEntry = 400, 5
	f := newFeeder(t, tipstore.Options{ChunkBytes: 64 << 10, SizeBytes: 4 << 20})
	var topics []string
	for i := range entries * perEntry {
		topics = append(topics, readerTopics[i*i%len(readerTopics)])
	}
	var wg sync.WaitGroup
	for i, filter := range []string{"**", "a/b/**", "x/y", "solo", "q/**"} {
		for _, start := range []wire.StartKind{wire.StartFirst, wire.StartNow} {
			wake := make(chan struct{}, 1)
			r, err := f.s.OpenReader(ReaderOptions{Filters: mustFilters(t, filter, "end"), Start: start, Wake: func() {
				select {
				case wake <- struct{}{}:
				default:
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				defer r.Close()
				if err := followToEnd(r, wake, topics, filter); err != nil {
					t.Errorf("reader %d of %s: %v", i, filter, err)
				}
			})
		}
	}
	for i := range entries {
		if err := f.publish(int64(i), []byte("payload"), topics[i*perEntry:(i+1)*perEntry]...); err != nil {
			t.Error(err)
		}
	}
	if err := f.publish(entries, nil, "end"); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := f.s.Close(); err != nil {
		t.Error(err)
	}
}

// followToEnd reads, sleeping when there is nothing, until the message on "end", and checks every seq on the way.
func followToEnd(r *Reader, wake <-chan struct{}, topics []string, filter string) error {
	fs, err := topic.ParseFilters([]string{filter})
	if err != nil {
		return err
	}
	var want []uint64
	for i, name := range topics {
		if fs.Match(name) {
			want = append(want, uint64(i)+1)
		}
	}
	want = append(want, uint64(len(topics))+1)
	var v tipstore.View
	defer func() { v.Release() }()
	for len(want) > 0 {
		r.Arm()
		_, fence := r.stream.Tip().Bounds()
		if err := r.Read(&v, tipstore.Limit{}); err != nil {
			return err
		}
		for run := bytes.Join(v.Parts, nil); len(run) > 0; run = run[record.Scan(run):] {
			if got := record.First(run).Seq(); len(want) == 0 || got != want[0] {
				return fmt.Errorf("got seq %d, want %v", got, want[:min(1, len(want))])
			}
			want = want[1:]
		}
		if v.Count == 0 && v.Scanned >= fence {
			<-wake
		}
	}
	return nil
}

// TestReaderAgoOverflow: an age beyond all time is the beginning.
func TestReaderAgoOverflow(t *testing.T) {
	f := newFeeder(t, smallTip)
	defer f.s.Close()
	if err := f.publish(math.MaxInt64-1, nil, "a/b"); err != nil {
		t.Fatal(err)
	}
	for _, o := range []ReaderOptions{{Start: wire.StartAgo, Value: math.MaxUint64}, {Start: wire.StartTime, Value: 0}} {
		o.Filters = mustFilters(t, "**")
		r, err := f.s.OpenReader(o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Next() != 1 {
			t.Errorf("%+v: next %d", o, r.Next())
		}
		r.Close()
	}
}
