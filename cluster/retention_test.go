package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// TestRetainable runs testdata/retention/*.txt. Commands:
//
//	windows           a stream: one line "NUMBER messages=N bytes=N time=N" each, dense; time is that of the newest message
//	generations       one line "FIRST LAST" each, of windows
//	retain [age=N] [bytes=N] [count=N] [now=N]   what may be dropped under these limits; now: the newest window's time if not given
func TestRetainable(t *testing.T) {
	datadriven.Walk(t, "testdata/retention", func(t *testing.T, path string) {
		var windows []fsm.Window
		var gs []fsm.Generation
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "windows":
				windows, gs = scanWindows(t, d.Input), nil
			case "generations":
				gs = nil
				for line := range strings.Lines(d.Input) {
					var g fsm.Generation
					if _, err := fmt.Sscan(line, &g.FirstWindow, &g.LastWindow); err != nil {
						t.Fatal(err)
					}
					gs = append(gs, g)
				}
			case "retain":
				c, now := keepAll, int64(0)
				if len(windows) > 0 {
					now = windows[len(windows)-1].LastTime
				}
				d.MaybeScanArgs(t, "age", &c.RetainAge)
				d.MaybeScanArgs(t, "bytes", &c.RetainBytes)
				d.MaybeScanArgs(t, "count", &c.RetainCount)
				d.MaybeScanArgs(t, "now", &now)
				if through := retainable(windows, gs, c, now); through > 0 {
					return fmt.Sprintf("drop through window %d\n", through)
				}
				return "drop nothing\n"
			}
			return ""
		})
	})
}

func scanWindows(t *testing.T, input string) (list []fsm.Window) {
	seq := uint64(1)
	for line := range strings.Lines(input) {
		var w fsm.Window
		var messages uint64
		if _, err := fmt.Sscanf(line, "%d messages=%d bytes=%d time=%d", &w.Number, &messages, &w.Bytes, &w.LastTime); err != nil {
			t.Fatal(err)
		}
		w.FirstSeq, w.LastSeq, w.FirstTime = seq, seq+messages-1, w.LastTime
		seq += messages
		list = append(list, w)
	}
	return list
}

// TestRetainableAgainstDefinition: the furthest window such that it and all before it may go by some limit.
func TestRetainableAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		draw := func(name string, most int) uint64 { return uint64(rapid.IntRange(0, most).Draw(r, name)) }
		first, seq, now := 1+draw("first window", 3), uint64(100), int64(1000)
		var windows []fsm.Window
		var gs []fsm.Generation
		for i := range draw("windows", 10) {
			now += int64(draw("time", 5))
			w := fsm.Window{Number: first + i, FirstSeq: seq, LastSeq: seq + draw("messages", 5), Bytes: 1 + draw("bytes", 5), LastTime: now}
			seq = w.LastSeq + 1
			windows = append(windows, w)
		}
		for next := first; next < first+uint64(len(windows)); {
			g := fsm.Generation{FirstWindow: next, LastWindow: min(next+draw("generation", 3), first+uint64(len(windows))-1)}
			gs, next = append(gs, g), g.LastWindow+1
		}
		gs = gs[:draw("generations", len(gs))]
		limit := func(name string) uint64 {
			return rapid.SampledFrom([]uint64{1, 2, 3, 5, 8, 13, 21, fsm.Unlimited}).Draw(r, name)
		}
		c := fsm.StreamConfig{RetainAge: int64(limit("age")), RetainBytes: limit("bytes"), RetainCount: limit("count")}
		now += int64(draw("later", 3))
		want := uint64(0)
		for i, w := range windows {
			if !mayGo(windows[i:], c, now) || i == len(windows)-1 {
				break
			}
			if !slices.ContainsFunc(gs, func(g fsm.Generation) bool { return g.FirstWindow <= w.Number && w.Number < g.LastWindow }) {
				want = w.Number
			}
		}
		if got := retainable(windows, gs, c, now); got != want {
			r.Fatalf("%d, want %d", got, want)
		}
	})
}

// mayGo: the first of these windows is beyond a limit.
func mayGo(windows []fsm.Window, c fsm.StreamConfig, now int64) bool {
	var bytes, count uint64
	for _, w := range windows[1:] {
		bytes += w.Bytes
		count += w.LastSeq - w.FirstSeq + 1
	}
	return now-windows[0].LastTime > c.RetainAge || bytes >= c.RetainBytes || count >= c.RetainCount
}

// TestMergeKeepsWithinRetention: merges stop at a part of what is retained, by each limit.
func TestMergeKeepsWithinRetention(t *testing.T) {
	var gs []fsm.Generation
	var windows []fsm.Window
	for i := range uint64(mergeFan) {
		gs = append(gs, fsm.Generation{Number: i + 1, FirstWindow: i + 1, LastWindow: i + 1, FirstSeq: 10*i + 1, LastSeq: 10*i + 10})
		windows = append(windows, fsm.Window{Number: i + 1, FirstSeq: 10*i + 1, LastSeq: 10*i + 10, Bytes: 100, FirstTime: int64(i), LastTime: int64(i + 1)})
	}
	for _, c := range []struct {
		limit func(c *fsm.StreamConfig, less uint64)
	}{
		{func(c *fsm.StreamConfig, less uint64) { c.RetainAge = int64(retainShare*mergeFan - less) }},
		{func(c *fsm.StreamConfig, less uint64) { c.RetainBytes = retainShare*mergeFan*100 - less }},
		{func(c *fsm.StreamConfig, less uint64) { c.RetainCount = retainShare*mergeFan*10 - less }},
	} {
		fits, small := keepAll, keepAll
		c.limit(&fits, 0)
		c.limit(&small, 1)
		if _, ok := mergeable(gs, windows, fits); !ok {
			t.Errorf("%+v: not merged", fits)
		}
		if w, ok := mergeable(gs, windows, small); ok {
			t.Errorf("%+v: merged %v", small, w)
		}
	}
}

