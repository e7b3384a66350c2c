package client

import (
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
)

// batch is messages of one producer under neighbouring numbers. It is built, sealed, sent (perhaps more than once, the
// same bytes but for the aliases), settled, and reused.
type batch struct {
	builder record.BatchBuilder
	buf     []byte       // memory of the builder while it is being built, of bytes from then on
	bytes   record.Batch // nil until sealed
	topics  []uint32     // topicTable numbers, one for each message
	pre     []uint32     // same, one for each precondition
	dones   []func(Ack, error)
	atomic  bool
	number  uint64    // of the first message; set when sealed
	began   time.Time // when the first message was added
	charged int       // bytes that count against the producer's limit
	copies  int       // copies sent that may yet be executed, or were

	settled bool
	ack     BatchAck // valid when settled
}

// reset readies b for the next messages.
func (b *batch) reset(size int, pre []record.Precondition) {
	if cap(b.buf) < size {
		b.buf = make([]byte, 0, size)
	}
	b.builder.Reset(b.buf, pre)
	clear(b.dones)
	*b = batch{builder: b.builder, buf: b.buf, topics: b.topics[:0], pre: b.pre[:0], dones: b.dones[:0]}
}

// add copies a message in.
func (b *batch) add(topic uint32, headers []Header, payload []byte, done func(Ack, error)) error {
	if err := b.builder.Add(topic, headers, payload); err != nil {
		return addError(err)
	}
	if done != nil {
		for len(b.dones) < len(b.topics) {
			b.dones = append(b.dones, nil)
		}
		b.dones = append(b.dones, done)
	}
	b.topics = append(b.topics, topic)
	return nil
}

// addError says what is wrong with a message that no batch takes.
func addError(err error) error {
	if errors.Is(err, record.ErrTooLarge) || errors.Is(err, record.ErrBatchFull) {
		return &Error{Op: "publish", Code: CodePublishTooLarge, Cause: err}
	}
	return fmt.Errorf("publish: %w", err)
}

// seal gives the batch its place among the producer's numbers.
func (b *batch) seal(id ProducerID, epoch uint32, number uint64) {
	b.number = number
	b.bytes = b.builder.Finish(id, epoch, number, b.atomic)
	b.buf = b.bytes[:0]
}

// count is how many messages the batch has.
func (b *batch) count() int { return len(b.topics) }

// size is how many bytes it has.
func (b *batch) size() int {
	if b.bytes != nil {
		return len(b.bytes)
	}
	return b.builder.Size()
}

// settle records the outcome.
func (b *batch) settle(firstSeq uint64, t time.Time, duplicate bool, err error) {
	b.settled = true
	b.ack = BatchAck{FirstNumber: b.number, Count: b.count(), Bytes: b.size(), FirstSeq: firstSeq, Time: t,
		Began: b.began, Duplicate: duplicate, Err: err}
}

// call tells the messages' own callbacks.
func (b *batch) call() {
	for i, done := range b.dones {
		if done == nil {
			continue
		}
		a := Ack{Seq: b.ack.FirstSeq, Time: b.ack.Time, Duplicate: b.ack.Duplicate}
		if a.Seq != 0 {
			a.Seq += uint64(i)
		}
		done(a, b.ack.Err)
	}
}

// silent says whether a message of the batch has no callback. An atomic batch has one for all.
func (b *batch) silent() bool {
	if b.atomic {
		return false
	}
	if len(b.dones) < len(b.topics) {
		return true
	}
	for _, done := range b.dones {
		if done == nil {
			return true
		}
	}
	return false
}
