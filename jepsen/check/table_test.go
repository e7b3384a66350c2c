package check

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/jepsen/history"
)

const sec = time.Second

// The events of small histories, with what matters as arguments.

func pub(id, seq uint64, topic string, at time.Duration) *history.Publish {
	return &history.Publish{Messages: []history.Sent{{ID: id, Topic: topic}}, Outcome: history.OK, FirstSeq: seq, Invoke: at, Return: at + sec/10}
}

func fate(o history.Outcome, p *history.Publish) *history.Publish {
	p.Outcome, p.FirstSeq = o, 0
	return p
}

func open(r int, base uint64, filters ...string) *history.ReaderOpened {
	return &history.ReaderOpened{Reader: r, Base: base, Filters: filters, Start: history.StartSeq}
}

func dlv(r int, seq, id uint64, topic string, at time.Duration) *history.Delivery {
	return &history.Delivery{At: at, Reader: r, Seq: seq, ID: id, Topic: topic}
}

func end(at time.Duration) *history.End { return &history.End{At: at} }

// table is small histories: the broken one of each kind, and neighbours that look like it and are good.
var table = []struct {
	name  string
	bad   []Name // none: good
	notes int
	list  []history.Event
}{
	{name: "empty", list: nil},
	{name: "acked and nobody read", notes: 1, list: []history.Event{pub(1, 1, "a", 0), end(sec)}},
	{name: "acked and the reader stopped before it", notes: 1, list: []history.Event{
		pub(1, 1, "a", 0), pub(2, 2, "a", sec), open(0, 0, "**"), dlv(0, 1, 1, "a", sec), &history.ReaderEnded{Reader: 0, Position: 1}, end(2 * sec)}},
	{name: "acked and passed without a delivery", bad: []Name{Lost}, list: []history.Event{
		pub(1, 1, "a", 0), pub(2, 2, "a", sec), open(0, 0, "**"), dlv(0, 2, 2, "a", 2*sec), end(2 * sec)}},
	{name: "acked, and only a mark passed", bad: []Name{Lost}, list: []history.Event{
		pub(1, 1, "a", 0), open(0, 0, "a"), &history.Progress{Reader: 0, Seq: 1}, end(2 * sec)}},
	{name: "acked, and only a reader of something else passed", notes: 1, list: []history.Event{
		pub(1, 1, "a", 0), open(0, 0, "b/**"), &history.Progress{Reader: 0, Seq: 1}, end(2 * sec)}},
	{name: "acked as a duplicate without its place, and nowhere", bad: []Name{Lost}, list: []history.Event{
		&history.Publish{Messages: []history.Sent{{ID: 1, Topic: "a"}}, Outcome: history.OK, Duplicate: true}, pub(2, 1, "a", 0),
		open(0, 0, "a"), dlv(0, 1, 2, "a", sec), end(2 * sec)}},
	{name: "acked as a duplicate without its place", list: []history.Event{
		&history.Publish{Messages: []history.Sent{{ID: 1, Topic: "a"}}, Outcome: history.OK, Duplicate: true},
		open(0, 0, "a"), dlv(0, 1, 1, "a", sec), end(2 * sec)}},
	{name: "one message at two seqs", bad: []Name{Twice}, list: []history.Event{
		pub(1, 1, "a", 0), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), dlv(0, 2, 1, "a", sec), end(sec)}},
	{name: "again after a resume", bad: []Name{Twice}, list: []history.Event{
		pub(1, 1, "a", 0), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), &history.ReaderResumed{Reader: 0, After: 1}, dlv(0, 1, 1, "a", sec), end(sec)}},
	{name: "again for another reader", list: []history.Event{
		pub(1, 1, "a", 0), open(0, 0, "**"), open(1, 0, "**"), dlv(0, 1, 1, "a", 0), dlv(1, 1, 1, "a", sec), end(sec)}},
	{name: "unknown and published", list: []history.Event{fate(history.Unknown, pub(1, 0, "a", 0)), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), end(sec)}},
	{name: "unknown and not published", list: []history.Event{fate(history.Unknown, pub(1, 0, "a", 0)), open(0, 0, "**"), end(sec)}},
	{name: "refused and not published", list: []history.Event{fate(history.Refused, pub(1, 0, "a", 0)), open(0, 0, "**"), end(sec)}},
	{name: "refused and published", bad: []Name{Refused}, list: []history.Event{fate(history.Refused, pub(1, 0, "a", 0)), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), end(sec)}},
	{name: "published by nobody", bad: []Name{Phantom}, list: []history.Event{open(0, 0, "**"), dlv(0, 1, 9, "a", 0), end(sec)}},
	{name: "published by nobody whose record was finished", list: []history.Event{open(0, 0, "**"), dlv(0, 1, 9, "a", 0)}},
	{name: "under another topic", bad: []Name{Phantom}, list: []history.Event{fate(history.Unknown, pub(1, 0, "a", 0)), open(0, 0, "**"), dlv(0, 1, 1, "b", 0), end(sec)}},
	{name: "a hole", bad: []Name{Dense}, list: []history.Event{pub(1, 1, "a", 0), pub(2, 4, "a", sec), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), dlv(0, 4, 2, "a", sec), end(sec)}},
	{name: "a hole that no reader of everything passed", list: []history.Event{pub(1, 1, "a", 0), pub(2, 4, "a", sec), open(0, 0, "a"), dlv(0, 1, 1, "a", 0), dlv(0, 4, 2, "a", sec), end(sec)}},
	{name: "a position far beyond anything", bad: []Name{Dense}, list: []history.Event{
		pub(1, 1, "a", 0), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), &history.Progress{Reader: 0, Seq: 1 << 60}, end(sec)}},
	{name: "a point read and a reader that disagree", bad: []Name{Disagree}, list: []history.Event{
		pub(1, 1, "a", 0), pub(2, 2, "a", sec), open(0, 0, "**"), dlv(0, 1, 1, "a", 0), dlv(0, 2, 2, "a", sec),
		&history.Read{Op: history.ReadAt, Seq: 2, Outcome: history.OK, Found: []history.Found{{Seq: 2, Topic: "a", ID: 1}}}, end(sec)}},
	{name: "another seq than asked for", bad: []Name{Stale}, list: []history.Event{
		pub(1, 1, "a", 0), &history.Read{Op: history.ReadAt, Seq: 2, Outcome: history.OK, Found: []history.Found{{Seq: 1, Topic: "a", ID: 1}}}, end(sec)}},
	{name: "concurrent publishes in any order", list: []history.Event{pub(1, 2, "a", 0), pub(2, 1, "a", sec/20), end(sec)}, notes: 1},
	{name: "publishes one after the other, turned around", bad: []Name{RealTime}, list: []history.Event{pub(1, 2, "a", 0), pub(2, 1, "a", sec), end(sec)}, notes: 1},
	{name: "a linearizable read beside the publish", notes: 1, list: []history.Event{
		pub(1, 1, "a", 0), &history.Read{Op: history.ReadLast, Topic: "a", Lin: true, Invoke: sec / 20, Return: sec, Outcome: history.OK}, end(sec)}},
	{name: "a linearizable read after the publish", bad: []Name{Stale}, notes: 1, list: []history.Event{
		pub(1, 1, "a", 0), &history.Read{Op: history.ReadLast, Topic: "a", Lin: true, Invoke: sec, Return: sec, Outcome: history.OK}, end(sec)}},
	{name: "a plain read after the publish", notes: 1, list: []history.Event{
		pub(1, 1, "a", 0), &history.Read{Op: history.ReadLast, Topic: "a", Invoke: sec, Return: sec, Outcome: history.OK}, end(sec)}},
	{name: "a failed read says nothing", notes: 1, list: []history.Event{
		pub(1, 1, "a", 0), &history.Read{Op: history.ReadLast, Topic: "a", MinSeq: 1, Outcome: history.Refused}, end(sec)}},
	{name: "caught up with nothing to read", list: []history.Event{open(0, 0, "**"), &history.CaughtUp{Reader: 0}, end(sec)}},
	{name: "caught up below what a lowest seq demands", bad: []Name{CaughtUp}, list: []history.Event{
		pub(1, 1, "a", 0), &history.ReaderOpened{Reader: 0, Filters: []string{"**"}, MinSeq: 1}, &history.CaughtUp{Reader: 0}, dlv(0, 1, 1, "a", sec), end(sec)}},
	{name: "replicas compared at different seqs under way", list: []history.Event{
		&history.Verify{Nodes: []history.NodeDigests{{Node: "n1", Seq: 5, Digests: map[string]string{"m": "x"}}, {Node: "n2", Seq: 6, Digests: map[string]string{"m": "y"}}, {Node: "n3", Error: "down"}}}, end(sec)}},
	{name: "one replica differs from what it was", bad: []Name{Digests}, list: []history.Event{
		&history.Verify{Nodes: []history.NodeDigests{{Node: "n1", Seq: 5, Digests: map[string]string{"m": "x"}}}},
		&history.Verify{Nodes: []history.NodeDigests{{Node: "n1", Seq: 5, Digests: map[string]string{"m": "y"}}}}, end(sec)}},
}

