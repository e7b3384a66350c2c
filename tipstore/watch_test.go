package tipstore

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/internal/topic"
	"pgregory.net/rapid"
)

func mustFilters(t testing.TB, list ...string) topic.Filters {
	t.Helper()
	fs, err := topic.ParseFilters(list)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// TestWatchesAgainstModel compares who is woken by random publishes with who should be: exactly those armed watches
// whose filters match one of the topics.
func TestWatchesAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &watchMachine{writer: newWriter(t, Options{ChunkBytes: minChunkBytes})}
		if rapid.Bool().Draw(rt, "epochs run out") {
			m.store.watches.visits.epoch = math.MaxUint32/2 - 2
		}
		rt.Repeat(rapid.StateMachineActions(m))
		for _, x := range m.all {
			x.Watch.Close()
		}
		checkNoWatches(rt, m.store)
	})
}

// watchMachine is what rapid drives.
type watchMachine struct {
	*writer
	all []*watched
}

type watched struct {
	*Watch
	fs    topic.Filters
	armed bool
	woken int
	early bool // woken before the fence moved: a read then finds nothing
}

func (m *watchMachine) Open(rt *rapid.T) {
	list := rapid.SliceOfNDistinct(rapid.SampledFrom(someFilters), 1, 3, rapid.ID).Draw(rt, "filters")
	x := &watched{fs: mustFilters(m.t, list...)}
	x.Watch = m.store.NewWatch(x.fs, func() {
		x.woken++
		_, last := m.store.Bounds()
		x.early = x.early || last != m.next()-1
	})
	m.all = append(m.all, x)
}

func (m *watchMachine) Arm(rt *rapid.T) {
	for _, x := range m.all {
		if rapid.Bool().Draw(rt, "arm") {
			x.Watch.Arm()
			x.armed = true
		}
	}
}

func (m *watchMachine) CloseOne(rt *rapid.T) {
	if len(m.all) > 0 {
		i := rapid.IntRange(0, len(m.all)-1).Draw(rt, "watch")
		m.all[i].Watch.Close()
		m.all[i].Watch.Close() // again does nothing
		m.all = append(m.all[:i], m.all[i+1:]...)
	}
}

func (m *watchMachine) Publish(rt *rapid.T) {
	topics := append(slices.Clone(someTopics), "later/1", "later/2/3")
	names := rapid.SliceOfN(rapid.SampledFrom(topics), 1, 5).Draw(rt, "topics")
	for _, name := range names {
		m.add(name, 1)
	}
	m.flush(len(names), 1)
	m.publish()
	for _, x := range m.all {
		want := 0
		if x.armed && slices.ContainsFunc(names, x.fs.Match) {
			want = 1
		}
		if x.woken != want || x.early {
			rt.Fatalf("%v: woken %d times by %v, want %d; before the fence moved: %v", x.fs, x.woken, names, want, x.early)
		}
		x.armed = x.armed && want == 0
		x.woken = 0
	}
}

// Check is for rapid; Publish checks.
func (m *watchMachine) Check(*rapid.T) {}

// checkNoWatches fails if the registry still holds anything.
func checkNoWatches(t interface{ Fatalf(string, ...any) }, s *Store) {
	x := &s.watches
	if x.count.Load() != 0 || x.waiting.Load() != 0 || len(x.mu.pending) != 0 {
		t.Fatalf("%d watches, %d filters waiting, pending %v", x.count.Load(), x.waiting.Load(), x.mu.pending)
	}
	for id := range topic.ID(s.table.Nodes()) {
		if x.at(id) != nil {
			t.Fatalf("node %d still has watchers", id)
		}
	}
}

// TestNoWakeUpLost lets readers sleep and count on being woken, while topics come into being that they already wait for.
// One that is not woken sleeps for ever, and the test with it.
func TestNoWakeUpLost(t *testing.T) {
	const topics, rounds = 20, 100
	w := newWriter(t, Options{ChunkBytes: 64 << 10, SizeBytes: 4 << 20})
	var group sync.WaitGroup
	var ready sync.WaitGroup
	for i := range topics {
		for _, filter := range []string{fmt.Sprintf("root/n%d/x", i), fmt.Sprintf("root/n%d/**", i), "root/**"} {
			ready.Add(1)
			group.Go(func() { sleeper(t, w, filter, i, rounds, &ready) })
		}
	}
	stop := make(chan struct{})
	group.Go(func() { churn(w.store, mustFilters(t, "root/**", "root/n3/x", "other/**"), stop) })
	rnd := rand.New(rand.NewPCG(3, 4))
	for range rounds {
		for _, i := range rnd.Perm(topics) {
			w.add(fmt.Sprintf("root/n%d/x", i), 8)
			w.flush(1, 1)
			w.publish()
		}
	}
	ready.Wait()
	close(stop)
	group.Wait()
	checkNoWatches(t, w.store)
}

// sleeper reads until it has rounds records of the topic root/n<i>/x, and sleeps whenever there is nothing.
func sleeper(t *testing.T, w *writer, filter string, i, rounds int, ready *sync.WaitGroup) {
	defer ready.Done()
	fs := mustFilters(t, filter)
	woken := make(chan struct{}, 1)
	watch := w.store.NewWatch(fs, func() { woken <- struct{}{} })
	defer watch.Close()
	cursor := w.store.NewCursor(topic.NewMatcher(w.table, fs), 1)
	var v View
	defer v.Release()
	for count := 0; count < rounds; {
		select {
		case <-woken: // of an Arm whose Read found something
		default:
		}
		watch.Arm()
		for more := true; more && count < rounds; {
			_, last := w.store.Bounds()
			if err := cursor.Read(&v, Limit{}); err != nil {
				t.Error(err)
				return
			}
			count += v.Count
			more = v.Count > 0 || v.Scanned < last
		}
		if count < rounds {
			<-woken
		}
	}
	watch.armed.Store(false)
}

// churn opens and closes watches all the time.
func churn(s *Store, fs topic.Filters, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			x := s.NewWatch(fs, func() {})
			x.Arm()
			x.Close()
		}
	}
}

// BenchmarkPublishWatched prices a publish beside watches that do not match: as many as given, on topics of their own.
func BenchmarkPublishWatched(b *testing.B) {
	for _, n := range []int{0, 1, 10_000} {
		b.Run(fmt.Sprintf("watches=%d", n), func(b *testing.B) {
			w := newWriter(b, Options{SizeBytes: 64 << 20, ChunkBytes: 1 << 20})
			var wakes atomic.Int64
			for i := range n {
				w.intern(fmt.Sprintf("quiet/w%d/x", i))
				w.store.NewWatch(mustFilters(b, fmt.Sprintf("quiet/w%d/**", i), fmt.Sprintf("nobody/w%d", i)), func() { wakes.Add(1) }).Arm()
			}
			run := benchRun(w, 100, 50, 64)
			seq := uint64(1)
			for b.Loop() {
				w.store.Append(run, 100, nil, seq, 1)
				w.store.Publish()
				seq += 100
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/message")
			if wakes.Load() > 0 {
				b.Fatal("woken by what does not match")
			}
		})
	}
}
