package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// TestCase03OverlappingFilters: elsewhere, overlapping filters delivered a message twice or skipped one. Here they are an
// exact union, each message once and in order, while the ring turns over and nodes restart under the readers.
func TestCase03OverlappingFilters(t *testing.T) { withAndWithoutHistory(t, overlappingFilters) }

func overlappingFilters(t *testing.T, change func(*world)) {
	w := start(t, 3, change)
	r := rand.New(rand.NewPCG(3, 0))
	c := w.connect()
	var sessions []*session
	for i := range 12 {
		o := client.SubscribeOptions{Filters: overlapping(r), Node: w.addrs[i%3]}
		s, err := w.subscribe(c, fmt.Sprint("reader ", i), o)
		w.must(err)
		sessions = append(sessions, s)
	}
	x := w.writer(c, "w", client.ProducerOptions{})
	for round := range 12 {
		for range 150 { // 2 MiB a round: readers that keep up are never passed by the ring
			x.publish(randomTopic(r), randomPayload(r))
			x.publish("p0/a/b", make([]byte, r.IntN(16<<10)))
		}
		x.flush()
		w.readTo(sessions, w.ledger.head.Load())
		switch round {
		case 2, 7:
			w.planNow()
		case 3, 9:
			w.changeLeader(true)
		case 6:
			w.restartAll()
		}
		if w.history { // from the beginning, through all that was sealed and split meanwhile
			s, err := w.subscribe(c, fmt.Sprint("late reader ", round), client.SubscribeOptions{
				Filters: overlapping(r), From: client.Seq(1), MinSeq: w.ledger.head.Load(), Node: w.addrs[round%3]})
			w.must(err)
			sessions = append(sessions, s)
			w.readTo([]*session{s}, w.ledger.head.Load())
		}
	}
	x.close()
	if w.history {
		w.wantHistoryRead()
	}
	if w.oldest() == 1 {
		t.Error("the ring has not turned over")
	}
	stream := w.audit()
	for _, s := range sessions {
		if s.close(); len(s.got) == 0 {
			t.Errorf("%s: filters %q read nothing", s.name, s.o.Filters)
		}
		s.check(stream)
	}
}

// overlapping are filters of which most name the same topics more than once.
func overlapping(r *rand.Rand) []string {
	list := append(randomFilters(r), "p0/**", "p0/a/**", "p0/a/b", "p0/a/b/**")
	for range r.IntN(4) {
		list = append(list, list[r.IntN(len(list))])
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// readTo lets every session read up to seq.
func (w *world) readTo(sessions []*session, seq uint64) {
	w.Helper()
	var wg sync.WaitGroup
	for _, s := range sessions {
		wg.Go(func() {
			for end := time.Now().Add(patience); s.upTo < seq; {
				if err := s.batch(shortWait); err != nil {
					w.Error(err)
					return
				}
				if time.Now().After(end) {
					w.Errorf("%s: stands at %d of %d", s.name, s.upTo, seq)
					return
				}
			}
		})
	}
	wg.Wait()
}
