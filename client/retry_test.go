package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// storm makes things go wrong, one after the other, until stop is closed. It is paced by what was published: without a
// pause it would stop everything for longer than retries last.
func (r *rig) storm(stop <-chan struct{}) {
	calm := uint64(0)
	for i := 0; ; {
		select {
		case <-stop:
			return
		case <-time.After(100 * time.Microsecond):
		}
		if r.b.LastSeq() < calm || r.b.Faults() > 0 {
			continue
		}
		calm = r.b.LastSeq() + 200
		switch i % 7 {
		case 0:
			r.b.LoseAcks(2)
		case 1:
			r.b.LosePublishes(2)
		case 2:
			r.b.FailPublishes(2, client.CodeUnknown, true)
		case 3:
			r.b.FailPublishes(2, client.CodeUnknown, false)
		case 4:
			r.b.FailPublishes(2, client.CodeUnavailable, false)
		case 5:
			r.b.SetLeader(i % 3)
		case 6:
			r.b.DropConns(i % 3)
		}
		i++
	}
}

// TestRetryStorm loses acks, publishes, leaders and connections while several producers publish, and counts ids.
func TestRetryStorm(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 3})
	const producers, each = 3, 10_000
	var publishers, storms sync.WaitGroup
	var resent, duplicates atomic.Uint64
	stop := make(chan struct{})
	storms.Go(func() { r.storm(stop) })
	for n := range producers {
		p := r.producer(client.ProducerOptions{BatchBytes: 1 << 10, OnAck: func(a client.BatchAck) {
			if a.Err != nil {
				t.Error(a.Err)
			}
		}})
		publishers.Go(func() {
			r.publishCount(p, fmt.Sprint("t/", n), each)
			resent.Add(p.Stats().Resent)
			duplicates.Add(p.Stats().Duplicates)
		})
	}
	publishers.Wait()
	close(stop)
	storms.Wait()
	if resent.Load() == 0 || duplicates.Load() == 0 {
		t.Errorf("%d batches sent again, %d of them duplicates: no storm", resent.Load(), duplicates.Load())
	}
	next := map[string]int{}
	for _, m := range r.b.Messages() {
		if want := fmt.Sprint(next[m.Topic]); string(m.Payload) != want {
			t.Fatalf("%s: message %d is %s, want %s", m.Topic, m.Seq, m.Payload, want)
		}
		next[m.Topic]++
	}
	for n := range producers {
		if got := next[fmt.Sprint("t/", n)]; got != each {
			t.Errorf("producer %d: %d messages, want %d", n, got, each)
		}
	}
}

// publishCount publishes "0" to "n-1" and closes the producer.
func (r *rig) publishCount(p *client.Producer, topic string, n int) {
	for i := range n {
		if err := p.Publish(r.ctx, topic, fmt.Append(nil, i)); err != nil {
			r.Error(err)
			return
		}
	}
	if err := p.Close(r.ctx); err != nil {
		r.Error(err)
	}
}

// TestLostAckIsDuplicate retries a message that was published and says so with its seq.
func TestLostAckIsDuplicate(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{})
	r.publish("other", 5)
	r.b.LoseAcks(1)
	a, err := p.PublishSync(r.ctx, "a", []byte("x"))
	r.must(err)
	if a.Seq != 6 || !a.Duplicate || r.b.LastSeq() != 6 {
		t.Errorf("ack is %+v and the last seq %d, want the duplicate at 6", a, r.b.LastSeq())
	}
}

// TestIdleProducer waits longer than any connection lives: the identity stays, and the next message is the next number.
func TestIdleProducer(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2})
	p := r.producer(client.ProducerOptions{})
	for i := range 5 {
		if _, err := p.PublishSync(r.ctx, "a", fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			r.b.Stop(n)
			r.b.Start(n)
		}
		r.b.SetLeader(i % 2)
	}
	if p.Epoch() != 1 {
		t.Errorf("epoch is %d, want the first", p.Epoch())
	}
	r.wantStream(5)
}

// TestExpiredProducer says so instead of publishing under numbers that nobody remembers.
func TestExpiredProducer(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{})
	r.b.ExpireProducer(p.ID())
	_, err := p.PublishSync(r.ctx, "a", nil)
	r.wantError(err, client.ErrUnknownProducer)
	r.wantError(p.Publish(r.ctx, "a", nil), client.ErrUnknownProducer)
}

// TestFatesAreTrue has no leader for longer than the time for retries: what was never executed is said to be so, what
// may have been is said to be unknown, and the producer goes on afterwards under a new epoch.
func TestFatesAreTrue(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{RetryTimeout: 200 * time.Millisecond})
	r.b.SetLeader(-1)
	_, err := p.PublishSync(r.ctx, "a", nil)
	r.wantError(err, client.ErrUnavailable)
	if errors.Is(err, client.ErrUnknownFate) || !strings.Contains(err.Error(), "gave up after 200ms") {
		t.Errorf("error is %q", err)
	}
	r.b.SetLeader(0)
	r.b.FailPublishes(1<<20, client.CodeUnknown, false)
	_, err = p.PublishSync(r.ctx, "a", nil)
	r.wantError(err, client.ErrUnknownFate)
	r.b.ClearFaults()
	if _, err = p.PublishSync(r.ctx, "a", []byte("0")); err != nil {
		t.Fatal(err)
	}
	if p.Epoch() < 2 {
		t.Errorf("epoch is %d: the numbers that were given up could still be executed", p.Epoch())
	}
	r.wantStream(1)
}