func TestSmallHistories(t *testing.T) {
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			r := judge(t, &history.Memory{List: c.list})
			if got := r.Broken(); !slices.Equal(got, c.bad) || len(r.Notes) != c.notes {
				t.Errorf("broken %v, want %v; notes %v\n%s", got, c.bad, r.Notes, r.String())
			}
		})
	}
}

// attempts makes probes that begin one after another, each pending until the next.
func attempts(from, to, every time.Duration, o history.Outcome) (list []history.Event) {
	for t := from; t < to; t += every {
		list = append(list, &history.Probe{Invoke: t, Return: t + every, Outcome: o})
	}
	return list
}

func TestAvailability(t *testing.T) {
	up, down := func(at time.Duration) history.Event { return &history.Quorum{At: at, Up: true} }, func(at time.Duration) history.Event { return &history.Quorum{At: at} }
	for _, c := range []struct {
		name string
		bad  int
		list []history.Event
	}{
		{"acks all along", 0, append(attempts(0, 60*sec, sec, history.OK), up(0), end(60*sec))},
		{"silence without a majority", 0, append(attempts(0, 60*sec, sec, history.Unknown), up(0), down(5*sec), end(60*sec))},
		{"silence before the first majority", 0, append(attempts(0, 60*sec, sec, history.Unknown), up(50*sec), end(60*sec))},
		{"silence with a majority", 1, append(attempts(0, 60*sec, sec, history.Unknown), up(0), end(60*sec))},
		{"refusals are no acks", 1, append(attempts(0, 60*sec, sec, history.Refused), up(0), end(60*sec))},
		{"one attempt that hangs", 1, append(attempts(0, 30*sec, 30*sec, history.Unknown), up(0), end(60*sec))},
		{"one attempt that is acked late", 1, append(attempts(0, 30*sec, 30*sec, history.OK), up(0), end(60*sec))},
		{"nobody tries", 0, append(attempts(0, sec, sec, history.Refused), up(0), end(60*sec))},
		{"hardly anybody tries", 0, append(attempts(0, sec, sec, history.Refused), up(0), &history.Probe{Invoke: 30 * sec, Return: 31 * sec}, end(60*sec))},
		{"others are acked", 0, append(append(attempts(0, 60*sec, 30*sec, history.Unknown), attempts(0, 60*sec, sec, history.OK)...), up(0), end(60*sec))},
		{"silence in two majorities", 2, append(attempts(0, 60*sec, sec, history.Unknown), up(0), down(20*sec), up(25*sec), end(60*sec))},
		{"two majorities too short to blame", 0, append(attempts(0, 20*sec, sec, history.Unknown), up(0), down(10*sec), up(10*sec+1), end(20*sec))},
	} {
		r := judge(t, &history.Memory{List: c.list})
		if got := verdictOf(&r, Availability).Violations; got != uint64(c.bad) || len(r.Broken()) > 1 {
			t.Errorf("%s: %d violations, want %d\n%s", c.name, got, c.bad, r.String())
		}
	}
}

