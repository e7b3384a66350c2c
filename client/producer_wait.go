package client

import (
	"context"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
)

// waiter carries an outcome from a callback to the caller that waits.
type waiter struct {
	ch  chan struct{}
	ack Ack
	err error
}

func newWaiter() *waiter { return &waiter{ch: make(chan struct{})} }

func (w *waiter) done(a Ack, err error) {
	w.ack, w.err = a, err
	close(w.ch)
}

func (w *waiter) wait(ctx context.Context, topic string) (Ack, error) {
	select {
	case <-w.ch:
		if w.err != nil {
			return Ack{}, fmt.Errorf("topic %s: %w", topic, w.err)
		}
		return w.ack, nil
	case <-ctx.Done():
		return Ack{}, &Error{Op: "publish to " + topic, Code: CodeUnknown, Cause: ctx.Err()}
	}
}

// PublishAtomic publishes all messages under neighbouring seqs, the first of which it returns, or none. With
// preconditions it publishes only if each holds at that moment (ErrPreconditionFailed; Error.Index says which did not
// and Error.Detail what its topic's last seq is). All messages together are at most about 1 MiB.
func (p *Producer) PublishAtomic(ctx context.Context, messages []Outgoing, preconditions []Precondition) (firstSeq uint64, err error) {
	if len(messages) == 0 {
		return 0, fmt.Errorf("publish atomically: no messages")
	}
	b, err := p.buildAtomic(messages, preconditions)
	if err != nil {
		return 0, fmt.Errorf("publish atomically: %w", err)
	}
	w := newWaiter()
	b.dones = append(b.dones, w.done)
	if err := p.queueAtomic(ctx, b); err != nil {
		return 0, err
	}
	a, err := w.wait(ctx, messages[0].Topic)
	return a.Seq, err
}

// buildAtomic lays out the batch.
func (p *Producer) buildAtomic(messages []Outgoing, preconditions []Precondition) (*batch, error) {
	b := new(batch)
	var pre []record.Precondition
	var numbers []uint32
	for _, c := range preconditions {
		id, err := p.c.topics.id(c.Topic)
		if err != nil {
			return nil, err
		}
		pre = append(pre, record.Precondition{Topic: id, LastSeq: c.LastSeq})
		numbers = append(numbers, id)
	}
	b.reset(minBatchBytes, pre)
	b.atomic, b.pre = true, numbers
	for i := range messages {
		m := &messages[i]
		id, err := p.c.topics.id(m.Topic)
		if err != nil {
			return nil, err
		}
		if err := b.add(id, m.Headers, m.Payload, nil); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// queueAtomic puts the batch behind all that was published before.
func (p *Producer) queueAtomic(ctx context.Context, b *batch) error {
	size := b.size()
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.waitLocked(ctx, func() bool {
		if p.mu.reopen || len(p.mu.queue)+2 > MaxInflightBatches {
			return false
		}
		fits := p.mu.messages+b.count() <= p.o.MaxInflightMessages && p.mu.bytes+size <= p.o.MaxInflightBytes
		return fits || p.mu.messages == 0
	})
	if err != nil {
		return err
	}
	if p.mu.cur != nil && p.mu.cur.count() > 0 {
		p.sealLocked()
	}
	b.began = time.Now()
	spare := p.mu.cur
	p.mu.cur = b
	p.chargeLocked(b, size, b.count())
	p.sealLocked()
	p.mu.cur = spare
	return nil
}

// Flush sends what has gathered and waits until all that was published before the call is settled. It returns the
// first failure since the last Flush that no callback was told of.
func (p *Producer) Flush(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.flushing++
	defer func() { p.mu.flushing-- }()
	p.pumpLocked()
	for target := p.mu.added; p.mu.told < target; {
		if err := p.awaitChangeLocked(ctx); err != nil && p.mu.told < target {
			return fmt.Errorf("flush: %d messages in flight: %w", p.mu.messages, err)
		}
	}
	err := p.mu.lost
	p.mu.lost = nil
	return err
}

// Close flushes, as long as ctx allows, and ends the producer; it returns Flush's error. What is not settled by then
// fails. The id can be opened again.
func (p *Producer) Close(ctx context.Context) error {
	err := p.Flush(ctx)
	p.cancel()
	p.tasks.Wait()
	return err
}
