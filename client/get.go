package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// Get returns the last message of a topic. ErrNotFound if it has none, ErrGone if that is not kept any more. The message is the
// caller's.
func (c *Client) Get(ctx context.Context, topicName string, options ...GetOption) (Message, error) {
	op := "get last of " + topicName
	if err := topic.Validate(topicName); err != nil {
		return Message{}, &Error{Op: op, Code: CodeBadTopic, Cause: err}
	}
	q, _ := newQuery(wire.QueryLast, options)
	q.Filters = []string{topicName}
	m, err := c.getOne(ctx, op, &q)
	if err == nil && m.Topic != topicName {
		return Message{}, &Error{Op: op, Code: CodeProtocol, Message: fmt.Sprintf("the server sent a message of %q", m.Topic)}
	}
	return m, err
}

// GetAt returns the message with a seq. ErrNotYet if there is none in time (see MaxWait), ErrGone if it is not kept any more. The
// message is the caller's.
func (c *Client) GetAt(ctx context.Context, seq uint64, options ...GetOption) (Message, error) {
	op := fmt.Sprintf("get message %d", seq)
	q, _ := newQuery(wire.QueryMessage, options)
	q.Seq = seq
	m, err := c.getOne(ctx, op, &q)
	if err == nil && m.Seq != seq {
		return Message{}, &Error{Op: op, Code: CodeProtocol, Message: fmt.Sprintf("the server sent message %d", m.Seq)}
	}
	return m, err
}

// GetAll yields the last message of each topic under the filters, as they were at one seq, whatever is published meanwhile, in no order
// that means something. Topics whose last message is not kept any more are left out. It ends after the last, with an error, or when the
// loop is left. The messages are the caller's.
func (c *Client) GetAll(ctx context.Context, filters []string, options ...GetOption) iter.Seq2[Message, error] {
	filters = slices.Clone(filters)
	return func(yield func(Message, error) bool) {
		const op = "get last of each"
		if _, err := topic.ParseFilters(filters); err != nil {
			yield(Message{}, &Error{Op: op, Code: CodeBadFilter, Cause: err})
			return
		}
		q, o := newQuery(wire.QueryLastEach, options)
		q.Filters = filters
		for {
			a, err := c.ask(ctx, op, &q)
			if err != nil {
				yield(Message{}, err)
				return
			}
			if o.snapshot != nil {
				*o.snapshot = a.Seq
			}
			for m := range answered(&a) {
				if !yield(m, nil) {
					return
				}
			}
			if a.Next == 0 {
				return
			}
			if a.Next <= q.After {
				yield(Message{}, &Error{Op: op, Code: CodeProtocol, Message: fmt.Sprintf("page after %d goes on after %d", q.After, a.Next)})
				return
			}
			q.Seq, q.After, q.Linearizable = a.Seq, a.Next, false
		}
	}
}

func newQuery(kind wire.QueryKind, options []GetOption) (wire.Query, getOptions) {
	o := getOptions{wait: DefaultMinSeqWait}
	for _, set := range options {
		set(&o)
	}
	q := wire.Query{Kind: kind, Linearizable: o.linearizable, MinSeq: o.minSeq, Seq: o.asOf}
	q.WaitMS = uint32(min(max(o.wait, 0).Milliseconds(), 1<<31))
	return q, o
}

func (c *Client) getOne(ctx context.Context, op string, q *wire.Query) (Message, error) {
	a, err := c.ask(ctx, op, q)
	if err != nil {
		return Message{}, err
	}
	for m := range answered(&a) {
		return m, nil
	}
	return Message{}, &Error{Op: op, Code: CodeProtocol, Message: "the server sent an answer without a message"}
}

// answered yields the messages of an answer.
func answered(a *wire.Answer) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		run := a.Run
		for _, name := range a.Topics {
			rec := record.First(run)
			run = run[record.Scan(run):]
			m := Message{Seq: rec.Seq(), Time: time.Unix(0, rec.Time()), Topic: name, Payload: rec.Payload()}
			if rec.HasHeaders() {
				m.rec = rec
			}
			if !yield(m) {
				return
			}
		}
	}
}

// ask tries one node after another until one answers, or refuses for a reason that another node would give too, or ctx or the time for
// retries ends.
func (c *Client) ask(ctx context.Context, op string, q *wire.Query) (wire.Answer, error) {
	var deadline time.Time
	if d := c.o.RetryTimeout; d > 0 {
		deadline = time.Now().Add(d)
	}
	avoid := ""
	for try := 0; ; try++ {
		_, changed := c.watch()
		cn, err := c.connAny(ctx, func(*conn) bool { return true }, avoid)
		if err == nil {
			avoid = cn.addr
			var a wire.Answer
			if a, err = cn.query(ctx, op, q); err == nil {
				return a, nil
			}
		}
		switch {
		case ctx.Err() != nil, conclusive(err):
			return wire.Answer{}, gaveUp(ctx, err)
		case c.ctx.Err() != nil:
			return wire.Answer{}, fmt.Errorf("%s: client: %w", op, ErrClosed)
		case !deadline.IsZero() && time.Now().After(deadline):
			return wire.Answer{}, &Error{Op: op, Code: CodeUnavailable, Cause: err}
		}
		c.log.Info("ask again", "for", op, "cause", err)
		if try == 0 {
			continue // the next node may do
		}
		if err := sleep(ctx, backoff(try), changed); err != nil {
			return wire.Answer{}, fmt.Errorf("%s: %w", op, err)
		}
	}
}

// conclusive says whether a query's error is an answer.
func conclusive(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrNotYet) || errors.Is(err, ErrBadTopic) || refusal(err)
}

// queryAnswer is what a query waits for.
type queryAnswer struct {
	answer wire.Answer
	err    error
}

// query asks one node and waits for its answer.
func (cn *conn) query(ctx context.Context, op string, q *wire.Query) (wire.Answer, error) {
	ch := make(chan queryAnswer, 1)
	cn.mu.Lock()
	id, err := cn.nextIDLocked()
	if err != nil {
		cn.mu.Unlock()
		return wire.Answer{}, err
	}
	cn.mu.out = wire.AppendQuery(cn.mu.out, id, q)
	cn.mu.pending[id] = pending{queried: ch, op: op}
	cn.mu.Unlock()
	cn.wakeWriter()
	select {
	case a := <-ch:
		return a.answer, a.err
	case <-ctx.Done():
		cn.take(id)
		return wire.Answer{}, fmt.Errorf("%s: %w", op, ctx.Err())
	}
}

// onAnswer hands an answer to its query.
func (cn *conn) onAnswer(f *wire.Frame) error {
	w, ok := cn.take(f.ID)
	if !ok || w.queried == nil {
		return nil // its query was given up
	}
	a, err := wire.DecodeAnswer(f.Body)
	if err != nil {
		w.queried <- queryAnswer{err: err}
		return err
	}
	a.Run = slices.Clone(a.Run)
	w.queried <- queryAnswer{answer: a}
	return nil
}