func verdictOf(r *Report, name Name) *Verdict {
	i := slices.IndexFunc(r.Checks, func(v Verdict) bool { return v.Name == name })
	return &r.Checks[i]
}

func TestStuckReaders(t *testing.T) {
	up := &history.Quorum{At: 0, Up: true}
	one, two := pub(1, 1, "a", 0), pub(2, 2, "a", sec)
	for _, c := range []struct {
		name string
		bad  bool
		list []history.Event
	}{
		{"nothing to read", false, []history.Event{up, one, open(0, 0, "a"), dlv(0, 1, 1, "a", sec), end(60 * sec)}},
		{"something to read, at the end", true, []history.Event{up, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec), end(60 * sec)}},
		{"not for this reader", false, []history.Event{up, one, two, open(0, 0, "b"), end(60 * sec)}},
		{"late", true, []history.Event{up, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec), dlv(0, 2, 2, "a", 40*sec), end(60 * sec)}},
		{"late by intent", false, []history.Event{up, one, two, &history.ReaderOpened{Reader: 0, Filters: []string{"a"}, Patience: 30 * sec},
			dlv(0, 1, 1, "a", sec), dlv(0, 2, 2, "a", 40*sec), end(60 * sec)}},
		{"late with a fault in force", false, []history.Event{up, &history.Fault{At: sec, ID: 1, Name: "cut"}, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec),
			&history.FaultEnd{At: 30 * sec, ID: 1}, dlv(0, 2, 2, "a", 40*sec), end(60 * sec)}},
		{"late with a node away", false, []history.Event{up, &history.NodeChanged{At: sec, Node: "n1", State: history.NodeDown}, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec),
			&history.NodeChanged{At: 30 * sec, Node: "n1", State: history.NodeUp}, dlv(0, 2, 2, "a", 40*sec), end(60 * sec)}},
		{"late after the fault", true, []history.Event{up, &history.Fault{At: sec, ID: 1, Name: "cut"}, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec),
			&history.FaultEnd{At: 10 * sec, ID: 1}, dlv(0, 2, 2, "a", 40*sec), end(60 * sec)}},
		{"closed by the harness", false, []history.Event{up, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec), &history.ReaderEnded{At: 2 * sec, Position: 1}, end(60 * sec)}},
		{"the run was cut short", false, []history.Event{up, one, two, open(0, 0, "a"), dlv(0, 1, 1, "a", sec)}},
	} {
		r := judge(t, &history.Memory{List: c.list})
		if got := verdictOf(&r, Stuck).Violations > 0; got != c.bad || len(r.Broken()) > 1 || !got && !r.OK() {
			t.Errorf("%s: stuck %v, want %v\n%s", c.name, got, c.bad, r.String())
		}
	}
}

