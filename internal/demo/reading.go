package demo

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// subsets are what the readers want: a topic, subtrees small and large, overlapping ones, and one that nobody publishes
// to.
var subsets = [][]string{
	{"ansible/lib/**"},
	{"etcd/**", "etcd/server/**", "prometheus/**", "ansible/CHANGELOG.md"},
	{"ansible/docs/**", "rqlite/**", "ansible/docs/docsite/**"},
	{"nobody/publishes/here/**"},
}

// reading is one subscription whose messages are checked as they come. Its goroutine ends with stop, an error, or ctx.
type reading struct {
	filters []string
	sub     *client.Subscription
	checker *checker
	count   atomic.Uint64
	history uint64        // messages that came from disk; its goroutine's until ended is closed
	ended   chan struct{} // closed when its goroutine is over
	err     error         // why; set before ended is closed
}

// openReading subscribes from the first message on, at the node with this address.
func openReading(ctx context.Context, c *client.Client, s *stream, filters []string, at string, minSeq uint64) (*reading, error) {
	sub, err := c.Subscribe(ctx, client.SubscribeOptions{
		Filters: filters, From: client.First(), Node: at, MinSeq: minSeq, MinSeqWait: readyWait,
	})
	if err != nil {
		return nil, fmt.Errorf("read %q at %s: %w", filters, at, err)
	}
	return &reading{filters: filters, sub: sub, checker: newChecker(s, filters), ended: make(chan struct{})}, nil
}

// run reads until ctx ends, or to caught-up if asked for.
func (r *reading) run(ctx context.Context, toCaughtUp bool) {
	r.err = r.loop(ctx, toCaughtUp)
	close(r.ended)
}

func (r *reading) loop(ctx context.Context, toCaughtUp bool) error {
	for {
		b, err := r.sub.NextBatch(ctx)
		if err != nil {
			return err
		}
		if b.CaughtUp() && toCaughtUp {
			return nil
		}
		for m := range b.All() {
			r.checker.take(m.Seq, m.Topic, m.Payload)
			if m.History {
				r.history++
			}
		}
		r.count.Add(uint64(b.Len()))
	}
}

// positionPoll is how often waitPosition looks.
const positionPoll = 10 * time.Millisecond

// waitPosition waits until everything up to seq was delivered, matching or not.
func (r *reading) waitPosition(ctx context.Context, seq uint64) error {
	tick := time.NewTicker(positionPoll)
	defer tick.Stop()
	for r.sub.Position() < seq {
		select {
		case <-tick.C:
		case <-r.ended:
			return fmt.Errorf("reading %q ended: %w", r.filters, r.err)
		case <-ctx.Done():
			return fmt.Errorf("reading %q stands at seq %d, wanted %d: %w", r.filters, r.sub.Position(), seq, ctx.Err())
		}
	}
	return nil
}

// end stops the reading and waits for its goroutine, after which the checker may be asked.
func (r *reading) end() {
	r.sub.Close()
	<-r.ended
}
