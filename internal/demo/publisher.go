package demo

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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
	sent     atomic.Uint64 // ids 1 to sent were handed over

	mu struct {
		sync.Mutex
		told    uint64 // outcomes of ids 1 to told are known
		acked   uint64
		lastSeq uint64
		failed  map[uint64]bool // never acknowledged
		err     error           // the first failure
		mark    uint64          // an ack of this id or a later one is waited for; 0: none is
		resumed chan time.Time  // gets when it came; one value per mark
	}
}

func newPublisher(ctx context.Context, s *stream, servers []string) (*publisher, error) {
	p := &publisher{stream: s}
	p.mu.failed = map[uint64]bool{}
	p.mu.resumed = make(chan time.Time, 1)
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
	if p.mu.mark > 0 && p.mu.told >= p.mu.mark {
		p.mu.mark = 0
		p.mu.resumed <- now
	}
}

// nextAck returns a channel that gets the time of the first ack of a message that is handed over from now on. Acks of
// earlier messages may still be on their way from a leader that is dead. Call it once at a time.
func (p *publisher) nextAck() <-chan time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.mark = p.sent.Load() + 2 // the next one may be in Publish already
	return p.mu.resumed
}

// run publishes until ctx ends or most messages were handed over.
func (p *publisher) run(ctx context.Context, perSecond float64, most uint64) error {
	pace := load.NewPacer(perSecond)
	for id := uint64(1); id <= most && pace.Wait(ctx) == nil; id++ {
		p.payload = p.stream.appendPayload(p.payload[:0], id)
		if err := p.producer.Publish(ctx, string(p.stream.topic(id)), p.payload); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("publish message %d: %w", id, err)
		}
		p.sent.Store(id)
	}
	return nil
}

// outcome is what became of the messages, after run and Flush.
func (p *publisher) outcome() (acked, lastSeq uint64, failed map[uint64]bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.acked, p.mu.lastSeq, p.mu.failed, p.mu.err
}
