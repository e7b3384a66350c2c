package transport_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
)

// stuckDisk is history on a disk whose reads can be made to stand still.
type stuckDisk struct {
	*vfs.Mem
	stuck   atomic.Bool
	waiting atomic.Int32  // reads that stand still
	release chan struct{} // closed: they go on
	free    func()        // closes release
}

func newStuckDisk() *stuckDisk {
	d := &stuckDisk{Mem: vfs.NewMem(), release: make(chan struct{})}
	d.free = sync.OnceFunc(func() { d.stuck.Store(false); close(d.release) })
	d.SetHook(func(op vfs.Op, _ string) error {
		if d.stuck.Load() && (op == vfs.OpRead || op == vfs.OpOpen) {
			d.waiting.Add(1)
			<-d.release
		}
		return nil
	})
	return d
}

// TestStuckReadOfHistoryDelaysNobody: while a read of history does not return, everything else goes on: live delivery and new
// subscriptions of the same connection, other connections, applying for several turns of the ring, and archiving.
func TestStuckReadOfHistoryDelaysNobody(t *testing.T) {
	disk := newStuckDisk()
	f := start(t, overHistory, smallRing, func(s *setup) { s.stream.History.FS = disk; s.options.Quantum = 16 << 10 })
	t.Cleanup(disk.free) // before the server closes
	f.fill("cold/topic", 10_000, 1<<10)
	f.archived()
	p, other := f.connect(), f.connect()
	live, elsewhere := p.read(1, wire.Subscribe{Filters: []string{"live"}, Start: wire.StartNow}), other.read(1, wire.Subscribe{Filters: []string{"live"}, Start: wire.StartNow})
	disk.stuck.Store(true)
	cold, gone := &feed{id: 2}, &feed{id: 3}
	for _, d := range []*feed{cold, gone} { // one stands still, the other waits behind it
		p.subscribe(d.id, wire.Subscribe{Filters: []string{"cold/**"}})
		p.expectSubscribed(d.id)
	}
	eventually(t, "a read to stand still", func() bool { return disk.waiting.Load() > 0 })
	p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, gone.id))
	for i := range 5 {
		f.publish(message{"live", "x"})
		p.follow(func() bool { return len(live.messages) == i+1 }, live, cold, gone)
		other.follow(func() bool { return len(elsewhere.messages) == i+1 }, elsewhere)
		f.fill("busy/topic", 10_000, 1<<10) // it leaves the ring while these sleep
	}
	f.archived()
	late := &feed{id: 4}
	p.subscribe(late.id, wire.Subscribe{Filters: []string{"live"}, Start: wire.StartNow})
	p.follow(func() bool { return late.caughtUp == 1 }, live, cold, gone, late)
	f.publish(message{"live", "y"})
	p.follow(func() bool { return len(late.messages) == 1 }, live, cold, gone, late)
	if len(cold.messages) > 0 || cold.caughtUp > 0 || gone.ended != nil {
		t.Fatalf("%d cold messages: the disk did not stand still", len(cold.messages))
	}
	disk.free()
	p.follow(func() bool { return cold.caughtUp == 1 && gone.ended != nil }, live, cold, gone, late)
	if len(cold.messages) != 10_000 || gone.ended.Code != 0 || len(gone.messages) > 0 {
		t.Errorf("%d cold messages, %d after the end that was asked for, ended by %v", len(cold.messages), len(gone.messages), gone.ended)
	}
}

