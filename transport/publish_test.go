package transport_test

import (
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

func TestPublishedMessagesAreRead(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("a/b", "a/c")
	p.publish(1, batchOn(t, 0, "one", "two"))
	p.publish(2, batchOn(t, 1, "three"))
	if a := p.expectAck(1); a.Code != wire.Code(fsm.OK) || a.FirstSeq != 1 || a.Count != 2 || a.Time == 0 {
		t.Errorf("first ack: %+v", a)
	}
	if a := p.expectAck(2); a.FirstSeq != 3 || a.Count != 1 {
		t.Errorf("second ack: %+v", a)
	}
	// The topics exist now: this batch goes by their ids.
	p.publish(3, batchOn(t, 1, "four"))
	p.expectAck(3)
	got := p.read(9, wire.Subscribe{Filters: []string{"a/**"}})
	want := []delivered{{1, "a/b", "one"}, {2, "a/b", "two"}, {3, "a/c", "three"}, {4, "a/c", "four"}}
	equal(t, got.messages, want)
	if n := f.metric("acks_total", "ok"); n != 3 {
		t.Errorf("%v acks were counted", n)
	}
	eventually(t, "nothing is in flight", func() bool { return f.metric("inflight_bytes") == 0 })
}

func equal(t testing.TB, got, want []delivered) {
	t.Helper()
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("message %d is %+v, want %+v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d", len(got), len(want))
	}
}

func TestTopicThatIsOnlyAStepIsPublishedByName(t *testing.T) {
	f := start(t)
	f.publish(message{"a/b/c", "deep"})
	p := f.connect()
	p.define("a/b")
	for i := range uint32(2) {
		p.publish(i+1, batch(t, "x"))
		if a := p.expectAck(i + 1); a.Code != 0 {
			t.Fatalf("ack %+v", a)
		}
	}
}

func TestPreconditionsTravelByAlias(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("x/y", "x/z")
	publish := func(request uint32, last uint64) wire.Ack {
		var b record.BatchBuilder
		b.Reset(nil, []record.Precondition{{Topic: 1, LastSeq: last}})
		if err := b.Add(1, nil, []byte("v")); err != nil {
			t.Fatal(err)
		}
		p.publish(request, b.Finish(record.ProducerID{}, 0, 0, true))
		return p.expectAck(request)
	}
	if a := publish(1, 0); a.Code != 0 || a.FirstSeq != 1 {
		t.Errorf("on a topic without messages: %+v", a)
	}
	if a := publish(2, 0); a.Code != wire.Code(fsm.PreconditionFailed) || a.Detail != 1 {
		t.Errorf("on an outdated seq: %+v", a)
	}
	if a := publish(3, 1); a.Code != 0 {
		t.Errorf("on the right seq: %+v", a)
	}
}

func TestBadTopicCostsOnlyItsBatches(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("good/topic", "bad//topic", "also/good")
	e := p.expectError(wire.TError, ^uint32(0), wire.CodeBadTopic)
	if e.Detail != 1 || !strings.Contains(e.Message, "empty") {
		t.Errorf("the error names alias %d and says %q", e.Detail, e.Message)
	}
	p.publish(1, batchOn(t, 1, "x"))
	if a := p.expectAck(1); a.Code != wire.Code(fsm.Invalid) || a.Detail != 1 {
		t.Errorf("publish to the bad one: %+v", a)
	}
	p.publish(2, batchOn(t, 2, "x"))
	if a := p.expectAck(2); a.Code != 0 || a.FirstSeq != 1 {
		t.Errorf("publish to the good one: %+v", a)
	}
}

