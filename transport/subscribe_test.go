package transport_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

func TestCaughtUpOnAnEmptyStream(t *testing.T) {
	f := start(t)
	p := f.connect()
	for id, s := range []wire.Subscribe{{Start: wire.StartFirst}, {Start: wire.StartNow}, {Start: wire.StartSeq, Value: 1}} {
		s.Filters = []string{"**"}
		d := p.read(uint32(id+1), s)
		if d.head != 0 || len(d.messages) != 0 {
			t.Errorf("start %v: caught up at %d with %d messages", s.Start, d.head, len(d.messages))
		}
	}
}

func TestCaughtUpNeedsNoCreditWhenNothingCanMatch(t *testing.T) {
	f := start(t)
	f.publish(message{"a/b", "x"})
	p := f.connect()
	p.send(wire.AppendSubscribe(nil, 1, &wire.Subscribe{Filters: []string{"**"}, Start: wire.StartNow}))
	if s := p.expectSubscribed(1); s.Next != 2 || s.Head != 1 || s.Oldest != 1 {
		t.Errorf("subscribed: %+v", s)
	}
	p.expect(wire.TCaughtUp)
}

func TestLiveDelivery(t *testing.T) {
	f := start(t)
	p := f.connect()
	feeds := []*feed{p.read(1, wire.Subscribe{Filters: []string{"a/**"}}), p.read(2, wire.Subscribe{Filters: []string{"a/1"}})}
	for i := range 50 {
		f.publish(message{topicName("a", i%3), fmt.Sprint(i)}, message{"b", "foreign"})
	}
	p.follow(func() bool { return len(feeds[0].messages) == 50 && len(feeds[1].messages) == 17 }, feeds...)
	for i, m := range feeds[0].messages {
		if m.payload != fmt.Sprint(i) || m.topic != topicName("a", i%3) {
			t.Fatalf("message %d: %+v", i, m)
		}
	}
}

// TestSubscribeThenPublish: what a connection publishes after a subscription that starts now is seen by it.
func TestSubscribeThenPublish(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("a/b")
	frames := wire.AppendSubscribe(nil, 1, &wire.Subscribe{Filters: []string{"a/b"}, Start: wire.StartNow, Credit: 1 << 20})
	p.send(wire.AppendPublish(frames, 1, batch(t, "x")))
	d := &feed{id: 1}
	p.expectSubscribed(1)
	for len(d.messages) == 0 {
		fr, err := p.next()
		if err != nil {
			t.Fatal(err)
		}
		if fr.Type == wire.TAck {
			continue
		}
		if err := d.take(p, fr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCreditIsObeyed(t *testing.T) {
	const size, credit = 1000, 10_000
	f := start(t)
	f.fill("a/b", 100, size)
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"a/b"}, Credit: credit})
	p.expectSubscribed(1)
	d := &feed{id: 1}
	for len(d.messages) < 100 {
		// All that the credit is good for must come, and then nothing: a ping is answered with nothing in between.
		before := len(d.messages)
		p.follow(func() bool { return d.bytes >= credit || len(d.messages) == 100 }, d)
		if over := d.bytes - credit; over > size+100 {
			t.Fatalf("%d bytes came for a credit of %d", d.bytes, credit)
		}
		if before == len(d.messages) {
			t.Fatal("nothing came")
		}
		if len(d.messages) < 100 {
			p.send(wire.AppendEmpty(nil, wire.TPing, 1))
			p.expect(wire.TPong)
			p.send(wire.AppendCredit(nil, 1, uint64(d.bytes)))
			d.bytes = 0
		}
	}
	p.follow(func() bool { return d.caughtUp == 1 }, d)
}

func TestUnsubscribe(t *testing.T) {
	f := start(t)
	f.fill("a/b", 10, 10)
	p := f.connect()
	p.read(1, wire.Subscribe{Filters: []string{"a/b"}})
	p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, 1))
	p.expectError(wire.TEnded, 1, 0)
	f.publish(message{"a/b", "unseen"})
	p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, 1)) // it crossed the end: no matter
	p.send(wire.AppendCredit(nil, 1, 5))
	if d := p.read(1, wire.Subscribe{Filters: []string{"a/b"}}); len(d.messages) != 11 {
		t.Errorf("under the same id again: %d messages", len(d.messages))
	}
	eventually(t, "one subscription", func() bool { return f.metric("subscriptions") == 1 })
}

