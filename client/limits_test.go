package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport/transporttest"
)

// TestCodesAreTheClusters holds the client's own names against the state machine's numbers.
func TestCodesAreTheClusters(t *testing.T) {
	for code, want := range map[client.Code]fsm.Code{
		client.CodeOK: fsm.OK, client.CodeDuplicate: fsm.Duplicate, client.CodeOutOfOrder: fsm.OutOfOrder,
		client.CodeFenced: fsm.Fenced, client.CodeUnknownProducer: fsm.UnknownProducer,
		client.CodePreconditionFailed: fsm.PreconditionFailed, client.CodeTooManyTopics: fsm.TooManyTopics,
		client.CodeTooManyProducers: fsm.TooManyProducers, client.CodeInvalid: fsm.Invalid,
		client.CodeSettled: fsm.Settled, client.CodeNotLeader: fsm.NotLeader, client.CodeUnavailable: fsm.Unavailable,
		client.CodeUnknown: fsm.Unknown, client.CodeDiskFull: fsm.DiskFull, client.CodePublishTooLarge: fsm.TooLarge,
		client.CodeShuttingDown: fsm.ShuttingDown,
	} {
		if uint16(code) != uint16(want) || code.String() == "" {
			t.Errorf("%v is %d here and %d there", code, code, want)
		}
	}
	if s := client.Code(999).String(); s != "code 999" {
		t.Errorf("unknown code is %q", s)
	}
}

// TestManyLongNames sends more names for one batch than fit into one frame, on a new connection each time.
func TestManyLongNames(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{})
	var list []client.Outgoing
	for i := range 3000 {
		list = append(list, client.Outgoing{Topic: fmt.Sprintf("%s/%d", strings.Repeat("x", 490), i)})
	}
	for range 3 {
		_, err := p.PublishAtomic(r.ctx, list, nil)
		r.must(err)
		r.b.DropConns(0)
	}
	if n := r.b.LastSeq(); n != 9000 {
		t.Errorf("stream has %d messages, want 9000", n)
	}
}

// TestConnectErrors says of each server why it did not do.
func TestConnectErrors(t *testing.T) {
	b := fake.New(fake.Options{Nodes: 2})
	defer b.Close()
	b.Stop(0)
	b.Stop(1)
	_, err := client.Connect(t.Context(), b.ClientOptions())
	if err == nil || !strings.Contains(err.Error(), fake.Addr(0)) || !strings.Contains(err.Error(), fake.Addr(1)) {
		t.Errorf("error is %v, want both servers named", err)
	}
	if _, err := client.Connect(t.Context(), client.Options{}); err == nil {
		t.Error("connected without servers")
	}
	o := b.ClientOptions()
	o.ConnectWait = patience
	go b.Start(1)
	c, err := client.Connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	b.Freeze(1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := client.Connect(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v, want that of the context", err)
	}
}

// TestFallingOffTheRing reads too slowly from a server that keeps little: the error says what is still there, and reading
// goes on from that.
func TestFallingOffTheRing(t *testing.T) {
	b, err := transporttest.New(cluster.StreamOptions{Tip: tipstore.Options{SizeBytes: 8 << 20, ChunkBytes: 2 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	addr, stop, err := serve(b)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	defer stop()
	r := &rig{TB: t, ctx: t.Context()}
	r.c, err = client.Connect(r.ctx, client.Options{Servers: []string{addr}})
	r.must(err)
	defer r.c.Close()
	p := r.producer(client.ProducerOptions{})
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, BufferBytes: 4 << 10})
	for range 300 {
		r.must(p.Publish(r.ctx, "a", make([]byte, 64<<10)))
	}
	r.must(p.Flush(r.ctx))
	var gone error
	for _, err := range s.Messages(r.ctx) {
		if err != nil {
			gone = err
			break
		}
	}
	r.wantError(gone, client.ErrGone)
	var detail *client.Error
	if !errors.As(gone, &detail) || detail.Detail <= s.Position() {
		t.Fatalf("error is %+v at position %d", detail, s.Position())
	}
	s = r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, From: client.Seq(detail.Detail)})
	n := uint64(0)
	for m, err := range s.ToCaughtUp(r.ctx) {
		r.must(err)
		if m.Seq != detail.Detail+n {
			t.Fatalf("message %d, want %d", m.Seq, detail.Detail+n)
		}
		n++
	}
	if detail.Detail+n-1 != 300 {
		t.Errorf("read %d messages from %d on, want up to 300", n, detail.Detail)
	}
}

// TestErrorTexts names operation, object, cause.
func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		"publish: precondition failed: nothing published (precondition 2: the topic's last seq is 7)": &client.Error{
			Op: "publish", Code: client.CodePreconditionFailed, Index: 2, Detail: 7},
		"subscribe: gone: the wanted messages are not kept any more (oldest kept is 9): seq 3 is gone": &client.Error{
			Op: "subscribe", Code: client.CodeGone, Detail: 9, Message: "seq 3 is gone"},
		"publish: unavailable: not executed (disk full)": &client.Error{Op: "publish", Code: client.CodeDiskFull},
	} {
		if err.Error() != want {
			t.Errorf("got  %s\nwant %s", err, want)
		}
	}
}
