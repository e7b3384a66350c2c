package cluster

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// TestStamp: whatever clocks say, time does not go back and does not stand still, and comes down to a clock that it is ahead of.
func TestStamp(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		now, clock, applied := time.Now(), int64(1e18), int64(0)
		var s stamp
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "step") {
			case 0: // the clock is set
				clock += rapid.Int64Range(-1e15, 1e15).Draw(r, "by")
			case 1: // another node leads, and this one again
				applied = max(applied, s.last) + rapid.Int64Range(0, 1e15).Draw(r, "ahead")
			case 2: // another process
				s = stamp{}
			}
			elapsed := rapid.Int64Range(0, 1e12).Draw(r, "elapsed")
			now, clock = now.Add(time.Duration(elapsed)), clock+elapsed
			before, again := applied, s.last > 0 && s.last >= applied
			s.next(clock, applied, now)
			if s.last < before || s.last < clock || again && s.last < before+elapsed/2 {
				r.Fatalf("time %d after %d, %d later; the clock says %d", s.last, before, elapsed, clock)
			}
			applied = s.last
		}
		ahead := s.last - clock
		s.next(clock+2*ahead, applied, now.Add(time.Duration(2*ahead)))
		if want := max(clock+2*ahead, applied); s.last != want {
			r.Fatalf("%d beyond a clock that it was %d ahead of", s.last-want, ahead)
		}
	})
}

// timed is a message's place and time.
type timed struct {
	seq  uint64
	time int64
}

// TestClockGoesBack: the clocks of one leader after the other are hours apart, either way. Times of messages do not go back, windows still
// end by age, and a start at any time, or so long ago, finds the first message that is not before it, in the tip and in history.
func TestClockGoesBack(t *testing.T) {
	const step, age = 10 * time.Second, int64(time.Minute)
	f := historyFeeder(t, vfs.NewMem())
	defer f.close(t)
	c := fsm.StreamConfig{ProducerLease: 1, WindowAge: age}
	if err := f.command(1, record.KindConfig, fsm.ConfigBody(c)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for leader, skew := range []time.Duration{0, 3 * time.Hour, -time.Hour, 0, -2 * time.Hour, time.Hour} {
		var s stamp
		windows := newestWindow(f.s.Machine())
		for range 40 {
			now = now.Add(step)
			s.next(now.Add(skew).UnixNano(), f.s.Machine().LastTime(), now)
			if err := f.publish(s.last, make([]byte, 200), "a/b", "c/d"); err != nil {
				t.Fatal(err)
			}
		}
		// Two times the age, and a step: more a window does not take, though time goes at half its pace.
		least := uint64(40 * int64(step) / (2*age + int64(step)))
		if n := newestWindow(f.s.Machine()) - windows; n < least {
			t.Errorf("leader %d, its clock %v off: %d windows in %v, want %d", leader, skew, n, 40*step, least)
		}
	}
	f.settled(t)
	all := f.times(t)
	if len(all) != 6*40*2 || !slices.IsSortedFunc(all, func(a, b timed) int { return int(max(-1, min(1, a.time-b.time))) }) {
		t.Fatalf("times of %d messages go back", len(all))
	}
	newest := all[len(all)-1].time
	for _, m := range all {
		for _, at := range []int64{m.time - 1, m.time, m.time + 1} {
			want := slices.IndexFunc(all, func(m timed) bool { return m.time >= at }) + 1
			for _, o := range []ReaderOptions{{Start: wire.StartTime, Value: uint64(at)}, {Start: wire.StartAgo, Value: uint64(max(0, newest-at))}} {
				if o.Start == wire.StartAgo && at > newest {
					continue
				}
				o.Filters = mustFilters(t, "**")
				r, err := f.s.OpenReader(o)
				if err != nil {
					t.Fatal(err)
				}
				if want == 0 {
					want = len(all) + 1
				}
				if r.Next() != uint64(want) {
					t.Fatalf("start %v at %d: seq %d, want %d", o.Start, at, r.Next(), want)
				}
				r.Close()
			}
		}
	}
}

// times reads everything.
func (f *feeder) times(t *testing.T) (all []timed) {
	r, err := f.s.OpenReader(ReaderOptions{Filters: mustFilters(t, "**"), Start: wire.StartFirst})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var v tipstore.View
	defer func() { v.Release() }()
	for r.Position() < r.Head() {
		if err := r.Read(&v, tipstore.Limit{}); err != nil {
			t.Fatal(err)
		}
		for _, run := range v.Parts {
			for ; len(run) > 0; run = run[record.Scan(run):] {
				all = append(all, timed{record.First(run).Seq(), record.First(run).Time()})
			}
		}
	}
	if s := r.Sources(); s.History == 0 {
		t.Error("nothing came from history: the test shows nothing")
	}
	return all
}

// TestEntryBehindItsTime: an entry whose time is before that of the one before, as of a leader that does not know it, counts as of
// the same time, on every node.
func TestEntryBehindItsTime(t *testing.T) {
	f := newFeeder(t, smallTip)
	for _, at := range []int64{100, 50, 99, 101, 1} {
		if err := f.publish(at, nil, "a/b"); err != nil {
			t.Fatal(err)
		}
	}
	for seq, want := range []uint64{1, 4} {
		if got := f.s.Tip().SeqAtTime([]int64{51, 101}[seq]); got != want {
			t.Errorf("seq %d, want %d", got, want)
		}
	}
	if m := f.s.Machine(); m.LastTime() != 101 || m.LastMessageTime() != 101 {
		t.Errorf("time %d, of the last message %d", m.LastTime(), m.LastMessageTime())
	}
	f.close(t)
}
