package cluster

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// smallTip wraps after a few hundred small messages.
var smallTip = tipstore.Options{ChunkBytes: 4 << 10, SizeBytes: 16 << 10}

// feeder is a proposer for one stream without raft.
type feeder struct {
	s       *Stream
	index   uint64
	builder record.EntryBuilder
	batch   record.BatchBuilder
	keep    bool     // all entries, in log
	log     [][]byte // entry i has index i+1
}

func newFeeder(tb testing.TB, tip tipstore.Options) *feeder {
	tb.Helper()
	s, err := NewStream(StreamOptions{Tip: tip, MaxTopics: 1000, MaxProducers: 10})
	if err != nil {
		tb.Fatal(err)
	}
	return &feeder{s: s}
}

// publish applies one entry with one message per topic.
func (f *feeder) publish(time int64, payload []byte, topics ...string) error {
	f.builder.Reset()
	f.batch.Reset(nil, nil)
	for _, name := range topics {
		number, ok := f.s.Table().Lookup(name)
		n := uint32(number)
		if !ok || !f.s.Table().IsTopic(number) {
			n = f.builder.NewTopicRef(name)
		}
		if err := f.batch.Add(n, nil, payload); err != nil {
			return err
		}
	}
	f.builder.AddBatch(f.batch.Finish(record.ProducerID{}, 0, 0, false))
	return f.apply(f.builder.Finish(record.CodecNone, record.EntryHeader{Time: time}))
}

// command applies one small entry.
func (f *feeder) command(time int64, k record.Kind, body []byte) error {
	return f.apply(record.EncodeEntry(record.EntryHeader{Kind: k, Time: time}, body))
}

func (f *feeder) apply(entry []byte) error {
	f.index++
	if f.keep {
		f.log = append(f.log, bytes.Clone(entry))
	}
	_, rs, err := f.s.Apply(f.index, entry, nil)
	if err == nil && rs[0].Code != fsm.OK {
		return errors.New(rs[0].Code.String())
	}
	return err
}

func mustFilters(tb testing.TB, list ...string) topic.Filters {
	tb.Helper()
	fs, err := topic.ParseFilters(list)
	if err != nil {
		tb.Fatal(err)
	}
	return fs
}

// TestStreamClose: the tip's memory is not freed under a reader.
func TestStreamClose(t *testing.T) {
	f := newFeeder(t, smallTip)
	r, err := f.s.OpenReader(ReaderOptions{Filters: mustFilters(t, "**"), Start: wire.StartFirst})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.s.Close(); err == nil {
		t.Fatal("closed under a reader")
	}
	r.Close()
	if err := f.s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestStreamOptions: what the tip refuses is refused.
func TestStreamOptions(t *testing.T) {
	if _, err := NewStream(StreamOptions{Tip: tipstore.Options{ChunkBytes: 1}}); err == nil {
		t.Fatal("opened with chunks of one byte")
	}
}

// TestStreamApplyError: a corrupt entry changes nothing and shows nothing.
func TestStreamApplyError(t *testing.T) {
	f := newFeeder(t, smallTip)
	defer f.s.Close()
	if err := f.publish(1, []byte("x"), "a/b"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.s.Apply(9, []byte("no entry"), nil); !errors.Is(err, record.ErrCorrupt) {
		t.Fatal(err)
	}
	if _, last := f.s.Tip().Bounds(); last != 1 || f.s.Machine().AppliedIndex() != 1 {
		t.Errorf("last seq %d, index %d", last, f.s.Machine().AppliedIndex())
	}
}
