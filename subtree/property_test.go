package subtree

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"slices"
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
	m.s.cut()
	m.sealRest()
}

// sealRest seals the windows that history does not have, or has no longer after an install.
func (m *machine) sealRest() {
	for _, last := m.st.Windows(); int(last) < len(m.s.cuts); last++ {
		mustSeal(m.t, m.st, m.s, m.s.window(int(last)+1, m.s.cuts[last]))
	}
}

// drop forgets the oldest windows.
func (m *machine) drop(t *rapid.T) {
	first, last := m.st.Windows()
	through := uint64(rapid.IntRange(0, int(last)).Draw(t, "through"))
	want := m.st.Files()
	for len(want) > 0 && want[0].LastWindow <= through {
		want = want[1:]
	}
	if err := m.st.Drop(through); err != nil {
		t.Fatal(err)
	}
	if now := m.st.Files(); len(now) != len(want) || len(now) > 0 && now[0] != want[0] {
		t.Fatalf("windows %d to %d, dropped up to %d: %v", first, last, through, now)
	}
	if now, _ := m.st.Windows(); now < first || now > last+1 {
		t.Fatalf("windows begin at %d", now)
	}
}

// install takes over some files of another Store, in which the windows are rewritten in other ways.
func (m *machine) install(t *rapid.T) {
	m.t = t
	if len(m.s.cuts) == 0 {
		t.Skip("no windows")
	}
	other := m.fromWindows()
	for range rapid.IntRange(0, 2).Draw(t, "rewrites") {
		files := other.Files()
		from := rapid.IntRange(0, len(files)-1).Draw(t, "from")
		to := rapid.IntRange(from, min(from+3, len(files)-1)).Draw(t, "to")
		m.generation++
		g := Generation{Number: m.generation, FirstWindow: files[from].FirstWindow, LastWindow: files[to].LastWindow, Plans: m.s.plans(3)}
		m.plans[g.Number] = g
		mustRewrite(t, other, g)
	}
	list := other.Files()
	list = list[rapid.IntRange(0, len(list)-1).Draw(t, "first"):]
	list = list[:rapid.IntRange(1, len(list)).Draw(t, "count")]
	for range 2 {
		if err := errors.Join(fetch(m.st, other, list), m.st.Install(list)); err != nil {
			t.Fatal(err)
		}
	}
	i := slices.Index(m.st.Files(), list[0])
	if now := m.st.Files(); i < 0 || !slices.Equal(now[i:i+len(list)], list) {
		t.Fatalf("installed %v, history holds %v", list, now)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	m.sealRest()
}

// fromWindows is another Store with all windows.
func (m *machine) fromWindows() *Store {
	other := mustOpen(m.t, vfs.NewMem(), m.s, Options{CursorBytes: 1 << 20})
	for i := range m.s.cuts {
		mustSeal(m.t, other, m.s, m.s.window(i+1, m.s.cuts[i]))
	}
	return other
}

// scrub finds nothing.
func (m *machine) scrub(t *rapid.T) {
	if err := m.st.Scrub(context.Background(), nil); err != nil || len(m.st.Damaged()) > 0 {
		t.Fatal(err, m.st.Damaged())
	}
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
	for _, f := range before {
		if f.Kind == KindGeneration {
			if err := m.st.Rewrite(context.Background(), m.plans[f.Number], nil); err != nil {
				t.Fatal(err)
			}
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
	first, last := m.st.Bounds()
	next := uint64(rapid.IntRange(int(first)-1, int(last)+1).Draw(t, "next"))
	if first > 1 && next < first {
		_, err := readAll(m.st, fs, next, noLimit)
		var gone *GoneError
		if !errors.As(err, &gone) || gone.Oldest != first {
			t.Fatalf("%d of %d to %d: %v", next, first, last, err)
		}
		return
	}
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
		first, _ := m.st.Bounds()
		next := uint64(rapid.IntRange(int(first), int(m.s.last())+1).Draw(t, "next"))
		m.cursors = append(m.cursors, &following{fs: fs, next: next, c: m.st.NewCursor(topic.NewMatcher(m.s.table, fs), next)})
	}
	i := rapid.IntRange(0, len(m.cursors)-1).Draw(t, "cursor")
	f := m.cursors[i]
	if rapid.IntRange(0, 4).Draw(t, "rest") == 0 {
		f.c.Rest()
	}
	var v View
	defer v.Release()
	before, l := f.c.Position(), m.limit()
	err := f.c.Read(&v, l)
	var gone *GoneError
	if first, _ := m.st.Bounds(); errors.As(err, &gone) && gone.Oldest == first && gone.Wanted < first {
		m.cursors = slices.Delete(m.cursors, i, i+1)
		return
	}
	if err != nil {
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
	oldest, _ := m.st.Bounds()
	if oldest > m.s.last() {
		t.Skip("all dropped")
	}
	seq := uint64(rapid.IntRange(int(oldest), int(m.s.last())).Draw(t, "seq"))
	rec, err := m.st.MessageAt(seq)
	if err != nil || string(rec) != string(m.s.recs[seq-1][:len(rec)]) || len(m.s.recs[seq-1])-len(rec) >= 8 {
		t.Fatalf("seq %d: %q, %v", seq, rec, err)
	}
	name := m.s.names[rapid.IntRange(0, len(m.s.names)-1).Draw(t, "name")]
	id, _ := m.s.table.Lookup(name)
	want := uint64(0)
	for i := seq; i >= oldest && want == 0; i-- {
		if m.s.names[i-1] == name {
			want = i
		}
	}
	switch rec, err := m.st.LastOf(id, seq); {
	case want == 0 && !errors.Is(err, ErrNotFound), want > 0 && (err != nil || rec.Seq() != want):
		t.Fatalf("last of %s up to %d: %v, want %d", name, seq, err, want)
	}
	at := timeOf(m.s.recs[seq-1]) + int64(rapid.IntRange(-1, 1).Draw(t, "plus"))
	first := oldest
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
	m.t = t
	other := m.fromWindows()
	for _, f := range m.st.Files() {
		if f.Kind == KindGeneration {
			mustRewrite(t, other, m.plans[f.Number])
		}
	}
	if first, _ := m.st.Windows(); first > 1 {
		if err := other.Drop(first - 1); err != nil {
			t.Fatal(err)
		}
	}
	mine, others := m.st.Files(), other.Files()
	if len(mine) != len(others) {
		t.Fatalf("built from other inputs: %v, %v", mine, others)
	}
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
			"points": m.points, "volumes": m.volumes, "rebuild": m.rebuild, "drop": m.drop, "install": m.install, "scrub": m.scrub,
		})
		m.reopen(t)
		m.rebuild(t)
		if err := m.st.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
