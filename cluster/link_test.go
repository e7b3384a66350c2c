package cluster

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// fakeLeader is the other end of a link; the test answers.
type fakeLeader struct {
	t    *testing.T
	conn net.Conn
	r    *wire.Reader
}

// fakeBox takes what a link gives back.
type fakeBox struct {
	mu       sync.Mutex
	results  map[*Submission]fsm.Code
	returned []queued
}

func (b *fakeBox) complete(it queued, r fsm.Result) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, twice := b.results[it.s]; twice {
		panic("completed twice")
	}
	b.results[it.s] = r.Code
}

func (b *fakeBox) putBack(items []queued) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.returned = append(append([]queued(nil), items...), b.returned...)
}

func (b *fakeBox) progress() {}
func (b *fakeBox) wakeUp()   {}

func (b *fakeBox) code(s *Submission) (fsm.Code, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c, ok := b.results[s]
	return c, ok
}

// newTestLink is a link to a fake leader.
func newTestLink(t *testing.T) (*link, *fakeLeader, *fakeBox) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	f := &fakeLeader{t: t}
	greeted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			f.conn, f.r = conn, wire.NewReader(conn, wire.MaxFrame)
			_, err = f.r.Next()
			f.send(wire.AppendWelcome(nil, &wire.Welcome{Version: wire.Version, NodeID: "leader"}))
		}
		greeted <- err
	}()
	table := topic.NewTable(100)
	if _, _, err := table.Intern([]byte("known/topic")); err != nil {
		t.Fatal(err)
	}
	box := &fakeBox{results: map[*Submission]fsm.Code{}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	hello := wire.Hello{MinVersion: wire.Version, MaxVersion: wire.Version, Role: wire.RolePeer}
	k, err := dialLink(ctx, l.Addr().String(), hello, "leader", table, box)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-greeted; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.close(); k.loops.Wait(); _ = f.conn.Close() })
	return k, f, box
}

func (f *fakeLeader) send(b []byte) { _, _ = f.conn.Write(b) }

func (f *fakeLeader) ack(id uint32, code fsm.Code) {
	f.send(wire.AppendAck(nil, id, &wire.Ack{Code: wire.Code(code)}))
}

// publish reads up to the next publish and notes the topics defined before it.
func (f *fakeLeader) publish(names *[]string) (uint32, record.Batch) {
	f.t.Helper()
	for {
		fr, err := f.r.Next()
		if err != nil {
			f.t.Fatal(err)
		}
		switch fr.Type {
		case wire.TDefineTopics:
			d, err := wire.DecodeDefineTopics(fr.Body)
			if err != nil || int(d.FirstAlias) != len(*names) {
				f.t.Fatalf("definitions from %d: %v", d.FirstAlias, err)
			}
			*names = append(*names, d.Names...)
		case wire.TPublish:
			b, err := wire.DecodePublish(fr.Body)
			if err != nil {
				f.t.Fatal(err)
			}
			return fr.ID, append(record.Batch(nil), b...)
		}
	}
}

