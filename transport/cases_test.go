package transport_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// model is the obvious stream: all messages in order.
type model struct {
	mu   sync.Mutex
	list []delivered // seq i+1 is at i
}

func (m *model) add(first uint64, list []message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if first != uint64(len(m.list)+1) {
		panic(fmt.Sprintf("model has %d messages, the next seq is %d", len(m.list), first))
	}
	for i, msg := range list {
		m.list = append(m.list, delivered{first + uint64(i), msg.topic, msg.payload})
	}
}

// wait returns when the model has the message upTo, and holds mu then: a writer's message is in the stream, and read, a moment before the
// writer tells the model of it.
func (m *model) wait(t testing.TB, upTo uint64) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for m.mu.Lock(); uint64(len(m.list)) < upTo; m.mu.Lock() {
		n := len(m.list)
		m.mu.Unlock()
		if time.Now().After(deadline) {
			t.Fatalf("the model has %d messages, %d are in the stream", n, upTo)
		}
		time.Sleep(time.Millisecond)
	}
}

// matches lists what filters take of (after, upTo], by the slow way.
func (m *model) matches(t testing.TB, filters []string, after, upTo uint64) []delivered {
	t.Helper()
	fs, err := topic.ParseFilters(filters)
	if err != nil {
		t.Fatal(err)
	}
	m.wait(t, upTo)
	defer m.mu.Unlock()
	var out []delivered
	for _, d := range m.list[min(after, upTo):upTo] {
		if fs.Match(d.topic) {
			out = append(out, d)
		}
	}
	return out
}

// randomTopic is from a small tree, so that filters and topics meet.
func randomTopic(r *rand.Rand) string {
	s := topicName("p", r.IntN(3))
	for range r.IntN(4) {
		s = topicName(s, r.IntN(3))
	}
	return s
}

func randomFilters(r *rand.Rand) []string {
	list := make([]string, 1+r.IntN(5))
	for i := range list {
		list[i] = randomTopic(r)
		if r.IntN(2) == 0 {
			list[i] += "/**"
		}
	}
	if r.IntN(8) == 0 {
		list[0] = "**"
	}
	return list
}

// TestOverlappingFiltersAreExact: random overlapping topics and subtrees against brute force, over several turns of the
// ring, with subscriptions that begin at different times and places.
func TestOverlappingFiltersAreExact(t *testing.T) {
	for name, ring := range map[string]func(*setup){"tip": smallRing, "history": overHistory} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(len(name)), 0))
			f := start(t, ring, func(s *setup) { s.options.Quantum = 64 << 10; s.options.Progress = 5 * time.Millisecond })
			p := f.connect()
			var m model
			var open []*openFeed
			for round := range 20 {
				f.publishRound(r, &m)
				if round%2 == 0 {
					open = append(open, p.openRandom(t, r, uint32(round+1), f))
				}
				for _, o := range open {
					o.want = m.matches(t, o.filters, o.after, f.head())
				}
				p.follow(func() bool { return allThere(open) }, feedsOf(open)...)
				for _, o := range open {
					equal(t, o.feed.messages, o.want)
				}
			}
			if first, _ := f.broker.Stream().Tip().Bounds(); first < 1000 {
				t.Errorf("the ring has not turned over: oldest is %d", first)
			}
			f.wantHistory()
		})
	}
}

type openFeed struct {
	feed    *feed
	filters []string
	after   uint64
	want    []delivered
}

func allThere(open []*openFeed) bool {
	for _, o := range open {
		if len(o.feed.messages) < len(o.want) || o.feed.caughtUp != 1 {
			return false
		}
	}
	return true
}

func feedsOf(open []*openFeed) []*feed {
	var list []*feed
	for _, o := range open {
		list = append(list, o.feed)
	}
	return list
}