func TestRecoveryTable(t *testing.T) {
	list := []history.Event{
		&history.Quorum{At: 0, Up: true},
		&history.Fault{At: 10 * sec, ID: 1, Name: "kill", Aim: "leader", Momentary: true}, // back after 3 s: the publish before does not count
		pub(1, 1, "a", 10*sec-1), pub(2, 2, "a", 13*sec),
		&history.Fault{At: 20 * sec, ID: 2, Name: "kill", Aim: "leader", Momentary: true}, // after 1 s
		pub(3, 3, "a", 21*sec),
		&history.Quorum{At: 30 * sec}, &history.Fault{At: 30 * sec, ID: 3, Name: "pause", Aim: "all"},
		&history.FaultEnd{At: 40 * sec, ID: 3}, &history.Quorum{At: 40 * sec, Up: true}, // 2 s after it could work again
		pub(4, 4, "a", 42*sec),
		&history.Fault{At: 50 * sec, ID: 4, Name: "pause", Aim: "all"},
		end(60 * sec),
	}
	r := judge(t, &history.Memory{List: list})
	got := fmt.Sprintf("%+v", r.Recovery)
	want := fmt.Sprintf("%+v", []Recovery{{"kill leader", 2, 3*sec + sec/10, 3*sec + sec/10, 0}, {"pause all", 2, 2*sec + sec/10, 2*sec + sec/10, 1}})
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, part := range []string{"kill leader", "3.1s", "pause all", "2.1s"} {
		if !strings.Contains(r.String(), part) {
			t.Errorf("no %q in\n%s", part, r.String())
		}
	}
}

func TestMalformedHistories(t *testing.T) {
	for name, list := range map[string][]history.Event{
		"an id twice":            {pub(1, 1, "a", 0), pub(1, 2, "a", sec)},
		"id 0":                   {pub(0, 1, "a", 0)},
		"a reader twice":         {open(0, 0, "a"), open(0, 0, "a")},
		"a reader not open":      {dlv(0, 1, 1, "a", 0)},
		"a reader that ended":    {open(0, 0, "a"), &history.ReaderEnded{}, dlv(0, 1, 1, "a", 0)},
		"a bad filter":           {open(0, 0, "a//b")},
		"a message without seq":  {open(0, 0, "a"), dlv(0, 0, 1, "a", 0)},
		"a read of a bad filter": {&history.Read{Op: history.ReadEach, Outcome: history.OK}},
	} {
		r, err := All(&history.Memory{List: list})
		if err != nil || len(r.Malformed) == 0 || r.OK() || !strings.Contains(r.String(), "MALFORMED") {
			t.Errorf("%s: %v, %v", name, r.Malformed, err)
		}
	}
}

// TestBits compares with a map.
func TestBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b bits
		want := map[uint64]bool{}
		for range rapid.IntRange(0, 200).Draw(t, "n") {
			i := rapid.OneOf(rapid.Uint64Range(0, 5000), rapid.Uint64()).Draw(t, "i")
			if b.has(i) != want[i] {
				t.Fatalf("has %d: %v", i, b.has(i))
			}
			b.add(i)
			want[i] = true
			if !b.has(i) {
				t.Fatalf("lost %d", i)
			}
		}
	})
}
