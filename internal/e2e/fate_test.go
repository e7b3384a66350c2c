package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// TestFateIsTrue takes the quorum away again and again from publishers that give up soon: what they were told was not executed
// must never turn up in the stream, what is of unknown fate at most once, and what was acked stands where the ack said.
func TestFateIsTrue(t *testing.T) {
	t.Parallel()
	w := start(t, 3, func(w *world) {
		w.tip = wholeTip
		// Nodes answer well before publishers give up, so that what these say rests on what those said.
		w.change = func(o *cluster.Options) { o.PublishWait = 200 * time.Millisecond }
	})
	rounds := 4
	if long() {
		rounds = 30
	}
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	for i := range 4 {
		c := w.connect(func(o *client.Options) { o.RetryTimeout = 1200 * time.Millisecond })
		x := w.writer(c, fmt.Sprint("w", i), client.ProducerOptions{BatchBytes: 1 << (10 + i), MaxInflightMessages: 300})
		publishing.Go(func() { x.steadyUntilTold(stop) })
	}
	r := rand.New(rand.NewPCG(4, 0))
	for round := range rounds {
		before := w.ledger.count.Load()
		w.eventually("publishes to go on", func() bool { return w.ledger.count.Load() > before+200 })
		dead := w.killTwo(r, round%2 == 1)
		failed := w.ledger.failures()
		w.eventually("publishers to give up", func() bool { return w.ledger.failures() > failed+20 })
		for _, m := range dead { // one at a time: the first cannot win against a log that is longer than its own
			w.restart(m)
			w.cluster.Leader()
		}
	}
	close(stop)
	publishing.Wait()
	stream := w.audit()
	count := w.ledger.fates()
	t.Logf("%d messages in the stream; acked %d, not executed %d, of unknown fate %d", len(stream), count[acked], count[refused], count[unknown])
	if count[refused] == 0 || count[unknown] == 0 {
		t.Error("one of the fates did not occur: it was not tested")
	}
}

// killTwo kills the leader and a follower, in either order, or both followers: then the leader steps down over entries that
// stand in its log and are committed later.
func (w *world) killTwo(r *rand.Rand, followers bool) []*clustertest.Member {
	w.Helper()
	dead := w.cluster.Followers()
	if !followers {
		dead[0] = w.cluster.Leader()
	}
	r.Shuffle(2, func(i, j int) { dead[i], dead[j] = dead[j], dead[i] })
	for _, m := range dead {
		w.kill(m)
	}
	return dead
}

// steadyUntilTold publishes small messages until stop. Refusals are noted in the ledger, not reported.
func (x *writer) steadyUntilTold(stop <-chan struct{}) {
	defer func() { _ = x.p.Close(x.w.ctx) }() // its error is one of those that the ledger has
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		x.publish(fmt.Sprintf("load/%d", i%7), fmt.Append(nil, i))
		if i%20 == 0 {
			time.Sleep(time.Millisecond) // sets the rate, nothing waits for it
		}
	}
}

// failures is how many messages were not acked in the end.
func (l *ledger) failures() int {
	f := l.fates()
	return f[refused] + f[unknown]
}

// fates counts the messages by fate.
func (l *ledger) fates() map[fate]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := map[fate]int{}
	for _, n := range l.notes {
		of[n.fate]++
	}
	return of
}

// TestFencingUnderChanges: several clients open the same producer id again and again while leaders change. Each session's
// acked messages are in the stream once, and nothing of a session comes after something of a later one.
func TestFencingUnderChanges(t *testing.T) {
	t.Parallel()
	w := start(t, 3, func(w *world) { w.tip = wholeTip })
	id := client.NamedProducer("contended")
	stop := make(chan struct{})
	var publishing sync.WaitGroup
	var mu sync.Mutex
	epochs := map[string]uint32{} // by topic: each session has one of its own
	for i := range 3 {
		c := w.connect()
		publishing.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				p, err := c.Producer(w.ctx, client.ProducerOptions{ID: id, BatchBytes: 1 << 10})
				if err != nil {
					w.Error(err)
					return
				}
				x := &writer{w: w, name: fmt.Sprintf("w%d/s%d", i, n), p: p}
				mu.Lock()
				epochs[x.name] = p.Epoch()
				mu.Unlock()
				x.untilFenced(stop)
				_ = p.Close(w.ctx) // says that it is fenced
			}
		})
	}
	for i := range 4 {
		before := w.ledger.count.Load()
		w.eventually("publishes to go on", func() bool { return w.ledger.count.Load() > before+100 })
		w.changeLeader(i%2 == 0)
	}
	close(stop)
	publishing.Wait()
	last := uint32(0)
	for _, m := range w.audit() {
		e := epochs[m.topic]
		if e < last {
			t.Fatalf("message %s of epoch %d stands after one of epoch %d", m.id, e, last)
		}
		last = e
	}
	t.Logf("%d sessions, %v", len(epochs), w.ledger.fates())
}

// untilFenced publishes until another session takes over, or the test ends.
func (x *writer) untilFenced(stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		_, err := x.publishSync(x.name, fmt.Append(nil, i))
		if err != nil {
			if !errors.Is(err, client.ErrFenced) && !errors.Is(err, client.ErrUnknownFate) {
				x.w.Errorf("%s: %v", x.name, err)
			}
			return
		}
	}
}
