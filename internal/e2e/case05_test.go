package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// TestCase05SparseFilterMovesOn: elsewhere, a filter that matches rarely kept its checkpoint far below the head, and a restart
// read everything again. Here a subtree without a match has a place to resume from near the head, also when the stream rests,
// and the first match after it is found from there.
func TestCase05SparseFilterMovesOn(t *testing.T) {
	t.Parallel()
	w := start(t, 3, nil)
	c := w.connect(func(o *client.Options) { o.Heartbeat = time.Minute }) // this test is not about lost connections
	x := w.writer(c, "w", client.ProducerOptions{})
	x.publish("cold/x", []byte("before"))
	x.flush()
	s, err := w.subscribe(c, "sparse", client.SubscribeOptions{Filters: []string{"cold/**"}, From: client.Now(), MinSeq: w.ledger.head.Load(), PreferFollower: true})
	w.must(err)
	n := 200_000
	if long() {
		n = 1_000_000
	}
	var reading sync.WaitGroup
	reading.Go(func() { w.readTo([]*session{s}, uint64(n)) })
	w.load(c, n)
	reading.Wait()
	head := w.lastSeq()
	if head < uint64(n) {
		t.Fatalf("head is %d after %d messages", head, n)
	}
	w.readTo([]*session{s}, head) // it rests now: marks come all the same, and reach the head
	if len(s.got) != 0 || s.upTo != head {
		t.Fatalf("read %v, stands at %d of %d", s.got, s.upTo, head)
	}
	s.close()
	if w.oldest() == 1 {
		t.Fatal("the ring has not turned over")
	}
	w.restartAll()
	x.publish("cold/x", []byte("after"))
	x.close()
	again, err := w.subscribe(w.connect(), "resumed", client.SubscribeOptions{Filters: []string{"cold/**"}, From: client.Seq(s.upTo + 1)})
	w.must(err)
	w.readTo([]*session{again}, head+1)
	again.close()
	if len(again.got) != 1 || again.got[0].seq != head+1 {
		t.Errorf("resumed after %d and read %+v, want message %d", s.upTo, again.got, head+1)
	}
}

// load publishes n small messages that no ledger knows of, to topics below hot.
func (w *world) load(c *client.Client, n int) {
	w.Helper()
	p, err := c.Producer(w.ctx, client.ProducerOptions{})
	w.must(err)
	for i := range n {
		w.must(p.Publish(w.ctx, fmt.Sprint("hot/", i%100), fmt.Appendf(nil, `{"n":%d,"text":"one of very many small messages that nobody reads here"}`, i)))
	}
	w.must(p.Close(w.ctx))
}

// lastSeq is the newest seq that all nodes have.
func (w *world) lastSeq() uint64 {
	w.Helper()
	_, of := w.digests()
	return w.wantEqual(of).Seq
}