// publishRound publishes about 1 MB, less than the ring can take without passing a reader that has caught up.
func (f *fixture) publishRound(r *rand.Rand, m *model) {
	f.t.Helper()
	for range 20 {
		list := make([]message, 1+r.IntN(20))
		for i := range list {
			list[i] = message{randomTopic(r), strings.Repeat("x", r.IntN(10<<10))}
		}
		m.add(f.publish(list...), list)
	}
}

func (p *peer) openRandom(t *testing.T, r *rand.Rand, id uint32, f *fixture) *openFeed {
	t.Helper()
	o := &openFeed{filters: randomFilters(r), feed: &feed{id: id}}
	s := wire.Subscribe{Filters: o.filters, Start: []wire.StartKind{wire.StartFirst, wire.StartNow, wire.StartSeq}[r.IntN(3)]}
	first, last := f.broker.Stream().Bounds()
	switch s.Start {
	case wire.StartFirst:
		o.after = first - 1
	case wire.StartNow:
		o.after = last
	case wire.StartSeq:
		s.Value = first + r.Uint64N(last-first+1)
		o.after = s.Value - 1
	}
	p.subscribe(id, s)
	return o
}

// writer publishes until stopped, beside a test.
type writer struct {
	stop, done chan struct{}
}

func (f *fixture) write(m *model, next func(i int) []message) *writer {
	w := &writer{make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(w.done)
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			default:
			}
			list := next(i)
			m.add(f.publish(list...), list)
		}
	}()
	return w
}

func (w *writer) end() {
	close(w.stop)
	<-w.done
}

// TestCaughtUpIsExact: thousands of topics, read to caught-up while the writer goes on. All that was there at the opening
// came before.
func TestCaughtUpIsExact(t *testing.T) { inTipAndHistory(t, caughtUpIsExact) }

func caughtUpIsExact(t *testing.T, place func(*setup)) {
	const topics = 30_000
	f := start(t, place)
	var m model
	for i := 0; i < topics; i += 500 {
		list := make([]message, 500)
		for j := range list {
			list[j] = message{topicName("v", (i+j)%97, i+j), "value"}
		}
		m.add(f.publish(list...), list)
	}
	w := f.write(&m, func(i int) []message {
		return []message{{topicName("v", i%97, i%topics), "again"}, {"other", "x"}}
	})
	p := f.connect()
	for id, filters := range [][]string{{"v/**"}, {"v/3/**", "v/4/**"}, {"**"}, {"v/5/5"}, {"nothing"}} {
		d := p.read(uint32(id+1), wire.Subscribe{Filters: filters})
		p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, d.id))
		upTo := 0
		for upTo < len(d.messages) && d.messages[upTo].seq <= d.head {
			upTo++
		}
		if upTo != len(d.messages) {
			t.Errorf("%v: %d messages beyond the head came before caught-up", filters, len(d.messages)-upTo)
		}
		p.follow(func() bool { return d.ended != nil }, d)
		equal(t, d.messages[:upTo], m.matches(t, filters, 0, d.head))
		if d.caughtUp != 1 {
			t.Errorf("%v: caught-up came %d times", filters, d.caughtUp)
		}
	}
	w.end()
	f.wantHistory()
}

// TestProgressOfWhatNeverMatches: the resume point of an idle subscription follows the head, to the very last message.
func TestProgressOfWhatNeverMatches(t *testing.T) {
	f := start(t, func(s *setup) { s.options.Progress = 20 * time.Millisecond })
	p := f.connect()
	d := p.read(1, wire.Subscribe{Filters: []string{"never/**"}})
	for range 20 {
		f.fill("busy/topic", 10_000, 10)
	}
	head := f.head()
	p.follow(func() bool { return d.mark == head }, d)
	if len(d.messages) != 0 || head != 200_000 {
		t.Errorf("%d messages came of %d", len(d.messages), head)
	}
	// A stream that stands still says nothing more.
	marks := len(d.progress)
	for range 5 {
		time.Sleep(20 * time.Millisecond)
	}
	p.send(frame(wire.TPing))
	for {
		fr, err := p.next()
		if err != nil {
			t.Fatal(err)
		}
		if fr.Type == wire.TPong {
			break
		}
		t.Errorf("%v after the stream stood still", fr.Type)
	}
	if len(d.progress) != marks {
		t.Errorf("%d marks more", len(d.progress)-marks)
	}
}

