package client

import (
	"errors"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// maxKeptBuffer is the largest batch buffer that is kept for reuse, in bytes.
const maxKeptBuffer = maxBatchBytes + 64<<10

// pumpLocked sends the current batch when nothing is in flight, when it is full, or when somebody waits for it;
// otherwise it gathers more, for Linger at most.
func (p *Producer) pumpLocked() {
	b := p.mu.cur
	if b == nil || b.count() == 0 {
		return
	}
	full := b.size() > p.o.BatchBytes-record.HeaderSize
	if p.sealableLocked() && (full || len(p.mu.queue) == 0 || p.mu.flushing > 0 || p.mu.overdue) {
		p.sealLocked()
		return
	}
	if b.count() == 1 && p.o.Linger > 0 && !p.mu.overdue {
		p.mu.linger.Reset(p.o.Linger)
	}
}

// lingered sends what has gathered for long enough, or when there is room.
func (p *Producer) lingered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.err == nil {
		p.mu.overdue = true
		p.pumpLocked()
	}
}

// sealLocked closes the current batch and sends it if there is a link.
func (p *Producer) sealLocked() {
	b := p.mu.cur
	p.mu.cur, p.mu.overdue = nil, false
	b.seal(p.o.ID, p.mu.epoch, p.mu.next)
	p.mu.next += uint64(b.count())
	p.mu.queue = append(p.mu.queue, b)
	p.sendLocked(b)
}

// sendLocked sends a sealed batch, unless everything will be sent anew anyway.
func (p *Producer) sendLocked(b *batch) {
	if p.mu.link == nil || p.mu.trouble != nil {
		return
	}
	if b.copies > 0 {
		p.resent.Add(1)
	}
	if err := p.mu.link.publish(p, b, p.mu.gen); err != nil {
		p.mu.link.fail(err)
		p.troubleLocked(err)
		return
	}
	b.copies++
}

// troubleLocked makes keep send everything anew.
func (p *Producer) troubleLocked(err error) {
	if p.mu.trouble == nil {
		p.mu.trouble, p.mu.why = err, err
		p.signal()
	}
}

// signal wakes keep.
func (p *Producer) signal() { poke(p.wake) }

// poke leaves a token in a channel that holds one.
func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// verdict is what an answer means for a batch.
type verdict int

const (
	published verdict = iota // it is in the stream
	refused                  // it is not, and its numbers are used up
	retry                    // send it again under the same numbers
	deadEnd                  // this session can publish nothing more
	misfit                   // not executed, its numbers not used up: a batch that should never have been sent
)

// judge reads a code. known: this copy of the batch can no longer be executed, or was.
func judge(c Code) (v verdict, known bool) {
	switch c {
	case CodeOK, CodeDuplicate:
		return published, true
	case CodePreconditionFailed, CodeTooManyTopics, CodeInvalid, CodeSettled:
		return refused, true
	case CodeFenced, CodeUnknownProducer:
		return deadEnd, true
	case CodePublishTooLarge, CodeTooLarge, CodeBadTopic, CodeProtocol:
		return misfit, true
	case CodeOutOfOrder, CodeNotLeader, CodeUnavailable, CodeDiskFull, CodeShuttingDown:
		return retry, true
	}
	return retry, false
}

// onAck takes the answer to one copy of a batch. The connection's reader calls it.
func (p *Producer) onAck(w pending, a *wire.Ack, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := w.b
	if w.gen != p.mu.gen || b.settled {
		return
	}
	v, known := judge(Code(a.Code))
	if known && v != published {
		b.copies--
	}
	err := &Error{Op: "publish", Code: Code(a.Code), Detail: a.Detail, Index: int(a.Index), Message: text}
	switch v {
	case published:
		p.mu.acks++
		p.mu.why = nil
		duplicate := Code(a.Code) == CodeDuplicate
		if duplicate {
			p.duplicates.Add(1)
		}
		b.settle(a.FirstSeq, fromNanos(a.Time), duplicate, nil)
	case refused:
		p.mu.acks++
		p.mu.why = nil
		b.settle(0, time.Time{}, false, err)
	case retry:
		p.troubleLocked(err)
	case deadEnd:
		if p.fencedByItselfLocked(a) {
			p.mu.refence = true
			p.troubleLocked(err)
		} else {
			p.failLocked(err)
		}
	case misfit:
		p.abandonLocked(err)
	}
	p.collectLocked()
	p.pumpLocked()
}

