package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// TestDamagedNodeIsLeft: what one node cannot read comes from another, in order and once.
func TestDamagedNodeIsLeft(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 3})
	r.publish("a", 100)
	for i := range 2 {
		r.b.Damage(i, uint64(40+i))
	}
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, Node: fake.Addr(0)})
	r.wantPayloads(s, 0, 100)
	if st := s.Stats(); st.Gaps != 0 || st.Resumed == 0 {
		t.Errorf("%+v", st)
	}
}

// TestDamageEverywhereIsWaitedFor: with no node that can read a message, the subscription waits and goes on when it is repaired, without
// hammering the nodes; and gives up when that takes longer than it may.
func TestDamageEverywhereIsWaitedFor(t *testing.T) {
	r := newRig(t, fake.Options{})
	r.publish("a", 20)
	r.b.Damage(0, 11)
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}})
	r.wantPayloads(s, 0, 10)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if b, err := s.NextBatch(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("read %v, %v", b, err)
	}
	if n := s.Stats().Resumed; n < 2 || n > 20 {
		t.Errorf("it was opened again %d times in 200 ms", n)
	}
	r.b.Damage(0, 0)
	r.wantPayloads(s, 10, 10)

	r.b.Damage(0, 11)
	o := r.b.ClientOptions()
	o.RetryTimeout = 100 * time.Millisecond
	c, err := client.Connect(t.Context(), o)
	r.must(err)
	defer c.Close()
	s, err = c.Subscribe(t.Context(), client.SubscribeOptions{Filters: []string{"a"}, From: client.Seq(11)})
	r.must(err)
	defer s.Close()
	if b, err := s.NextBatch(t.Context()); !errors.Is(err, client.ErrUnavailable) {
		t.Errorf("read %v, %v", b, err)
	}
}

// TestDamageIsWaitedForInShortCalls: a reader whose calls are shorter than the pauses goes on all the same when the damage is repaired.
func TestDamageIsWaitedForInShortCalls(t *testing.T) {
	r := newRig(t, fake.Options{})
	r.publish("a", 20)
	r.b.Damage(0, 11)
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}})
	r.wantPayloads(s, 0, 10)
	read := func() (*client.Batch, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		return s.NextBatch(ctx)
	}
	const manyResumes = 8 // the pauses are the longest by then
	deadline := time.Now().Add(30 * time.Second)
	for s.Stats().Resumed < manyResumes {
		if b, err := read(); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("read %v, %v", b, err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("opened again %d times only", s.Stats().Resumed)
		}
	}
	r.b.Damage(0, 0)
	for {
		_, err := read()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never: %v", err)
		}
	}
}
