package e2e

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cantus-bus/cantus/client"
)

// TestCase04CaughtUpIsExact: elsewhere, a reader was told that it had caught up when it had seen 5,397 of 5,466 values. Here, with
// values on very many topics, nearly all of them in history, and a writer that goes on, it is told once, and after every match that was there when it
// opened.
func TestCase04CaughtUpIsExact(t *testing.T) { withAndWithoutHistory(t, caughtUpIsExact) }

func caughtUpIsExact(t *testing.T, change func(*world)) {
	w := start(t, 3, func(w *world) {
		if change(w); w.history {
			return
		}
		w.tip = wholeTip
	})
	topics := 10_000
	if long() {
		topics = 30_000
	}
	x := w.writer(w.connect(), "values", client.ProducerOptions{})
	for i := range topics {
		x.publish(fmt.Sprintf("v/%d/%d", i%97, i), make([]byte, 1500))
	}
	x.flush()
	w.planNow()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer x.close()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			x.publish(fmt.Sprintf("v/%d/%d", i%97, i%topics), []byte("again"))
			if i%100 == 0 {
				x.flush()
			}
		}
	})
	var sessions []*session
	c := w.connect()
	for i, filters := range [][]string{{"v/**"}, {"v/3/**", "v/4/**"}, {"v/5/5"}, {"nothing/**"}, {"**"}} {
		s, err := w.subscribe(c, fmt.Sprint("filters ", filters), client.SubscribeOptions{
			Filters: filters, From: client.Seq(1), MinSeq: w.ledger.head.Load(), Node: w.addrs[i%3]})
		w.must(err)
		w.eventually("caught up", func() bool {
			w.must(s.batch(shortWait))
			return s.caught >= 0
		})
		w.must(s.batch(shortWait)) // it is not told again: batch would say so
		s.close()
		sessions = append(sessions, s)
	}
	close(stop)
	wg.Wait()
	if w.history {
		w.wantHistoryRead()
	}
	stream := w.audit()
	for _, s := range sessions {
		s.check(stream)
	}
}
