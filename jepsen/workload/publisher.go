package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

const (
	settleWait = 40 * time.Second      // how long a publisher waits at its end for outcomes
	tick       = 20 * time.Millisecond // publishers send what is due so often
)

// publisher publishes single messages, many on their way at once.
type publisher struct {
	w       *World
	r       *rand.Rand
	process int
	topics  []string
	rate    int // a second
	size    int // of payloads, at most
	retry   time.Duration
	name    string // of the producer; "": each opening is a new one
	// reopen is how many messages a producer publishes before another takes its id over, at most; 0: no end. The one before
	// may still have messages on their way, or even goes on for a moment.
	reopen int
}

// addPublisher starts a publisher.
func (w *World) addPublisher(p publisher) {
	p.w, p.process = w, w.process()
	p.r = w.source(fmt.Sprint("publisher", p.process))
	w.publishers.Go(p.run)
}

func (p *publisher) run() {
	c, err := p.w.connect(p.w.publish, p.r, nil)
	if err != nil {
		return // the run ended before a node answered
	}
	defer c.Close()
	for p.w.publish.Err() == nil {
		if err := p.session(c); err != nil && p.w.publish.Err() == nil {
			p.w.note(fmt.Sprintf("publisher %d: %v", p.process, err))
			pause.For(p.w.publish, 100*time.Millisecond)
		}
	}
}

// session publishes with one producer until it is time for another, or it fails.
func (p *publisher) session(c *client.Client) error {
	o := client.ProducerOptions{RetryTimeout: p.retry, BatchBytes: 1 << (11 + p.r.IntN(6)), MaxInflightMessages: 2000}
	if p.name != "" {
		o.ID = client.NamedProducer(p.name)
	}
	producer, err := c.Producer(p.w.publish, o)
	if err != nil {
		return err
	}
	s := &sender{w: p.w, process: p.process, producer: producer}
	err = p.send(s)
	ctx, cancel := context.WithTimeout(context.Background(), settleWait)
	if p.reopen > 0 && p.w.publish.Err() == nil && p.r.IntN(2) == 0 {
		// The next session fences this one with messages on their way.
		p.w.publishers.Go(func() {
			defer cancel()
			_ = producer.Close(ctx) // outcomes are recorded one by one
		})
		return err
	}
	defer cancel()
	_ = producer.Close(ctx) // outcomes are recorded one by one
	return err
}

// send publishes at the rate. A slow cluster makes it slower; what was missed is not caught up with.
func (p *publisher) send(s *sender) error {
	left := -1
	if p.reopen > 0 {
		left = 1 + p.r.IntN(p.reopen)
	}
	due, last := 0.0, time.Now()
	for pause.For(p.w.publish, tick) {
		now := time.Now()
		due = min(due+now.Sub(last).Seconds()*float64(p.rate), float64(p.rate)/5+1)
		last = now
		for ; due >= 1; due-- {
			if left == 0 {
				return nil
			}
			left--
			size := history.MinPayload + p.r.IntN(max(1, p.size-history.MinPayload))
			if err := s.publish(p.topics[p.r.IntN(len(p.topics))], size); err != nil {
				return err
			}
		}
	}
	return nil
}

// sender publishes through one producer and records. One goroutine.
type sender struct {
	w        *World
	process  int
	producer *client.Producer
	number   uint64 // of the last message
	payload  []byte
}

// publish hands a message over; its outcome is recorded when it is known. An error means that the producer is of no more use,
// or the run is over.
func (s *sender) publish(topic string, size int) error {
	id := s.w.Record.NextID()
	s.payload = history.AppendPayload(s.payload[:0], id, 0, size)
	e := &history.Publish{
		Process: s.process, Producer: fmt.Sprint(s.producer.ID()), Epoch: s.producer.Epoch(), Number: s.number + 1,
		Messages: []history.Sent{{ID: id, Topic: topic}}, Invoke: s.w.Record.Now(),
	}
	err := s.producer.PublishAsync(s.w.publish, topic, s.payload, func(a client.Ack, err error) { s.w.settle(e, a, err) })
	if err == nil {
		s.number++
		return nil
	}
	e.Producer, e.Epoch, e.Number = "", 0, 0 // it never got a number
	s.w.settleAs(e, history.Refused, err)
	return err
}

// settle records the outcome of a publish of one message.
func (w *World) settle(e *history.Publish, a client.Ack, err error) {
	if err != nil {
		w.settleAs(e, outcome(err), err)
		return
	}
	e.Return, e.Outcome = w.Record.Now(), history.OK
	e.FirstSeq, e.Duplicate = a.Seq, a.Duplicate
	if !a.Time.IsZero() {
		e.Time = a.Time.UnixNano()
	}
	w.acked.Add(1)
	w.raise(a.Seq)
	w.Record.Write(e)
}

// settleAs records an outcome that is no success.
func (w *World) settleAs(e *history.Publish, o history.Outcome, err error) {
	e.Return, e.Outcome, e.Code = w.Record.Now(), o, err.Error()
	var refusal *client.Error
	if errors.Is(err, client.ErrPreconditionFailed) && errors.As(err, &refusal) {
		e.Failed, e.FailedIndex, e.FailedSeq = true, refusal.Index, refusal.Detail
	}
	w.failed.Add(uint64(len(e.Messages)))
	w.Record.Write(e)
}

// outcome of a call that failed. The client says so when it does not know; a call that was cut short does not know either.
func outcome(err error) history.Outcome {
	if errors.Is(err, client.ErrUnknownFate) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return history.Unknown
	}
	return history.Refused
}
