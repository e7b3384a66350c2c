package subtree

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/vfs"
)

// machine runs a Store beside the stream that it should hold.
type machine struct {
	t          *rapid.T
	fs         *vfs.Mem
	s          *stream
	st         *Store
	o          Options
	generation uint64
	plans      map[uint64]Generation // by number
	cursors    []*following
}

// following is a cursor that lives through what happens to the Store.
type following struct {
	fs   topic.Filters
	c    *Cursor
	next uint64
	got  []byte
}

func (m *machine) rand(name string) *rand.Rand {
	return rand.New(rand.NewSource(rapid.Int64().Draw(m.t, name)))
}

// seal appends messages and seals them as one window.
func (m *machine) seal(t *rapid.T) {
	m.t = t
	r := m.rand("messages")
	m.s.fill(t, r, 1+r.Intn(rapid.SampledFrom([]int{5, 50, 1500}).Draw(t, "most")), rapid.Bool().Draw(t, "large"))
	mustSeal(t, m.st, m.s, m.s.cut())
}

// rewrite makes a generation of some neighbouring files.
func (m *machine) rewrite(t *rapid.T) {
	m.t = t
	files := m.st.Files()
	if len(files) == 0 {
		t.Skip("no files")
	}
	from := rapid.IntRange(0, len(files)-1).Draw(t, "from")
	to := rapid.IntRange(from, min(from+3, len(files)-1)).Draw(t, "to")
	m.generation++
	g := Generation{
		Number: m.generation, FirstWindow: files[from].FirstWindow, LastWindow: files[to].LastWindow,
		Plans: m.s.plans(rapid.IntRange(0, 4).Draw(t, "salt")),
	}
	m.plans[g.Number] = g
	mustRewrite(t, m.st, g)
	if now := m.st.Files(); len(now) != len(files)-(to-from) || now[from].Kind != KindGeneration || now[from].LastSeq != files[to].LastSeq {
		t.Fatalf("files %d to %d of %d rewritten: %d files, %+v", from, to, len(files), len(now), now[from])
	}
}

// again repeats what a restarted node repeats: it must change nothing.
func (m *machine) again(t *rapid.T) {
	before := m.st.Files()
	m.fs.SetHook(func(op vfs.Op, name string) error { return fmt.Errorf("%s %s for nothing", op, name) })
	defer m.fs.SetHook(nil)
	for i := range m.s.cuts {
		w := m.s.window(i+1, m.s.cuts[i])
		if err := m.st.Seal(w, func() ([]byte, error) { return nil, errors.New("called") }); err != nil {
			t.Fatal(err)
		}
	}
	for n := uint64(1); n <= m.generation; n++ {
		if err := m.st.Rewrite(context.Background(), m.plans[n], nil); err != nil {
			t.Fatal(err)
		}
	}
	after := m.st.Files()
	for i := range after {
		if after[i] != before[i] {
			t.Fatalf("file %d changed from %+v to %+v", i, before[i], after[i])
		}
	}
}

func (m *machine) reopen(t *rapid.T) {
	if err := m.st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, f := range m.cursors {
		f.c.Close()
	}
	m.cursors = nil
	m.st = mustOpen(t, m.fs, m.s, m.o)
	if d := m.st.Damaged(); len(d) > 0 {
		t.Fatal(d[0])
	}
}

func (m *machine) limit() Limit {
	l := Limit{
		Bytes: rapid.SampledFrom([]int{0, 1, 500, 20_000}).Draw(m.t, "bytes"),
		Count: rapid.SampledFrom([]int{0, 0, 1, 13}).Draw(m.t, "count"),
		Scan:  rapid.SampledFrom([]int{0, 1, 70_000}).Draw(m.t, "scan"),
	}
	if rapid.IntRange(0, 3).Draw(m.t, "bounded") == 0 {
		l.UpTo = uint64(rapid.IntRange(1, int(m.s.last())+2).Draw(m.t, "up to"))
	}
	return l
}

// read compares a whole read with brute force.
func (m *machine) read(t *rapid.T) {
	m.t = t
	fs := mustFilters(t, randomFilters(m.rand("filters"))...)
	_, last := m.st.Bounds()
	next := uint64(rapid.IntRange(0, int(last)+1).Draw(t, "next"))
	l := m.limit()
	l.UpTo = 0
	got, err := readAll(m.st, fs, next, func() Limit { return l })
	if err == nil {
		err = same(got, m.s.want(fs, next, last))
	}
	if err != nil {
		t.Fatalf("%v from %d: %v", fs.Strings(), next, err)
	}
}