// TestNamedProducerGivesUpForGood must not take its id back from whoever opened it meanwhile.
func TestNamedProducerGivesUpForGood(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{ID: client.NamedProducer("n"), RetryTimeout: 100 * time.Millisecond})
	r.b.SetLeader(-1)
	_, err := p.PublishSync(r.ctx, "a", nil)
	r.wantError(err, client.ErrUnavailable)
	r.b.SetLeader(0)
	if err := p.Publish(r.ctx, "a", nil); err == nil {
		t.Error("the producer goes on")
	}
}

// TestRefusalsUseNumbersUp refuses a message in the middle of a stream of batches; the others are published.
func TestRefusalsUseNumbersUp(t *testing.T) {
	r := newRig(t, fake.Options{MaxTopics: 2})
	p := r.producer(client.ProducerOptions{})
	for i := range 10 {
		topic := fmt.Sprint("t", i%3)
		_, err := p.PublishSync(r.ctx, topic, nil)
		if topic == "t2" {
			r.wantError(err, client.ErrTooManyTopics)
		} else {
			r.must(err)
		}
	}
	if n := r.b.LastSeq(); n != 7 {
		t.Errorf("stream has %d messages, want 7", n)
	}
	r.must(p.Flush(r.ctx))
	r.must(p.Publish(r.ctx, "t2", nil))
	r.wantError(p.Flush(r.ctx), client.ErrTooManyTopics)
	r.must(p.Flush(r.ctx))
}

// TestBackPressure holds Publish back at the limits until there is room, or ctx ends.
func TestBackPressure(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{MaxInflightMessages: 10})
	r.b.Freeze(0)
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	n := 0
	var err error
	for err == nil {
		if err = p.Publish(ctx, "a", fmt.Append(nil, n)); err == nil {
			n++
		}
	}
	r.wantError(err, context.DeadlineExceeded)
	if n != 10 {
		t.Errorf("%d messages were taken, want 10", n)
	}
	r.b.Thaw(0)
	for ; n < 100; n++ {
		r.must(p.Publish(r.ctx, "a", fmt.Append(nil, n)))
	}
	r.must(p.Flush(r.ctx))
	r.wantStream(100)
}

// TestCloseSettlesAll closes the client under a producer whose server hangs: every callback is called once.
func TestCloseSettlesAll(t *testing.T) {
	r := newRig(t, fake.Options{})
	p := r.producer(client.ProducerOptions{})
	r.b.Freeze(0)
	var mu sync.Mutex
	failed := 0
	for range 50 {
		r.must(p.PublishAsync(r.ctx, "a", nil, func(_ client.Ack, err error) {
			mu.Lock()
			defer mu.Unlock()
			r.wantError(err, client.ErrClosed)
			failed++
		}))
	}
	r.must(r.c.Close())
	mu.Lock()
	defer mu.Unlock()
	if failed != 50 {
		t.Errorf("%d callbacks, want 50", failed)
	}
	r.wantError(p.Publish(r.ctx, "a", nil), client.ErrClosed)
	_, err := r.c.Subscribe(r.ctx, client.SubscribeOptions{Filters: []string{"a"}})
	r.wantError(err, client.ErrClosed)
}

// TestHungServer leaves a server that neither answers nor closes.
func TestHungServer(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2}, func(o *client.Options) { o.Heartbeat = 50 * time.Millisecond })
	p := r.producer(client.ProducerOptions{})
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, Node: fake.Addr(0)})
	r.must(p.Publish(r.ctx, "a", []byte("0")))
	r.wantPayloads(s, 0, 1)
	r.b.Freeze(0)
	r.b.SetLeader(1)
	r.must(p.Publish(r.ctx, "a", []byte("1")))
	r.must(p.Flush(r.ctx))
	r.wantPayloads(s, 1, 1)
	r.wantStream(2)
}

// TestGoodbye goes elsewhere when a server says that it will leave, without losing the link first.
func TestGoodbye(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2})
	p := r.producer(client.ProducerOptions{})
	_, err := p.PublishSync(r.ctx, "a", []byte("0"))
	r.must(err)
	r.b.Goodbye(0)
	r.b.SetLeader(1)
	r.eventually("a connection to the other node", func() bool { return r.b.Connections(1) > 0 })
	_, err = p.PublishSync(r.ctx, "a", []byte("1"))
	r.must(err)
	r.wantStream(2)
}

// TestFencedProducerStaysAway must not open its id again when it has been fenced: that would fence the one who has it now.
func TestFencedProducerStaysAway(t *testing.T) {
	r := newRig(t, fake.Options{})
	for i := range 200 {
		id := client.NamedProducer(fmt.Sprint(i))
		old := r.producer(client.ProducerOptions{ID: id})
		young := r.producer(client.ProducerOptions{ID: id})
		_, err := old.PublishSync(r.ctx, "a", nil)
		r.wantError(err, client.ErrFenced)
		if err := old.Close(r.ctx); err != nil && !errors.Is(err, client.ErrFenced) {
			t.Fatal(err)
		}
		if _, err := young.PublishSync(r.ctx, "a", nil); err != nil {
			t.Fatalf("producer %d: %v", i, err)
		}
		r.must(young.Close(r.ctx))
	}
}
