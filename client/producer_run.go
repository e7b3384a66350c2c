package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// openTimeout bounds one attempt to open a producer.
const openTimeout = 5 * time.Second

// Bounds of how often a producer looks after its deadlines.
const (
	tendMin = 5 * time.Millisecond
	tendMax = time.Second
)

// openFirst opens the producer, trying again until ctx or the time for retries ends.
func (p *Producer) openFirst(ctx context.Context) error {
	caller := ctx
	if p.o.RetryTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.o.RetryTimeout)
		defer cancel()
	}
	for try := 0; ; try++ {
		_, changed := p.c.watch()
		err := p.connect(ctx)
		var e *Error
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrClosed), errors.As(err, &e) && e.Code == CodeTooManyProducers:
			return err
		}
		if sleep(ctx, backoff(try), changed) != nil {
			return gaveUp(caller, err)
		}
		if p.c.ctx.Err() != nil {
			return ErrClosed
		}
	}
}

// tender is what keep knows.
type tender struct {
	tries int       // attempts since things went well, whatever came of them
	acks  uint64    // acks at the last attempt
	next  time.Time // no attempt to connect before
}

// heard brings the next attempt near: who leads may have changed.
func (t *tender) heard(now time.Time) {
	if soon := now.Add(halved(newsMax)); t.next.Before(now) || t.next.After(soon) {
		t.next = soon
	}
}

// keep watches deadlines and keeps the producer linked to the leader, until it fails or is closed.
func (p *Producer) keep() {
	var t tender
	for p.alive() {
		topology, changed := p.c.watch()
		p.expire()
		timer := time.NewTimer(p.tend(&t, &topology))
		select {
		case <-p.wake:
		case <-timer.C:
		case <-p.lost():
		case <-changed:
			t.heard(time.Now())
		case <-p.ctx.Done():
			p.mu.Lock()
			p.failLocked(fmt.Errorf("producer: %w", ErrClosed))
			p.mu.Unlock()
		}
		timer.Stop()
	}
}

// tell tells outcomes until the producer has failed or was closed, and all of them are told.
func (p *Producer) tell() {
	for p.alive() {
		<-p.news
		p.deliver()
	}
	p.deliver()
}

// alive says that the producer has neither failed nor was closed. Once it has, all outcomes are settled.
func (p *Producer) alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.err == nil
}

// lost returns a channel that is closed when the link ends; nil if that is known already.
func (p *Producer) lost() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.link == nil || !p.mu.link.usable() {
		return nil
	}
	return p.mu.link.done
}

// deliver tells the outcomes of settled batches.
func (p *Producer) deliver() {
	for {
		p.mu.Lock()
		list := p.mu.settled
		p.mu.settled = nil
		p.mu.telling = len(list) > 0
		p.mu.Unlock()
		if len(list) == 0 {
			return
		}
		for _, b := range list {
			if p.o.OnAck != nil {
				p.o.OnAck(b.ack)
			}
			b.call()
		}
		p.mu.Lock()
		for _, b := range list {
			p.releaseLocked(b)
		}
		p.pumpLocked()
		p.mu.Unlock()
	}
}

// deadline is when the oldest unsettled message has waited too long; zero: never.
func (p *Producer) deadlineLocked() time.Time {
	switch {
	case p.o.RetryTimeout < 0:
	case len(p.mu.queue) > 0:
		return p.mu.queue[0].began.Add(p.o.RetryTimeout)
	case p.mu.cur != nil && p.mu.cur.count() > 0:
		return p.mu.cur.began.Add(p.o.RetryTimeout)
	}
	return time.Time{}
}

// expire gives up what has been retried for too long.
func (p *Producer) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.deadlineLocked()
	if d.IsZero() || time.Now().Before(d) {
		return
	}
	cause := p.mu.why
	if cause == nil {
		cause = errors.New("no answer from the server")
	}
	cause = fmt.Errorf("gave up after %v: %w", p.o.RetryTimeout, cause)
	if len(p.mu.queue) > 0 {
		p.abandonLocked(cause)
	}
	if d := p.deadlineLocked(); !d.IsZero() && !time.Now().Before(d) {
		p.dropCurrentLocked(cause)
	}
}

// tend makes one attempt to link to the best node if that is due, and returns how long to wait before the next look.
func (p *Producer) tend(t *tender, topology *Topology) time.Duration {
	p.mu.Lock()
	trouble, link, acks := p.mu.trouble, p.mu.link, p.mu.acks
	deadline := p.deadlineLocked()
	p.mu.Unlock()
	idle := min(max(p.o.RetryTimeout/8, tendMin), tendMax)
	if p.o.RetryTimeout < 0 {
		idle = tendMax
	}
	elsewhere := link != nil && topology.LeaderID != "" && topology.LeaderID != link.nodeID
	if trouble == nil && link != nil && link.usable() && !elsewhere {
		if time.Since(t.next) > backoffMax { // and not just until the answer is here that says "not now"
			t.tries = 0
		}
		return idle
	}
	if wait := time.Until(t.next); wait > 0 {
		return min(wait, idle)
	}
	ctx, cancel := p.ctx, context.CancelFunc(func() {})
	if !deadline.IsZero() {
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(tendMin))
	}
	defer cancel()
	if err := p.connect(ctx); err != nil {
		p.note(err)
	}
	// A server that answers "not now" is asked again no sooner than one that does not answer.
	if acks != t.acks {
		t.tries, t.acks = 0, acks
	}
	t.next = time.Now().Add(min(backoff(t.tries), idle))
	t.tries++
	return min(time.Until(t.next), idle)
}

// note remembers why there is no link, for the error of those who wait.
func (p *Producer) note(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.trouble, p.mu.why = err, err
}

// connect links to the leader, or to another node that forwards to it, opens the producer if it must be, and sends all
// that is not settled, in order. It changes nothing if the link is good and the leader cannot be had.
func (p *Producer) connect(ctx context.Context) error {
	p.mu.Lock()
	if p.mu.err != nil { // to open now would take the id from whoever has it
		defer p.mu.Unlock()
		return p.mu.err
	}
	old, avoid, need := p.mu.link, "", p.openingLocked()
	if old != nil && (p.mu.trouble != nil || !old.usable()) {
		avoid = old.addr
	}
	p.mu.Unlock()
	cn, err := p.c.connForPublish(ctx, avoid)
	if err != nil {
		return err
	}
	var opened wire.ProducerOpened
	if need != noOpening {
		if opened, err = p.open(ctx, cn); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err != nil || need != p.openingLocked() {
		return p.mu.err
	}
	if old != nil && old.usable() && p.mu.trouble == nil && need == noOpening && cn.nodeID != p.c.Topology().LeaderID {
		return nil
	}
	if !p.openedLocked(need, &opened) {
		return p.mu.err
	}
	p.sendAllLocked(cn)
	return nil
}

// sendAllLocked begins a new generation on cn.
func (p *Producer) sendAllLocked(cn *conn) {
	if p.mu.link != nil {
		p.mu.link.forget(p)
		p.relinked.Add(1)
	}
	p.mu.link, p.mu.trouble = cn, nil
	p.mu.gen++
	for _, b := range p.mu.queue {
		if !b.settled {
			p.sendLocked(b)
		}
	}
	p.pumpLocked()
}