// TestCloseDuringReadOfHistory: connections that end in each way while history is read for them leave nothing behind.
func TestCloseDuringReadOfHistory(t *testing.T) {
	disk := newStuckDisk()
	f := start(t, overHistory, func(s *setup) { s.stream.History.FS = disk })
	t.Cleanup(disk.free)
	f.fill("cold/topic", 3000, 1<<10)
	f.archived()
	disk.stuck.Store(true)
	gone, leaving := f.connect(), f.connect()
	for id := range uint32(3) {
		for _, p := range []*peer{gone, leaving} {
			p.subscribe(id+1, wire.Subscribe{Filters: []string{"cold/**"}})
			p.expectSubscribed(id + 1)
		}
	}
	eventually(t, "a read to stand still", func() bool { return disk.waiting.Load() > 0 })
	gone.nc.Close()
	done := make(chan error, 1)
	go func() { done <- f.server.Shutdown(t.Context()) }()
	leaving.expect(wire.TGoodbye)
	disk.free()
	for ended := 0; ended < 3; {
		fr, err := leaving.next()
		if err != nil {
			t.Fatalf("%d of 3 subscriptions were ended: %v", ended, err)
		}
		if fr.Type == wire.TEnded {
			ended++
		}
	}
	leaving.nc.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// archived waits until all sealed windows are on disk.
func (f *fixture) archived() {
	f.t.Helper()
	eventually(f.t, "the windows to be archived", func() bool { return f.broker.Stream().HistoryStatus().PendingWindows == 0 })
}

// TestProgressThroughHistory: a subscription that goes through history where nothing matches is told again and again how far it is,
// never beyond a match, and can go on from any such place; it has caught up once.
func TestProgressThroughHistory(t *testing.T) {
	f := start(t, overHistory, func(s *setup) { s.options.Progress, s.window = time.Nanosecond, 10<<10 })
	var matches []uint64
	for i := range 600 { // each a window of its own
		f.fill("busy/topic", 10, 1000)
		if i%200 == 100 {
			matches = append(matches, f.publish(message{"rare/topic", "x"}))
		}
	}
	f.archived()
	head := f.head()
	for _, filter := range []string{"rare/topic", "rare/**", "never/**"} {
		p := f.connect()
		d := p.read(1, wire.Subscribe{Filters: []string{filter}})
		p.follow(func() bool { return d.mark == head }, d)
		want := len(matches)
		if strings.HasPrefix(filter, "never") {
			want = 0
		}
		if len(d.messages) != want || d.caughtUp != 1 || d.head != head || len(d.progress) < 2 {
			t.Errorf("%s: %d messages, caught up %d times, marks %v", filter, len(d.messages), d.caughtUp, d.progress)
		}
		for _, mark := range d.progress {
			again := p.read(2, wire.Subscribe{Filters: []string{filter}, Start: wire.StartSeq, Value: mark + 1})
			p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, 2))
			p.follow(func() bool { return again.ended != nil }, d, again)
			left := 0
			for _, m := range d.messages {
				if m.seq > mark {
					left++
				}
			}
			if len(again.messages) != left {
				t.Errorf("%s: %d messages behind mark %d, want %d", filter, len(again.messages), mark, left)
			}
		}
	}
}

// TestSlowClientFallsToHistoryAndReturns: a client that takes nothing while the ring turns over several times gets everything in order
// once it takes again, and what comes after that from the tip.
func TestSlowClientFallsToHistoryAndReturns(t *testing.T) {
	f := start(t, overHistory)
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"a/**"}, Credit: 1})
	p.expectSubscribed(1)
	d := &feed{id: 1}
	var want []delivered
	publish := func(n int) {
		for range n {
			payload := strings.Repeat("x", len(want)%3000)
			want = append(want, delivered{f.publish(message{"a/b", payload}), "a/b", payload})
			f.publish(message{"other", payload})
		}
	}
	past := func() uint64 { return f.broker.Stream().HistoryStatus().ReadMessages }
	for range 3 {
		publish(2000)
		before := past()
		p.send(wire.AppendCredit(nil, 1, 1<<30))
		p.follow(func() bool { return len(d.messages) == len(want) }, d)
		after := past()
		if after == before {
			t.Error("it did not read from history")
		}
		publish(1)
		p.follow(func() bool { return len(d.messages) == len(want) }, d)
		if past() != after {
			t.Error("it did not come back to the tip")
		}
		p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, 1))
		p.follow(func() bool { return d.ended != nil }, d)
		d.ended = nil
		p.subscribe(1, wire.Subscribe{Filters: []string{"a/**"}, Start: wire.StartSeq, Value: d.mark + 1, Prev: d.prev, Credit: 1})
		p.expectSubscribed(1)
	}
	equal(t, d.messages, want)
}