func linkItem(payload string) queued {
	return queued{s: &Submission{Batch: testBatch(payload), Names: []string{"new/topic"}}}
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestLinkRenumbersTopics(t *testing.T) {
	k, f, box := newTestLink(t)
	known, _ := k.table.Lookup("known/topic")
	first, second, third := linkItem("1"), linkItem("2"), linkItem("3")
	record.SetTopic(second.s.Batch.Records(), uint32(known))
	before := append(record.Batch(nil), second.s.Batch...)
	for _, it := range []queued{first, second, third} {
		if !k.publish(it) {
			t.Fatal("an idle link takes nothing")
		}
	}
	var names []string
	var got []string
	for range 3 {
		_, b := f.publish(&names)
		rec := record.Record(b.Records())
		got = append(got, names[rec.Topic()]+"="+string(rec.Payload()[:1]))
	}
	if want := "[new/topic=1 known/topic=2 new/topic=3]"; fmt.Sprint(got) != want {
		t.Fatalf("arrived %v, want %s", got, want)
	}
	if string(before) != string(second.s.Batch) {
		t.Fatal("the submission's own bytes were changed: it could not be sent again")
	}
	bad := linkItem("x")
	record.SetTopic(bad.s.Batch.Records(), 99)
	k.publish(bad)
	if c, ok := box.code(bad.s); !ok || c != fsm.Invalid {
		t.Fatalf("a topic number without meaning: %v", c)
	}
}

func TestBrokenLinkSaysUnknownOrGivesBack(t *testing.T) {
	k, f, box := newTestLink(t)
	sent, acked := linkItem("sent"), linkItem("acked")
	k.publish(acked)
	k.publish(sent)
	var names []string
	id, _ := f.publish(&names)
	f.ack(id, fsm.OK)
	f.publish(&names)
	eventually(t, "the ack", func() bool { _, ok := box.code(acked.s); return ok })
	// what has not been handed to the connection when it breaks goes back
	k.mu.Lock()
	handed := k.mu.handed + uint64(len(k.mu.buf))
	k.mu.waiting[77] = sent2(linkItem("b"), handed+10)
	k.mu.waiting[76] = sent2(linkItem("a"), handed+5)
	k.mu.Unlock()
	_ = f.conn.Close()
	<-k.done
	k.loops.Wait()
	if c, _ := box.code(acked.s); c != fsm.OK {
		t.Errorf("acked is %v", c)
	}
	if c, _ := box.code(sent.s); c != fsm.Unknown {
		t.Errorf("sent is %v", c)
	}
	if len(box.returned) != 2 || payloadOf(box.returned[0]) != "a" || payloadOf(box.returned[1]) != "b" {
		t.Errorf("given back: %v", box.returned)
	}
	if k.publish(linkItem("late")) {
		t.Error("a closed link takes a batch")
	}
}

func sent2(it queued, start uint64) sent { return sent{item: it, start: start} }

func payloadOf(it queued) string { return string(record.Record(it.s.Batch.Records()).Payload()[:1]) }

func TestLinkGivesBackWhatANonLeaderRefuses(t *testing.T) {
	k, f, box := newTestLink(t)
	a, b, c := linkItem("a"), linkItem("b"), linkItem("c")
	for _, it := range []queued{a, b, c} {
		k.publish(it)
	}
	var names []string
	ids := map[string]uint32{}
	for range 3 {
		id, batch := f.publish(&names)
		ids[string(record.Record(batch.Records()).Payload()[:1])] = id
	}
	f.ack(ids["b"], fsm.NotLeader)
	f.ack(ids["c"], fsm.NotLeader)
	eventually(t, "the link to be stale", k.isStale)
	if k.publish(linkItem("d")) {
		t.Fatal("a stale link takes a batch")
	}
	f.ack(ids["a"], fsm.NotLeader)
	k.retire(patience)
	if len(box.results) != 0 || len(box.returned) != 3 || payloadOf(box.returned[0]) != "a" || payloadOf(box.returned[2]) != "c" {
		t.Fatalf("completed %v, given back %v", box.results, box.returned)
	}
}

func TestLinkNeverReordersARefusedBatch(t *testing.T) {
	k, f, box := newTestLink(t)
	a, b := linkItem("a"), linkItem("b")
	k.publish(a)
	k.publish(b)
	var names []string
	ida, _ := f.publish(&names)
	idb, _ := f.publish(&names)
	f.ack(ida, fsm.NotLeader)
	f.ack(idb, fsm.OK)
	eventually(t, "both", func() bool { _, ok := box.code(a.s); return ok })
	if c, _ := box.code(a.s); c != fsm.Unavailable {
		t.Fatalf("refused before one that was executed: %v", c)
	}
}

func TestLinkRefusesAnotherNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = wire.NewReader(conn, 0).Next()
		_, _ = conn.Write(wire.AppendWelcome(nil, &wire.Welcome{Version: wire.Version, NodeID: "somebody"}))
	}()
	hello := wire.Hello{MinVersion: wire.Version, MaxVersion: wire.Version, Role: wire.RolePeer}
	if _, err := dialLink(t.Context(), l.Addr().String(), hello, "leader", topic.NewTable(10), &fakeBox{}); err == nil {
		t.Fatal("linked to another node than the leader")
	}
}