// fromNanos is a stream time, zero for 0.
func fromNanos(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return time.Unix(0, ns)
}

// collectLocked takes the settled batches from the front of the queue.
func (p *Producer) collectLocked() {
	n := slices.IndexFunc(p.mu.queue, func(b *batch) bool { return !b.settled })
	if n < 0 {
		n = len(p.mu.queue)
	}
	for _, b := range p.mu.queue[:n] {
		p.tellLocked(b)
	}
	p.mu.queue = slices.Delete(p.mu.queue, 0, n)
}

// tellLocked hands a settled batch to tell if somebody wants to hear of it.
func (p *Producer) tellLocked(b *batch) {
	quiet := p.o.OnAck == nil && len(b.dones) == 0
	if quiet && len(p.mu.settled) == 0 && !p.mu.telling {
		p.releaseLocked(b)
		return
	}
	p.mu.settled = append(p.mu.settled, b)
	poke(p.news)
}

// releaseLocked ends a batch of whose outcome everybody was told.
func (p *Producer) releaseLocked(b *batch) {
	p.mu.bytes -= b.charged
	p.mu.messages -= b.count()
	p.mu.told += uint64(b.count())
	if b.ack.Err != nil && p.mu.lost == nil && p.o.OnAck == nil && b.silent() {
		p.mu.lost = b.ack.Err
	}
	if cap(b.buf) > maxKeptBuffer {
		b.buf = nil
	}
	if len(p.mu.free) < MaxInflightBatches {
		p.mu.free = append(p.mu.free, b)
	}
	p.roomChangedLocked()
}

// roomChangedLocked lets those who wait look again.
func (p *Producer) roomChangedLocked() {
	if p.mu.waiting {
		p.mu.waiting = false
		close(p.mu.room)
		p.mu.room = make(chan struct{})
	}
}

// failLocked ends the producer for good.
func (p *Producer) failLocked(err error) {
	if p.mu.err != nil {
		return
	}
	p.mu.err = err
	p.mu.linger.Stop()
	p.abandonLocked(err)
	p.dropCurrentLocked(err)
	p.roomChangedLocked()
	p.signal()
	poke(p.news)
}

// abandonLocked gives up all that was sealed: each batch is told what is known of its fate. The session's numbers have a
// hole now, so the next needs a new epoch.
func (p *Producer) abandonLocked(cause error) {
	p.mu.gen++
	p.mu.reopen, p.mu.refence = true, false
	if p.mu.link != nil {
		p.mu.link.forget(p)
	}
	for _, b := range p.mu.queue {
		if !b.settled {
			b.settle(0, time.Time{}, false, fate(b.copies > 0, cause))
		}
	}
	p.collectLocked()
	p.troubleLocked(cause)
	if !p.own && p.mu.err == nil {
		p.failLocked(cause)
	}
}

// dropCurrentLocked gives up what was never sent.
func (p *Producer) dropCurrentLocked(cause error) {
	b := p.mu.cur
	p.mu.cur = nil
	if b != nil && b.count() > 0 {
		b.settle(0, time.Time{}, false, fate(false, cause))
		p.tellLocked(b)
	}
}

// fate says what became of a batch that is given up: with a copy on its way nobody knows. The cause is a text if it speaks
// of a fate itself: that of an attempt is not that of the batch.
func fate(sent bool, cause error) error {
	e := &Error{Op: "publish", Code: CodeUnavailable}
	if sent {
		e.Code = CodeUnknown
	}
	if errors.Is(cause, ErrUnknownFate) || errors.Is(cause, ErrUnavailable) {
		e.Message = cause.Error()
	} else {
		e.Cause = cause
	}
	return e
}
