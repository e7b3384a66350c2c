package client_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

const patience = 30 * time.Second

// rig is a fake cluster and a client of it.
type rig struct {
	testing.TB
	ctx context.Context
	b   *fake.Broker
	c   *client.Client
}

func newRig(t testing.TB, o fake.Options, change ...func(*client.Options)) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	r := &rig{TB: t, ctx: ctx, b: fake.New(o)}
	t.Cleanup(r.b.Close)
	co := r.b.ClientOptions()
	for _, f := range change {
		f(&co)
	}
	c, err := client.Connect(ctx, co)
	r.must(err)
	r.c = c
	t.Cleanup(func() { _ = c.Close() })
	return r
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) wantError(err, want error) {
	r.Helper()
	if !errors.Is(err, want) {
		r.Errorf("error is %v, want %v", err, want)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("%s did not come", what)
		}
	}
}

func (r *rig) producer(o client.ProducerOptions) *client.Producer {
	r.Helper()
	p, err := r.c.Producer(r.ctx, o)
	r.must(err)
	return p
}

func (r *rig) subscribe(o client.SubscribeOptions) *client.Subscription {
	r.Helper()
	s, err := r.c.Subscribe(r.ctx, o)
	r.must(err)
	r.Cleanup(func() { _ = s.Close() })
	return s
}

// publish adds messages "0" to "n-1" behind the clients' backs.
func (r *rig) publish(topic string, n int) {
	r.Helper()
	for i := range n {
		_, err := r.b.Publish(topic, fmt.Append(nil, i))
		r.must(err)
	}
}

// wantPayloads fails unless the subscription's next messages are "first", "first+1", ... n of them.
func (r *rig) wantPayloads(s *client.Subscription, first, n int) {
	r.Helper()
	i := first
	for m, err := range s.Messages(r.ctx) {
		r.must(err)
		if string(m.Payload) != fmt.Sprint(i) {
			r.Fatalf("message %d is %q, want %d", m.Seq, m.Payload, i)
		}
		if i++; i == first+n {
			return
		}
	}
}

// wantStream fails unless the stream is exactly "0" to "n-1".
func (r *rig) wantStream(n int) {
	r.Helper()
	list := r.b.Messages()
	if len(list) != n {
		r.Errorf("stream has %d messages, want %d", len(list), n)
	}
	for i, m := range list {
		if string(m.Payload) != fmt.Sprint(i) {
			r.Fatalf("message %d is %q, want %d", m.Seq, m.Payload, i)
		}
	}
}