func TestOpenProducer(t *testing.T) {
	f := start(t)
	p := f.connect()
	id := record.ProducerID{7}
	open := func(request uint32) wire.ProducerOpened {
		p.send(wire.AppendOpenProducer(nil, request, wire.OpenProducer{ID: id}))
		fr := p.expect(wire.TProducerOpened)
		o, err := wire.DecodeProducerOpened(fr.Body)
		if err != nil || fr.ID != request || o.Code != 0 {
			t.Fatalf("opened %d: %+v, %v", fr.ID, o, err)
		}
		return o
	}
	first := open(1)
	p.define("a/b")
	numbered := func(number uint64, epoch uint32) record.Batch {
		var b record.BatchBuilder
		b.Reset(nil, nil)
		if err := b.Add(0, nil, []byte("v")); err != nil {
			t.Fatal(err)
		}
		return b.Finish(id, epoch, number, false)
	}
	for request, want := range []wire.Code{0, 1} { // the second is a repetition
		p.publish(uint32(10+request), numbered(1, first.Epoch))
		if a := p.expectAck(uint32(10 + request)); a.Code != want || a.FirstSeq != 1 {
			t.Errorf("ack: %+v", a)
		}
	}
	second := open(2)
	if second.Epoch <= first.Epoch || second.LastNumber != 1 || second.LastSeq != 1 {
		t.Errorf("second opening: %+v after %+v", second, first)
	}
	p.publish(20, numbered(2, first.Epoch))
	if a := p.expectAck(20); a.Code != wire.Code(fsm.Fenced) {
		t.Errorf("old epoch: %+v", a)
	}
}

// TestOpenProducerDoesNotStall: the log is held, and other requests are answered all the same.
func TestOpenProducerDoesNotStall(t *testing.T) {
	f := start(t, func(s *setup) { s.options.MaxOpenProducers = 2 })
	f.broker.Hold()
	p := f.connect()
	for i := range uint32(3) {
		p.send(wire.AppendOpenProducer(nil, i+1, wire.OpenProducer{ID: record.ProducerID{byte(i + 1)}}))
	}
	fr := p.expect(wire.TProducerOpened)
	if o, _ := wire.DecodeProducerOpened(fr.Body); fr.ID != 3 || o.Code != wire.Code(fsm.Unavailable) {
		t.Fatalf("the request over the limit: %d %+v", fr.ID, o)
	}
	p.send(wire.AppendEmpty(nil, wire.TPing, 5))
	p.expect(wire.TPong)
	f.broker.Resume()
	for range 2 {
		if o, _ := wire.DecodeProducerOpened(p.expect(wire.TProducerOpened).Body); o.Code != 0 {
			t.Fatalf("after the log goes on: %+v", o)
		}
	}
}

func TestBrokersRefusalIsAcked(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("a/b")
	f.broker.Refuse(&wire.Error{Code: wire.CodeDiskFull})
	p.publish(1, batch(t, "x"))
	if a := p.expectAck(1); a.Code != wire.CodeDiskFull || a.Count != 1 {
		t.Errorf("ack: %+v", a)
	}
	f.broker.Refuse(nil)
	p.publish(2, batch(t, "x"))
	if a := p.expectAck(2); a.Code != 0 {
		t.Errorf("ack: %+v", a)
	}
	eventually(t, "nothing is in flight", func() bool { return f.metric("inflight_bytes") == 0 })
}

func TestPeersPublishesAreMarkedForwarded(t *testing.T) {
	f := start(t)
	p := f.dial()
	p.hello(wire.Hello{MinVersion: 1, MaxVersion: 1, Role: wire.RolePeer})
	p.define("a/b")
	p.publish(1, batch(t, "x"))
	p.expectAck(1)
	if n := f.broker.Forwarded(); n != 1 {
		t.Errorf("%d batches were marked", n)
	}
}

// TestFloodIsPushedBack: with the broker held, a client that sends without end is stopped by TCP at the limit.
func TestFloodIsPushedBack(t *testing.T) {
	const limit = 64 << 10
	f := start(t, func(s *setup) { s.options.MaxInflight = limit })
	f.broker.Hold()
	p := f.connect()
	p.define("a/b")
	const batches, size = 64, 32 << 10
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range uint32(batches) {
			p.publish(i+1, batch(t, strings.Repeat("x", size)))
		}
	}()
	eventually(t, "the server stops reading", func() bool { return f.metric("read_stalls_total") > 0 })
	if n := f.metric("inflight_bytes"); n < limit || n > limit+2*size {
		t.Errorf("%v bytes in flight at a limit of %d", n, limit)
	}
	// Others are not held up by that.
	other := f.connect()
	other.send(wire.AppendEmpty(nil, wire.TPing, 1))
	other.expect(wire.TPong)

	f.broker.Resume()
	for i := range uint32(batches) {
		if a := p.expectAck(i + 1); a.FirstSeq != uint64(i+1) {
			t.Fatalf("ack %d: %+v", i+1, a)
		}
	}
	<-sent
}
