package e2e

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// TestCase09LeaderChanges: elsewhere, delivery stalled for ever after a leader change. Here every reader on every node goes on
// after each of many changes, every other one a crash, and nothing is lost or doubled.
func TestCase09LeaderChanges(t *testing.T) {
	t.Parallel()
	w := start(t, 3, func(w *world) { w.tip = wholeTip })
	changes := 15
	if long() {
		changes = 100
	}
	stop := make(chan struct{})
	var publishing, reading sync.WaitGroup
	for i := range 2 {
		x := w.writer(w.connect(), fmt.Sprint("w", i), client.ProducerOptions{MaxInflightMessages: 200})
		publishing.Go(func() { x.steady(stop) })
	}
	var watched []*watchedReader
	for i := range 6 {
		filters := []string{"**"}
		if i >= 3 {
			filters = []string{fmt.Sprintf("load/%d/**", i), "load/0"}
		}
		s, err := w.subscribe(w.connect(), fmt.Sprint("reader ", i), client.SubscribeOptions{Filters: filters, Node: w.addrs[i%3]})
		w.must(err)
		r := &watchedReader{session: s}
		watched = append(watched, r)
		reading.Go(r.run)
	}
	var stalls []time.Duration
	for i := range changes {
		before := w.ledger.count.Load()
		dead := w.dropLeader(i%2 == 1)
		began := time.Now() // another node leads: what is counted comes on top of the election
		w.eventually("publishes to go on", func() bool { return w.ledger.count.Load() > before+50 })
		head := w.ledger.head.Load()
		for _, r := range watched {
			w.eventually(r.name+" to go on", func() bool { return r.at.Load() >= head })
		}
		stalls = append(stalls, time.Since(began))
		if dead != nil {
			w.restart(dead)
		}
	}
	close(stop)
	publishing.Wait()
	head := w.lastSeq()
	for _, r := range watched {
		w.eventually(r.name+" to end", func() bool { return r.at.Load() >= head })
		r.stop.Store(true)
	}
	reading.Wait()
	stream := w.audit()
	var resumed uint64
	for _, r := range watched {
		r.close()
		r.check(stream)
		resumed += r.resumed
	}
	slices.Sort(stalls)
	t.Logf("%d leader changes, %d messages, %d acked by a retry, readers resumed %d times; once a new leader was known all went on within %v (median), %v (worst)",
		changes, len(stream), w.ledger.dups.Load(), resumed, stalls[len(stalls)/2].Round(time.Millisecond), stalls[len(stalls)-1].Round(time.Millisecond))
}

// steady publishes small messages until stop.
func (x *writer) steady(stop <-chan struct{}) {
	defer x.close()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		x.publish(fmt.Sprintf("load/%d/t%d", i%7, i%3), fmt.Append(nil, i))
		if i%20 == 0 {
			time.Sleep(time.Millisecond) // sets the rate, nothing waits for it
		}
	}
}

// watchedReader tells where it stands.
type watchedReader struct {
	*session
	at   atomic.Uint64
	stop atomic.Bool
}

func (r *watchedReader) run() {
	for !r.stop.Load() {
		if err := r.batch(shortWait); err != nil {
			r.w.Error(err)
			return
		}
		r.at.Store(r.upTo)
	}
}
