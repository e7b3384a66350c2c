package client_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// TestLateOpening loses the answers to two openings of a producer, which come into the log after the third has been answered
// and fence the session. Nobody else can have the id: the producer opens it again and goes on, and what had been sent under
// the fenced session is published once.
func TestLateOpening(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2})
	r.b.HoldOpenings(2)
	var failed atomic.Pointer[error]
	p := r.producer(client.ProducerOptions{BatchBytes: 1 << 10, OnAck: func(a client.BatchAck) {
		if a.Err != nil {
			failed.Store(&a.Err)
		}
	}})
	const n = 1000
	for i := range n {
		switch i {
		case n / 4:
			r.b.LoseAcks(3) // executed, and not known to be
		case n / 2:
			r.b.ReleaseOpenings()
		}
		r.must(p.Publish(r.ctx, "a", fmt.Append(nil, i)))
	}
	r.must(p.Flush(r.ctx))
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	r.wantStream(n)
	if p.Epoch() != 4 {
		t.Errorf("epoch is %d, want the fourth", p.Epoch())
	}
}

// TestForeignOpening: a session that was fenced by more openings than its own can explain belongs to somebody else now, also
// if the id was random.
func TestForeignOpening(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{})
	other := r.producer(client.ProducerOptions{ID: p.ID()})
	_, err := p.PublishSync(r.ctx, "a", nil)
	r.wantError(err, client.ErrFenced)
	if _, err := other.PublishSync(r.ctx, "a", nil); err != nil {
		t.Error(err)
	}
}

// TestForeignNumbers: a late opening cannot hide that somebody else has published under the id.
func TestForeignNumbers(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2})
	r.b.HoldOpenings(1)
	p := r.producer(client.ProducerOptions{})
	other := r.producer(client.ProducerOptions{ID: p.ID()})
	for range 5 {
		_, err := other.PublishSync(r.ctx, "a", nil)
		r.must(err)
	}
	_, err := p.PublishSync(r.ctx, "a", nil)
	if !errors.Is(err, client.ErrFenced) {
		t.Errorf("error is %v, want fenced", err)
	}
	if _, err := other.PublishSync(r.ctx, "a", nil); err == nil {
		return // it still holds the id
	} else {
		r.wantError(err, client.ErrFenced)
	}
}
