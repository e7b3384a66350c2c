package e2e

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cantus-bus/cantus/client"
)

// TestCase06StopAtEveryMark: elsewhere, an empty page moved the checkpoint past an event that had not been delivered. Here a
// reader stops at every mark that it is told, under writes, and goes on from it at any node: nothing is missing, nothing comes
// twice.
func TestCase06StopAtEveryMark(t *testing.T) { withAndWithoutHistory(t, stopAtEveryMark) }

func stopAtEveryMark(t *testing.T, change func(*world)) {
	w := start(t, 3, change)
	writer, c := w.connect(), w.connect()
	x := w.writer(writer, "w", client.ProducerOptions{BatchBytes: 1 << 10})
	if w.history { // the first marks are far behind the tip
		for i := range 3000 {
			x.publish([]string{"rare/0", "noise/x", "noise/y"}[min(2, i%11)], make([]byte, i%11*800))
		}
		x.flush()
		w.planNow()
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { // ten of eleven are others', so that most marks tell of a stretch without a match
		defer x.close()
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			topic := fmt.Sprint("noise/", i%50)
			if i%11 == 0 {
				topic = fmt.Sprint("rare/", i%3)
			}
			x.publish(topic, fmt.Append(nil, i))
			if i%64 == 0 {
				x.flush()
			}
		}
	})
	r := rand.New(rand.NewPCG(6, 0))
	var sessions []*session
	var quiet int // marks that moved without a message
	mark := uint64(0)
	for len(sessions) < 200 || quiet < 20 {
		s, err := w.subscribe(c, fmt.Sprint("stop ", len(sessions)), client.SubscribeOptions{
			Filters: []string{"rare/**"}, From: client.Seq(mark + 1), MinSeq: mark, Node: w.addrs[r.IntN(3)], BufferBytes: 4 << 10})
		w.must(err)
		read := s.batch
		for s.upTo == mark {
			w.must(read(shortWait))
		}
		if s.close(); len(s.got) == 0 {
			quiet++
		}
		mark = s.upTo
		sessions = append(sessions, s)
	}
	close(stop)
	wg.Wait()
	if w.history {
		w.wantHistoryRead()
	}
	stream := w.audit()
	after := uint64(0)
	for _, s := range sessions {
		if s.after != after {
			t.Fatalf("%s begins after %d, the one before ended at %d", s.name, s.after, after)
		}
		after = s.upTo
		s.check(stream)
	}
	t.Logf("%d stops in %d messages, %d of them without a match", len(sessions), len(stream), quiet)
}