func TestRefusedSubscriptions(t *testing.T) {
	f := start(t, func(s *setup) { s.options.MaxSubscriptions = 2 })
	p := f.connect()
	many := make([]string, 1025)
	for i := range many {
		many[i] = topicName("t", i)
	}
	for _, c := range []struct {
		name    string
		filters []string
		code    wire.Code
		says    string
	}{
		{"star in the middle", []string{"a/*/b"}, wire.CodeBadFilter, "*"},
		{"stars in the middle", []string{"a/**/b"}, wire.CodeBadFilter, "*"},
		{"empty segment", []string{"ok/x", "a//b"}, wire.CodeBadFilter, "empty"},
		{"none", nil, wire.CodeBadFilter, "no filters"},
		{"too many", many, wire.CodeTooManyFilters, "limit"},
		{"too long", []string{strings.Repeat("x", 600)}, wire.CodeBadFilter, ""},
	} {
		p.subscribe(1, wire.Subscribe{Filters: c.filters})
		if e := p.expectError(wire.TEnded, 1, c.code); !strings.Contains(e.Message, c.says) {
			t.Errorf("%s: the error says %q", c.name, e.Message)
		}
	}
	p.read(1, wire.Subscribe{Filters: []string{"a"}})
	p.read(2, wire.Subscribe{Filters: []string{"a"}})
	p.subscribe(3, wire.Subscribe{Filters: []string{"a"}})
	if e := p.expectError(wire.TEnded, 3, wire.CodeTooManySubscriptions); e.Detail != 2 {
		t.Errorf("the limit is said to be %d", e.Detail)
	}
	if n := f.metric("subscriptions_ended_total", "bad_filter"); n != 5 {
		t.Errorf("%v bad filters were counted", n)
	}
}

func TestMinSeq(t *testing.T) {
	f := start(t)
	f.publish(message{"a", "1"})
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"**"}, MinSeq: 2, WaitMS: 1})
	if e := p.expectError(wire.TEnded, 1, wire.CodeNotYet); e.Detail != 1 {
		t.Errorf("applied is said to be %d", e.Detail)
	}
	p.subscribe(2, wire.Subscribe{Filters: []string{"**"}, MinSeq: 2, WaitMS: uint32(patience / time.Millisecond)})
	p.send(wire.AppendEmpty(nil, wire.TPing, 1)) // the connection does not wait with it
	p.expect(wire.TPong)
	f.publish(message{"a", "2"})
	if s := p.expectSubscribed(2); s.Head != 2 {
		t.Errorf("subscribed: %+v", s)
	}
	d := &feed{id: 2}
	p.follow(func() bool { return d.caughtUp == 1 }, d)
	if len(d.messages) != 2 {
		t.Errorf("%d messages", len(d.messages))
	}
	p.subscribe(3, wire.Subscribe{Filters: []string{"**"}, MinSeq: 99, WaitMS: math.MaxUint32})
	p.send(wire.AppendEmpty(nil, wire.TUnsubscribe, 3))
	p.expectError(wire.TEnded, 3, 0)
}

func TestGoneAtOpening(t *testing.T) {
	f := start(t, smallRing)
	f.fill("a/b", 1000, 20<<10)
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"a/b"}, Start: wire.StartSeq, Value: 1})
	oldest, _ := f.broker.Stream().Tip().Bounds()
	if e := p.expectError(wire.TEnded, 1, wire.CodeGone); e.Detail != oldest || oldest < 2 {
		t.Errorf("oldest is said to be %d, is %d", e.Detail, oldest)
	}
}

// TestSlowReaderFallsOff: one without credit is passed by the ring and told where the tip begins; one that is slow but keeps
// up loses nothing.
func TestSlowReaderFallsOff(t *testing.T) {
	f := start(t, smallRing)
	p := f.connect()
	f.publish(message{"a/b", "first"})
	p.subscribe(1, wire.Subscribe{Filters: []string{"a/b"}, Credit: 1})
	p.expectSubscribed(1)
	fallen := &feed{id: 1}
	p.follow(func() bool { return fallen.caughtUp == 1 }, fallen)
	slow := p.readLazily(t, 2, fallen)

	f.fill("a/b", 150, 20<<10) // 3 MB of 8: both have a backlog
	p.send(wire.AppendCredit(nil, 2, 4<<20))
	p.follow(func() bool { return len(slow.messages) == 151 }, slow, fallen)

	f.fill("a/c", 1000, 20<<10)
	f.publish(message{"a/b", "last"})
	p.follow(func() bool { return len(slow.messages) == 152 }, slow, fallen)
	p.send(wire.AppendCredit(nil, 1, 4<<20))
	p.follow(func() bool { return fallen.ended != nil }, slow, fallen)
	oldest, _ := f.broker.Stream().Tip().Bounds()
	if fallen.ended.Code != wire.CodeGone || fallen.ended.Detail != oldest {
		t.Errorf("ended: %v, detail %d; oldest is %d", fallen.ended, fallen.ended.Detail, oldest)
	}
	p.send(wire.AppendEmpty(nil, wire.TPing, 1)) // the connection lives on
	p.expect(wire.TPong)
}