// follow starts a cursor, or reads a little with one that there is.
func (m *machine) follow(t *rapid.T) {
	m.t = t
	if len(m.cursors) < 3 {
		fs := mustFilters(t, randomFilters(m.rand("filters"))...)
		next := uint64(rapid.IntRange(1, int(m.s.last())+1).Draw(t, "next"))
		m.cursors = append(m.cursors, &following{fs: fs, next: next, c: m.st.NewCursor(topic.NewMatcher(m.s.table, fs), next)})
	}
	f := m.cursors[rapid.IntRange(0, len(m.cursors)-1).Draw(t, "cursor")]
	if rapid.IntRange(0, 4).Draw(t, "rest") == 0 {
		f.c.Rest()
	}
	var v View
	defer v.Release()
	before, l := f.c.Position(), m.limit()
	if err := f.c.Read(&v, l); err != nil {
		t.Fatal(err)
	}
	if err := checkView(&v, l, before, f.c.Position()); err != nil {
		t.Fatal(err)
	}
	for _, p := range v.Parts {
		f.got = append(f.got, p...)
	}
	if err := same(f.got, m.s.want(f.fs, f.next, f.c.Position())); err != nil {
		t.Fatalf("%v from %d: %v", f.fs.Strings(), f.next, err)
	}
}

// points compares point reads with the model.
func (m *machine) points(t *rapid.T) {
	if m.s.last() == 0 {
		t.Skip("empty")
	}
	seq := uint64(rapid.IntRange(1, int(m.s.last())).Draw(t, "seq"))
	rec, err := m.st.MessageAt(seq)
	if err != nil || string(rec) != string(m.s.recs[seq-1][:len(rec)]) || len(m.s.recs[seq-1])-len(rec) >= 8 {
		t.Fatalf("seq %d: %q, %v", seq, rec, err)
	}
	name := m.s.names[rapid.IntRange(0, len(m.s.names)-1).Draw(t, "name")]
	id, _ := m.s.table.Lookup(name)
	want := uint64(0)
	for i := seq; i > 0 && want == 0; i-- {
		if m.s.names[i-1] == name {
			want = i
		}
	}
	switch rec, err := m.st.LastOf(id, seq); {
	case want == 0 && !errors.Is(err, ErrNotFound), want > 0 && (err != nil || rec.Seq() != want):
		t.Fatalf("last of %s up to %d: %v, want %d", name, seq, err, want)
	}
	at := timeOf(m.s.recs[seq-1]) + int64(rapid.IntRange(-1, 1).Draw(t, "plus"))
	first := uint64(1)
	for first <= m.s.last() && timeOf(m.s.recs[first-1]) < at {
		first++
	}
	if got, err := m.st.SeqAtTime(at); err != nil || got != first {
		t.Fatalf("first at %d: %d, %v, want %d", at, got, err, first)
	}
}

// volumes compares the directories' sums with the model.
func (m *machine) volumes(t *rapid.T) {
	files := m.st.Files()
	if len(files) == 0 {
		t.Skip("no files")
	}
	from := rapid.IntRange(0, len(files)-1).Draw(t, "from")
	to := rapid.IntRange(from, len(files)-1).Draw(t, "to")
	want := map[topic.ID]TopicVolume{}
	for seq := files[from].FirstSeq; seq <= files[to].LastSeq; seq++ {
		rec := m.s.recs[seq-1]
		v := want[topicOf(rec)]
		want[topicOf(rec)] = TopicVolume{topicOf(rec), v.Messages + 1, v.Bytes + uint64(len(rec))}
	}
	err := m.st.Volumes(files[from].FirstWindow, files[to].LastWindow, func(p topic.ID, topics []TopicVolume) error {
		for _, v := range topics {
			if want[v.Topic] != v || m.s.table.PartitionNode(m.s.table.Partition(v.Topic)) != p {
				t.Fatalf("partition %d: %+v, want %+v", p, v, want[v.Topic])
			}
			delete(want, v.Topic)
		}
		return nil
	})
	if err != nil || len(want) > 0 {
		t.Fatalf("%v, left out: %v", err, want)
	}
}

// rebuild makes every file that there is from windows alone, in another Store, and compares the hashes.
func (m *machine) rebuild(t *rapid.T) {
	other := mustOpen(t, vfs.NewMem(), m.s, Options{CursorBytes: 1 << 20})
	for i := range m.s.cuts {
		mustSeal(t, other, m.s, m.s.window(i+1, m.s.cuts[i]))
	}
	for _, f := range m.st.Files() {
		if f.Kind == KindGeneration {
			mustRewrite(t, other, m.plans[f.Number])
		}
	}
	mine, others := m.st.Files(), other.Files()
	for i := range mine {
		if mine[i] != others[i] {
			t.Fatalf("built from other inputs:\n%+v\n%+v", mine[i], others[i])
		}
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHistoryIsTheStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &machine{t: t, fs: vfs.NewMem(), s: newStream(), plans: map[uint64]Generation{}}
		m.o = Options{
			CursorBytes: rapid.SampledFrom([]int{1, 100_000, 0}).Draw(t, "cursor bytes"),
			CacheBytes:  int64(rapid.SampledFrom([]int{1, 0}).Draw(t, "cache bytes")),
			OpenFiles:   rapid.SampledFrom([]int{1, 0}).Draw(t, "open files"),
		}
		m.st = mustOpen(t, m.fs, m.s, m.o)
		t.Repeat(map[string]func(*rapid.T){
			"seal": m.seal, "rewrite": m.rewrite, "again": m.again, "reopen": m.reopen, "read": m.read, "follow": m.follow,
			"points": m.points, "volumes": m.volumes, "rebuild": m.rebuild,
		})
		m.reopen(t)
		m.rebuild(t)
		if err := m.st.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
