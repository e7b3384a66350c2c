package demo

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/load"
)

// publisher publishes the stream at an even rate, exactly once, whatever happens to the nodes.
type publisher struct {
	stream   *stream
	client   *client.Client
	producer *client.Producer
	payload  []byte
	sent     uint64 // ids 1 to sent were handed over; of run's goroutine until it ends

	mu struct {
		sync.Mutex
		told    uint64 // outcomes of ids 1 to told are known
		acked   uint64
		lastSeq uint64
		failed  map[uint64]bool // never acknowledged
		err     error           // the first failure
		lastAck time.Time
		pause   time.Duration // longest time between two acks since watchPauses
		resumed time.Time     // when that pause ended
	}
}

func newPublisher(ctx context.Context, s *stream, servers []string) (*publisher, error) {
	p := &publisher{stream: s}
	p.mu.failed = map[uint64]bool{}
	var err error
	if p.client, err = client.Connect(ctx, client.Options{Servers: servers, Name: "cantus demo", ConnectWait: readyWait}); err != nil {
		return nil, err
	}
	if p.producer, err = p.client.Producer(ctx, client.ProducerOptions{OnAck: p.onAck}); err != nil {
		p.client.Close()
		return nil, err
	}
	return p, nil
}

func (p *publisher) close() { p.client.Close() }

// onAck takes outcomes, which come in the order of publishing.
func (p *publisher) onAck(a client.BatchAck) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.mu.told + 1
	p.mu.told += uint64(a.Count)
	if a.Err != nil {
		for id := first; id <= p.mu.told; id++ {
			p.mu.failed[id] = true
		}
		if p.mu.err == nil {
			p.mu.err = fmt.Errorf("messages %d to %d: %w", first, p.mu.told, a.Err)
		}
		return
	}
	p.mu.acked += uint64(a.Count)
	if a.FirstSeq > 0 {
		p.mu.lastSeq = max(p.mu.lastSeq, a.FirstSeq+uint64(a.Count)-1)
	}
	if pause := now.Sub(p.mu.lastAck); !p.mu.lastAck.IsZero() && pause > p.mu.pause {
		p.mu.pause, p.mu.resumed = pause, now
	}
	p.mu.lastAck = now
}

// watchPauses starts looking for the longest pause between acks. Acks that were on their way when a node was killed still
// come in; the pause that its death makes is the longest, and its end is when publishing resumed.
func (p *publisher) watchPauses(from time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.lastAck, p.mu.pause, p.mu.resumed = from, 0, time.Time{}
}

// resumedAfter is how long after t the longest pause ended; false while there were no acks.
func (p *publisher) resumedAfter(t time.Time) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.resumed.Sub(t), !p.mu.resumed.IsZero()
}

// longestPause is the longest time between two acks since watchPauses; false while there were none.
func (p *publisher) longestPause() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.pause, !p.mu.resumed.IsZero()
}

// run publishes until ctx ends or most messages were handed over.
func (p *publisher) run(ctx context.Context, perSecond float64, most uint64) error {
	pace := load.NewPacer(perSecond)
	for p.sent < most && pace.Wait(ctx) == nil {
		id := p.sent + 1
		p.payload = p.stream.appendPayload(p.payload[:0], id)
		if err := p.producer.Publish(ctx, string(p.stream.topic(id)), p.payload); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("publish message %d: %w", id, err)
		}
		p.sent = id
	}
	return nil
}

// outcome is what became of the messages, after run and Flush.
func (p *publisher) outcome() (acked, lastSeq uint64, failed map[uint64]bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.acked, p.mu.lastSeq, p.mu.failed, p.mu.err
}