// TestProgressAfterMatches: a match and then a stretch without, told when the stream is idle already.
func TestProgressAfterMatches(t *testing.T) {
	f := start(t, func(s *setup) { s.options.Progress = 20 * time.Millisecond })
	p := f.connect()
	d := p.read(1, wire.Subscribe{Filters: []string{"a"}})
	f.publish(message{"a", "x"}, message{"b", "x"}, message{"b", "x"})
	p.follow(func() bool { return d.mark == 3 }, d)
	if len(d.messages) != 1 {
		t.Errorf("%d messages", len(d.messages))
	}
}

// TestResumeAtEveryMark: stop at each mark, resume after it, under writes. Nothing is missing, nothing comes twice, and the
// chain of previous seqs goes through.
func TestResumeAtEveryMark(t *testing.T) { inTipAndHistory(t, resumeAtEveryMark) }

func resumeAtEveryMark(t *testing.T, place func(*setup)) {
	f := start(t, place, func(s *setup) { s.options.Progress = time.Millisecond; s.options.Quantum = 512 })
	var m model
	var read atomic.Uint64
	ahead, quiet := uint64(10_000), 10 // no more ahead: the ring must not pass a reader that is slow to come back
	if f.broker.Stream().HistoryStatus() != nil {
		ahead, quiet = 60_000, 0 // the ring has long passed it; stretches without a match: TestProgressThroughHistory
	}
	w := f.write(&m, func(i int) []message {
		for f.head() > read.Load()+ahead {
			time.Sleep(time.Millisecond)
		}
		list := []message{{"noise", "x"}, {"noise", "y"}}
		if i%20 < 2 {
			list = append(list, message{topicName("rare", i%3), fmt.Sprint(i)})
		}
		return list
	})
	eventually(t, "the stream to be long", func() bool { return f.head() > ahead-ahead/4 })
	filters := []string{"rare/**"}
	var got []delivered
	mark, prev, byProgress := uint64(0), uint64(0), 0
	for session := uint32(1); session <= 100 || byProgress < quiet || len(got) < 100; session++ {
		p := f.connect()
		p.subscribe(session, wire.Subscribe{Filters: filters, Start: wire.StartSeq, Value: mark + 1, Prev: prev})
		p.expectSubscribed(session)
		d := &feed{id: session, prev: prev, mark: mark}
		p.follow(func() bool { return d.mark > mark }, d)
		byProgress += len(d.progress)
		mark, prev = d.mark, d.prev
		got = append(got, d.messages...)
		read.Store(mark)
		p.nc.Close()
	}
	read.Store(math.MaxUint64 / 2)
	w.end()
	equal(t, got, m.matches(t, filters, 0, mark))
	f.wantHistory()
}

// TestBurstOnTinyCredit: a client that grants little at a time gets everything, and the chain holds.
func TestBurstOnTinyCredit(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"burst/**"}, Credit: 1})
	p.expectSubscribed(1)
	var m model
	for i := range 50 {
		list := make([]message, 20)
		for j := range list {
			list[j] = message{topicName("burst", j%5), fmt.Sprint(i, j)}
		}
		m.add(f.publish(list...), list)
	}
	d := &feed{id: 1}
	for len(d.messages) < 1000 {
		seen := len(d.messages)
		p.follow(func() bool { return len(d.messages) > seen }, d)
		p.send(wire.AppendCredit(nil, 1, 300))
	}
	equal(t, d.messages, m.matches(t, []string{"burst/**"}, 0, 1000))
}