// readLazily subscribes to a/b with credit for one message and takes that.
func (p *peer) readLazily(t *testing.T, id uint32, others ...*feed) *feed {
	t.Helper()
	p.subscribe(id, wire.Subscribe{Filters: []string{"a/b"}, Credit: 1})
	p.expectSubscribed(id)
	d := &feed{id: id}
	p.follow(func() bool { return d.caughtUp == 1 }, append(others, d)...)
	return d
}

// TestQuietSubscriptionOutlivesTheRing: nothing matches while the ring turns over faster than progress ticks; that is no
// loss, and the next match is delivered.
func TestQuietSubscriptionOutlivesTheRing(t *testing.T) {
	f := start(t, smallRing, func(s *setup) { s.options.Progress = time.Hour })
	p := f.connect()
	d := p.read(1, wire.Subscribe{Filters: []string{"quiet/**", "silent"}})
	for round := range 3 {
		f.fill("busy/topic", 1000, 20<<10)
		f.publish(message{"quiet/one", fmt.Sprint(round)})
		p.follow(func() bool { return len(d.messages) == round+1 || d.ended != nil }, d)
		if d.ended != nil {
			t.Fatalf("round %d: ended: %v", round, d.ended)
		}
	}
}

// TestColdDoesNotStarveLive: while one subscription catches up on all of the tip, another on the same connection gets its
// message before that is through.
func TestColdDoesNotStarveLive(t *testing.T) {
	f := start(t, func(s *setup) { s.options.Quantum = 16 << 10 })
	f.fill("cold/topic", 2000, 10<<10)
	p := f.connect()
	live := p.read(1, wire.Subscribe{Filters: []string{"live"}})
	p.subscribe(2, wire.Subscribe{Filters: []string{"cold/**"}})
	cold := &feed{id: 2}
	p.expectSubscribed(2)
	p.follow(func() bool { return len(cold.messages) > 0 }, live, cold)
	f.publish(message{"live", "x"})
	p.follow(func() bool { return len(live.messages) == 1 }, live, cold)
	if cold.caughtUp > 0 {
		t.Errorf("the live message came after all %d cold ones", len(cold.messages))
	}
	p.follow(func() bool { return cold.caughtUp == 1 }, live, cold)
	if len(cold.messages) != 2000 {
		t.Errorf("%d cold messages", len(cold.messages))
	}
}

func TestTopologyIsPushed(t *testing.T) {
	f := start(t)
	peers := []*peer{f.connect(), f.connect()}
	f.broker.SetLeader("node-2", 7)
	for _, p := range peers {
		for {
			p.nc.SetReadDeadline(time.Now().Add(patience))
			fr, err := p.r.Next()
			if err != nil {
				t.Fatal(err)
			}
			topology, err := wire.DecodeTopology(fr.Body)
			if fr.Type != wire.TTopology || err != nil {
				t.Fatalf("%v, %v", fr.Type, err)
			}
			if topology.LeaderID == "node-2" && topology.Term == 7 {
				break
			}
		}
	}
}

func TestLargeAndSmallPartsMix(t *testing.T) {
	f := start(t, func(s *setup) { s.options.CopyBelow = 1 << 10 })
	var want []delivered
	for i := range 200 {
		size := []int{3, 5000, 900, 70_000}[i%4]
		payload := strings.Repeat(string(rune('a'+i%26)), size)
		seq := f.publish(message{"a/b", payload})
		want = append(want, delivered{seq, "a/b", payload})
		f.publish(message{"z", "between"})
	}
	p := f.connect()
	equal(t, p.read(1, wire.Subscribe{Filters: []string{"a/b"}}).messages, want)
	if f.metric("data_copied_bytes_total") == 0 || f.metric("data_direct_bytes_total") == 0 {
		t.Error("only one of the two ways was used")
	}
}
