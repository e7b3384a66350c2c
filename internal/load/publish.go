package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/dataset"
)

// PublishOptions of Publish.
type PublishOptions struct {
	Connect  client.Options
	Clients  int   // connections, each with a producer of its own; at least 1
	Messages int64 // in all; at least 1
	Size     int   // payload bytes, 1 to client.MaxPayload
	Topics   int   // distinct topics, used in turn; at least 1
	Payload  dataset.PayloadKind
	Inflight int           // messages in flight per client; 0: the client's default; 1: one at a time
	Batch    int           // bytes of a batch; 0: the client's default
	Linger   time.Duration // how long the client gathers; 0: its default
	Rate     float64       // messages a second in all; 0: as fast as acks allow
	Progress func(n int64) // settled messages; may be nil; called by many goroutines
}

func (o PublishOptions) validate() error {
	switch {
	case o.Clients < 1 || o.Clients > 100_000:
		return fmt.Errorf("load: %d clients: at least 1, at most 100000", o.Clients)
	case o.Messages < 1:
		return fmt.Errorf("load: %d messages: at least 1", o.Messages)
	case o.Size < 1 || o.Size > client.MaxPayload:
		return fmt.Errorf("load: payloads of %d bytes: 1 to %d", o.Size, client.MaxPayload)
	case o.Topics < 1:
		return fmt.Errorf("load: %d topics: at least 1", o.Topics)
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

// openPublishers connects all; on error the caller closes those that were opened.
func openPublishers(ctx context.Context, o PublishOptions) ([]*publisher, error) {
	workers := make([]*publisher, 0, o.Clients)
	for i := range o.Clients {
		c, err := client.Connect(ctx, o.Connect)
		if err != nil {
			return workers, err
		}
		w := &publisher{client: c, meter: newMeter(o.Progress), index: i, rng: events{rng: dataset.Rand{State: uint64(i) << 32}}}
		workers = append(workers, w)
		w.producer, err = c.Producer(ctx, client.ProducerOptions{
			MaxInflightMessages: o.Inflight, BatchBytes: o.Batch, Linger: o.Linger, OnAck: w.meter.onAck,
		})
		if err != nil {
			return workers, err
		}
	}
	return workers, nil
}

func closePublishers(workers []*publisher) {
	for _, w := range workers {
		w.client.Close()
	}
}

// run publishes n messages and returns how many were handed over.
func (w *publisher) run(ctx context.Context, o PublishOptions, names []string, n int64) (published int64) {
	at := w.index * len(names) / o.Clients
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

func (w *publisher) payload(o PublishOptions) []byte {
	if o.Payload == dataset.Random {
		w.rng.buf = w.rng.rng.AppendBytes(w.rng.buf[:0], o.Size)
		return w.rng.buf
	}
	return w.rng.next(o.Size)
}
