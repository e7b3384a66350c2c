package check

import (
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// Defaults of history.Bounds.
const (
	DefaultAvailable = 15 * time.Second
	DefaultStuck     = 20 * time.Second
)

// span is a stretch of time, From <= t < To.
type span struct {
	from, to time.Duration
	line     int // of the event that began it
}

// attempt is an operation that would show that the cluster serves.
type attempt struct {
	invoke, ret time.Duration
	line        int
	ok          bool
}

// timeline is the run's times: when the cluster owed service, when nothing disturbed it, and when it served.
type timeline struct {
	bounds   history.Bounds
	end      time.Duration // the latest time in the history
	attempts []attempt     // by ret until seal, then by invoke
	acks     []time.Duration
	faults   []faultAt
	quorum   spans
	calm     spans

	active map[int]bool // faults that are states
	absent map[string]bool
}

type faultAt struct {
	name string
	at   time.Duration
	line int
}

func newTimeline(b history.Bounds) timeline {
	if b.Available <= 0 {
		b.Available = DefaultAvailable
	}
	if b.Stuck <= 0 {
		b.Stuck = DefaultStuck
	}
	return timeline{bounds: b, active: map[int]bool{}, absent: map[string]bool{}}
}

// spans are disjoint, in order.
type spans struct {
	list []span
	open bool // the last one has no end yet
}

// set begins or ends a span.
func (s *spans) set(on bool, at time.Duration, line int) {
	if on == s.open {
		return
	}
	if on {
		s.list = append(s.list, span{from: at, line: line})
	} else {
		s.list[len(s.list)-1].to = at
	}
	s.open = on
}

// at returns the span that holds a time, or the first one after it.
func (s *spans) at(t time.Duration) (span, bool) {
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].to > t })
	if i == len(s.list) {
		return span{}, false
	}
	return s.list[i], true
}

func (l *timeline) observe(line int, e history.Event) {
	switch e := e.(type) {
	case *history.Publish:
		l.attempt(attempt{e.Invoke, e.Return, line, e.Outcome == history.OK})
	case *history.Probe:
		l.attempt(attempt{e.Invoke, e.Return, line, e.Outcome == history.OK})
	case *history.Quorum:
		l.reach(e.At)
		l.quorum.set(e.Up, e.At, line)
		l.settle(e.At, line)
	case *history.Fault:
		l.reach(e.At)
		l.faults = append(l.faults, faultAt{faultName(e), e.At, line})
		if !e.Momentary {
			l.active[e.ID] = true
		}
		l.disturb(e.At, line)
	case *history.FaultEnd:
		l.reach(e.At)
		delete(l.active, e.ID)
		l.settle(e.At, line)
	case *history.NodeChanged:
		l.reach(e.At)
		if e.State == history.NodeUp {
			delete(l.absent, e.Node)
		} else {
			l.absent[e.Node] = true
		}
		l.settle(e.At, line)
	case *history.Delivery:
		l.reach(e.At)
	case *history.End:
		l.reach(e.At)
	}
}

func (l *timeline) reach(at time.Duration) { l.end = max(l.end, at) }

func (l *timeline) attempt(a attempt) {
	l.reach(a.ret)
	l.attempts = append(l.attempts, a)
	if a.ok {
		l.acks = append(l.acks, a.ret)
	}
}

// settle begins or ends calm, as what is in force says.
func (l *timeline) settle(at time.Duration, line int) {
	l.calm.set(l.quorum.open && len(l.active) == 0 && len(l.absent) == 0, at, line)
}

// disturb interrupts calm: even a momentary fault does.
func (l *timeline) disturb(at time.Duration, line int) {
	l.calm.set(false, at, line)
	l.settle(at, line)
}

func (l *timeline) seal() {
	l.quorum.set(false, l.end, 0)
	l.calm.set(false, l.end, 0)
	slices.Sort(l.acks)
	slices.SortStableFunc(l.attempts, func(a, b attempt) int { return int(a.invoke - b.invoke) })
}

// nextAck is the first ack at or after a time.
func (l *timeline) nextAck(t time.Duration) (time.Duration, bool) {
	i, _ := slices.BinarySearch(l.acks, t)
	if i == len(l.acks) {
		return 0, false
	}
	return l.acks[i], true
}

// recovery makes the table of how long faults kept the cluster from service.
func (l *timeline) recovery() (table []Recovery) {
	first := l.firstAcks()
	took := map[string][]time.Duration{} // negative: never
	for _, f := range l.faults {
		from := f.at
		if q, ok := l.quorum.at(f.at); ok {
			from = max(from, q.from)
		}
		i := sort.Search(len(l.attempts), func(i int) bool { return l.attempts[i].invoke >= from })
		if i == len(l.attempts) || first[i] < 0 {
			took[f.name] = append(took[f.name], -1)
			continue
		}
		took[f.name] = append(took[f.name], first[i]-from)
	}
	for name, list := range took {
		slices.Sort(list)
		never := sort.Search(len(list), func(i int) bool { return list[i] >= 0 })
		r := Recovery{Fault: name, Count: len(list), Never: never}
		if back := list[never:]; len(back) > 0 {
			r.Median, r.Worst = back[len(back)/2], back[len(back)-1]
		}
		table = append(table, r)
	}
	slices.SortFunc(table, func(a, b Recovery) int { return strings.Compare(a.Fault, b.Fault) })
	return table
}

// firstAcks gives, for each attempt, the earliest ack among it and all that were invoked later; -1 for none.
func (l *timeline) firstAcks() []time.Duration {
	first := make([]time.Duration, len(l.attempts))
	best := time.Duration(-1)
	for i := len(l.attempts) - 1; i >= 0; i-- {
		if a := l.attempts[i]; a.ok && (best < 0 || a.ret < best) {
			best = a.ret
		}
		first[i] = best
	}
	return first
}
