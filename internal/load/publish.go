package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/dataset"
)

// Bounds of a load.
const (
	// MaxClients is how many connections a node takes by default: with more, the last would wait for ever.
	MaxClients = 10_000
	MaxTopics  = 16_000_000

	// dialing is how many connections are opened at once.
	dialing = 32
)

// PublishOptions of Publish.
type PublishOptions struct {
	Connect  client.Options
	Clients  int   // connections, each with a producer of its own; 1 to MaxClients
	Messages int64 // in all; at least 1
	Size     int   // payload bytes, 1 to client.MaxPayload
	Topics   int   // distinct topics, divided among the clients, who use them in turn; 1 to MaxTopics
	Payload  dataset.PayloadKind
	Inflight int           // messages in flight per client; 0: the client's default; 1: one at a time
	Batch    int           // bytes of a batch; 0: the client's default
	Linger   time.Duration // how long the client gathers; 0: its default
	Rate     float64       // messages a second in all; 0: as fast as acks allow
	Progress func(n int64) // settled messages; may be nil; called by many goroutines
}

func (o PublishOptions) validate() error {
	switch {
	case o.Clients < 1 || o.Clients > MaxClients:
		return fmt.Errorf("load: %d clients: 1 to %d", o.Clients, MaxClients)
	case o.Messages < 1:
		return fmt.Errorf("load: %d messages: at least 1", o.Messages)
	case o.Size < 1 || o.Size > client.MaxPayload:
		return fmt.Errorf("load: payloads of %d bytes: 1 to %d", o.Size, client.MaxPayload)
	case o.Topics < 1 || o.Topics > MaxTopics:
		return fmt.Errorf("load: %d topics: 1 to %d", o.Topics, MaxTopics)
	case o.Inflight < 0 || o.Rate < 0:
		return errors.New("load: inflight and rate are not negative")
	}
	return nil
}

// Publish publishes o.Messages events through o.Clients producers and waits for every outcome. The error is of setting up
// or of the whole; refusals of single messages are counted.
func Publish(ctx context.Context, o PublishOptions) (Result, error) {
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	workers, err := openPublishers(ctx, o)
	defer closePublishers(workers)
	if err != nil {
		return Result{}, err
	}
	names := topicNames(o.Topics)
	var published atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for i, w := range workers {
		share := o.Messages/int64(o.Clients) + btoi(int64(i) < o.Messages%int64(o.Clients))
		wg.Go(func() { published.Add(w.run(ctx, o, names, share)) })
	}
	wg.Wait()
	elapsed := time.Since(began)
	meters := make([]*meter, len(workers))
	for i, w := range workers {
		meters[i] = w.meter
	}
	r := merge(meters, published.Load(), 0, elapsed)
	r.MBPerS = float64(r.Acked) * float64(o.Size) / 1e6 / elapsed.Seconds()
	return r, ctx.Err()
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// topicNames are of three segments, a thousand in a partition.
func topicNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("bench/p%d/t%d", i/1000, i%1000)
	}
	return names
}

// publisher is one connection with its producer.
type publisher struct {
	client   *client.Client
	producer *client.Producer
	meter    *meter
	index    int
	rng      events
}

// openPublishers connects all, several at a time, and gives up at the first that fails; on error the caller closes those that were
// opened.
func openPublishers(ctx context.Context, o PublishOptions) ([]*publisher, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	workers := make([]*publisher, o.Clients)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(dialing, o.Clients) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < o.Clients && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				var err error
				if workers[i], err = openPublisher(ctx, o, i); err != nil {
					cancel(fmt.Errorf("client %d of %d: %w", i+1, o.Clients, err))
				}
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(workers, func(w *publisher) bool { return w == nil }), context.Cause(ctx)
}

func openPublisher(ctx context.Context, o PublishOptions, i int) (*publisher, error) {
	c, err := client.Connect(ctx, o.Connect)
	if err != nil {
		return nil, err
	}
	w := &publisher{client: c, meter: newMeter(o.Progress), index: i, rng: events{rng: dataset.Rand{State: uint64(i) << 32}}}
	w.producer, err = c.Producer(ctx, client.ProducerOptions{
		MaxInflightMessages: o.Inflight, BatchBytes: o.Batch, Linger: o.Linger, OnAck: w.meter.onAck,
	})
	return w, err
}

func closePublishers(workers []*publisher) {
	for _, w := range workers {
		w.client.Close()
	}
}

// run publishes n messages and returns how many were handed over.
func (w *publisher) run(ctx context.Context, o PublishOptions, names []string, n int64) (published int64) {
	names, at := w.share(names, o.Clients), 0
	pace := NewPacer(o.Rate / float64(o.Clients))
	for range n {
		if pace.Wait(ctx) != nil {
			break
		}
		payload := w.payload(o)
		if err := w.producer.Publish(ctx, names[at], payload); err != nil {
			if ctx.Err() == nil {
				w.meter.fail(n-published, err)
			}
			break
		}
		published++
		if at++; at == len(names) {
			at = 0
		}
	}
	// Outcomes are told to the meter one by one; what Flush returns is the first of them again.
	_ = w.producer.Flush(ctx)
	return published
}

// share is the part of the topics that is this publisher's; all of them if there are fewer than publishers.
func (w *publisher) share(names []string, publishers int) []string {
	if len(names) < publishers {
		return names
	}
	return names[w.index*len(names)/publishers : (w.index+1)*len(names)/publishers]
}

func (w *publisher) payload(o PublishOptions) []byte {
	if o.Payload == dataset.Random {
		w.rng.buf = w.rng.rng.AppendBytes(w.rng.buf[:0], o.Size)
		return w.rng.buf
	}
	return w.rng.next(o.Size)
}