// retainAny drops what a random limit says, if that is anything.
func (w *historyWorld) retainAny() bool {
	m := w.s.Machine()
	c := keepAll
	switch n := rapid.Uint64Range(0, 5000).Draw(w.r, "limit"); rapid.IntRange(0, 2).Draw(w.r, "by") {
	case 0:
		c.RetainAge = int64(n / 50)
	case 1:
		c.RetainBytes = n + 1
	default:
		c.RetainCount = n/20 + 1
	}
	through := retainable(m.Windows(), m.Generations(), c, m.LastTime())
	if through == 0 {
		return false
	}
	last, _ := m.Window(through)
	if err := w.command(w.now, record.KindRetain, fsm.RetainBody(through)); err != nil {
		w.r.Fatal(err)
	}
	if first, _ := w.s.Bounds(); first != last.LastSeq+1 || m.FirstSeq() != first {
		w.r.Fatalf("dropped up to seq %d, but the oldest is %d, of the log %d", last.LastSeq, first, m.FirstSeq())
	}
	return true
}

// checkRetained holds point reads around the oldest seq against a scan.
func (w *historyWorld) checkRetained() bool {
	if len(w.all) == 0 {
		return false
	}
	oldest, last := w.s.Bounds()
	seq := rapid.Uint64Range(1, last).Draw(w.r, "point")
	m, err := w.s.MessageAt(context.Background(), seq)
	if seq < oldest {
		if gone := new(tipstore.GoneError); !errors.As(err, &gone) || gone.Oldest != oldest {
			w.r.Fatalf("seq %d, oldest %d: %v", seq, oldest, err)
		}
		return true
	}
	if err != nil || m.Topic != w.all[seq-1].topic || m.Record.Seq() != seq {
		w.r.Fatalf("seq %d: %q, want %q: %v", seq, m.Topic, w.all[seq-1].topic, err)
	}
	fs := mustFilters(w.t, rapid.SampledFrom(readerFilters).Draw(w.r, "filter"))
	_, got, err := lastEach(w.s, LastQuery{Filters: fs, Seq: seq})
	want := lastOf(w.all, fs, seq)
	for name, at := range want {
		m, err := w.s.Last(context.Background(), name, seq)
		if at < oldest {
			if delete(want, name); !errors.Is(err, ErrNoMessage) && !isGone(err) {
				w.r.Fatalf("last of %q at %d, oldest %d: %v", name, seq, oldest, err)
			}
		} else if err != nil || m.Record.Seq() != at {
			w.r.Fatalf("last of %q at %d, oldest %d: want %d: %v", name, seq, oldest, at, err)
		}
	}
	if err != nil || !maps.Equal(got, want) {
		w.r.Fatalf("last under %v at %d, oldest %d: %v, want %v: %v", fs, seq, oldest, got, want, err)
	}
	return true
}

// TestRetentionAgainstBruteForce: readers of history while its beginning is dropped, plans and merges made, writes fail, and nodes restart.
// A reader gets exactly what a scan says, or the oldest seq retained if what it needs is not; never anything else.
func TestRetentionAgainstBruteForce(t *testing.T) {
	dropped := 0
	rapid.Check(t, func(r *rapid.T) {
		w := newHistoryWorld(t, r, 1, 2000, 9000)
		w.live(step{4, w.retainAny}, step{1, always(w.restart)}, step{4, w.checkRetained})
		w.finish()
		if w.s.Machine().FirstSeq() > 1 {
			dropped++
		}
	})
	if !testing.Short() && dropped == 0 { // the few random cases of a short run may all be small
		t.Error("nothing was ever dropped: the test shows nothing")
	}
}

// TestRetentionPassesALaggingArchiver: windows that go before they were archived leave a hole behind which history begins anew.
func TestRetentionPassesALaggingArchiver(t *testing.T) {
	fs := vfs.NewMem()
	f := historyFeeder(t, fs)
	defer f.close(t)
	if err := f.windows(1); err != nil {
		t.Fatal(err)
	}
	publish := func() {
		if err := f.publish(1, nil, "a/b"); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		publish()
	}
	f.settled(t)
	fs.SetHook(func(op vfs.Op, _ string) error {
		if op == vfs.OpWrite {
			return errors.New("no space left on device, says the test")
		}
		return nil
	})
	for range 4 {
		publish()
	}
	if err := f.command(1, record.KindRetain, fsm.RetainBody(5)); err != nil {
		t.Fatal(err)
	}
	if _, err := f.s.OpenReader(ReaderOptions{Filters: mustFilters(t, "**"), Start: wire.StartSeq, Value: 5}); !isGone(err) {
		t.Fatalf("what is not retained was served: %v", err)
	}
	fs.SetHook(nil)
	f.retained(t)
	if first, last := f.s.history.store.Windows(); first != 6 || last != 7 {
		t.Errorf("history has windows %d to %d, want 6 to 7", first, last)
	}
}
