package client_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
)

// TestLeaderChangesUnderLoad changes the leader 100 times, killing the old one every third time, while messages are
// published; readers on every node advance after each change and see everything once, in order.
func TestLeaderChangesUnderLoad(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 3})
	p := r.producer(client.ProducerOptions{BatchBytes: 1 << 10})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	published := 0
	wg.Go(func() { published = r.publishUntil(stop, p) })
	const readers = 3
	var advance [readers]chan struct{} // a token is taken only when the reader has advanced since the one before
	var got [readers]int
	for i := range readers {
		advance[i] = make(chan struct{})
		s := r.subscribe(client.SubscribeOptions{Filters: []string{"**"}, Node: fake.Addr(i)})
		wg.Go(func() {
			for range advance[i] {
				got[i] += r.advance(s, got[i], 10)
			}
		})
	}
	for change := range 100 {
		old := r.b.Leader()
		if change%3 == 0 {
			r.b.Stop(old)
		}
		r.b.SetLeader((old + 1) % 3)
		r.b.Start(old)
		for i := range readers {
			advance[i] <- struct{}{}
		}
	}
	close(stop)
	for i := range readers {
		close(advance[i])
	}
	wg.Wait()
	r.must(p.Close(r.ctx))
	r.wantStream(published)
	for i, n := range got {
		if n != 1000 {
			t.Errorf("reader %d has %d messages, want 1000", i, n)
		}
	}
}

// publishUntil publishes "0", "1", ... at some pace and returns how many.
func (r *rig) publishUntil(stop <-chan struct{}, p *client.Producer) int {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return n
		default:
		}
		if err := p.Publish(r.ctx, fmt.Sprint("t/", n%5), fmt.Append(nil, n)); err != nil {
			r.Error(err)
			return n
		}
		if n%20 == 0 {
			time.Sleep(200 * time.Microsecond)
		}
	}
}

// advance reads n messages, from "first" on, and returns how many were right.
func (r *rig) advance(s *client.Subscription, first, n int) int {
	i := 0
	for m, err := range s.Messages(r.ctx) {
		if err != nil || string(m.Payload) != fmt.Sprint(first+i) {
			r.Errorf("message %d is %q, %v, want %d", m.Seq, m.Payload, err, first+i)
			break
		}
		if i++; i == n {
			break
		}
	}
	return i
}

// TestPublishesGoToTheLeader finds the leader from a follower and follows it.
func TestPublishesGoToTheLeader(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 3, NoForward: true}, func(o *client.Options) { o.Servers = []string{fake.Addr(2)} })
	p := r.producer(client.ProducerOptions{})
	for i := range 6 {
		_, err := p.PublishSync(r.ctx, "a", fmt.Append(nil, i))
		r.must(err)
		r.b.SetLeader((i + 1) % 3)
	}
	r.wantStream(6)
	if top := r.c.Topology(); len(top.Nodes) != 3 || top.ClusterID != "fake" {
		t.Errorf("topology is %+v", top)
	}
}

// TestPreferFollower reads from a node that does not lead.
func TestPreferFollower(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2}, func(o *client.Options) { o.Servers = o.Servers[:1] })
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, PreferFollower: true})
	if r.b.Connections(1) != 1 {
		t.Error("the follower has no connection")
	}
	r.publish("a", 3)
	r.wantPayloads(s, 0, 3)
}

// TestLaggingNode resumes on a node that has not yet got what the reader has seen: it must neither repeat, nor say early
// that it has caught up.
func TestLaggingNode(t *testing.T) {
	r := newRig(t, fake.Options{Nodes: 2})
	r.publish("a", 5)
	r.b.Hold(1)
	for i := 5; i < 20; i++ {
		_, err := r.b.Publish("a", fmt.Append(nil, i))
		r.must(err)
	}
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"a"}, Node: fake.Addr(0), BufferBytes: 1})
	r.wantPayloads(s, 0, 1)
	r.b.Stop(0)
	released := make(chan struct{})
	go func() {
		defer close(released)
		time.Sleep(20 * time.Millisecond)
		r.b.Release(1)
	}()
	n := 1
	for m, err := range s.ToCaughtUp(r.ctx) {
		r.must(err)
		if string(m.Payload) != fmt.Sprint(n) {
			t.Fatalf("message %d is %s, want %d", m.Seq, m.Payload, n)
		}
		n++
	}
	if n != 20 {
		t.Errorf("caught up after %d messages, want 20", n)
	}
	<-released
}

// TestClusterTransfers moves the real leader some times under load.
func TestClusterTransfers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	c, addrs, move := startCluster(t)
	r := &rig{TB: t, ctx: t.Context()}
	var err error
	r.c, err = client.Connect(r.ctx, client.Options{Servers: addrs[:1]})
	r.must(err)
	defer r.c.Close()
	p := r.producer(client.ProducerOptions{})
	s := r.subscribe(client.SubscribeOptions{Filters: []string{"**"}, PreferFollower: true})
	got := 0
	for round := range 6 {
		for i := range 200 {
			r.must(p.Publish(r.ctx, "load/x", fmt.Append(nil, round*200+i)))
		}
		if round == 3 { // the leader dies
			old := c.Leader()
			c.Crash(old)
			defer c.Restart(old)
		} else {
			move()
		}
		r.wantPayloads(s, got, 200)
		got += 200
	}
	r.must(p.Close(r.ctx))
}
