package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// Batch is neighbouring messages of a subscription in their order. It lies in a receive buffer and is valid until the
// next call of NextBatch or step of Messages.
type Batch struct {
	names    *topicNames
	run      []byte // records back to back, checked
	count    int
	history  bool
	caughtUp bool
	buf      *wire.Buffer // behind run
	size     int          // credit to give back
}

// Len is how many messages the batch has. An empty one only tells CaughtUp.
func (b *Batch) Len() int { return b.count }

// CaughtUp says that with this batch, which is empty, everything was read that was there when the subscription was opened.
// It comes once.
func (b *Batch) CaughtUp() bool { return b.caughtUp }

// All yields the messages. Their payloads are valid as long as the batch.
func (b *Batch) All() iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for run := b.run; len(run) > 0; run = run[record.Scan(run):] {
			if !yield(b.message(run)) {
				return
			}
		}
	}
}

// message is the first message of a run.
func (b *Batch) message(run []byte) Message {
	rec := record.First(run)
	m := Message{Seq: rec.Seq(), Time: time.Unix(0, rec.Time()), Topic: b.names.get(rec.Topic()), Payload: rec.Payload(), History: b.history}
	if rec.HasHeaders() {
		m.rec = rec
	}
	return m
}

// Messages yields messages as they come, for ever: it ends when the loop is left, or with an error, that of ctx included.
// Lost connections are not errors. The next call goes on where this one ended.
func (s *Subscription) Messages(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) { s.each(ctx, yield, false) }
}

// ToCaughtUp is Messages, but it ends without an error when everything was yielded that was in the stream when the
// subscription was opened.
func (s *Subscription) ToCaughtUp(ctx context.Context) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) { s.each(ctx, yield, true) }
}

func (s *Subscription) each(ctx context.Context, yield func(Message, error) bool, toCaughtUp bool) {
	for {
		for s.rest > 0 {
			run := s.batch.run
			m := s.batch.message(run)
			s.batch.run = run[record.Scan(run):]
			s.batch.count--
			s.rest--
			s.position.Store(m.Seq)
			if s.rest == 0 {
				s.position.Store(s.resume)
			}
			if !yield(m, nil) {
				return
			}
		}
		if toCaughtUp && s.caught {
			return
		}
		if err := s.fill(ctx); err != nil {
			yield(Message{}, err)
			return
		}
		s.rest = s.batch.count
	}
}

// NextBatch waits for the next messages, or for the news of having caught up: then the batch is empty. Lost connections
// are not errors. Position counts the whole batch as handed over.
func (s *Subscription) NextBatch(ctx context.Context) (*Batch, error) {
	if s.rest == 0 {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
	}
	s.rest = 0
	s.position.Store(s.resume)
	return &s.batch, nil
}

// fill replaces the batch by the next one.
func (s *Subscription) fill(ctx context.Context) error {
	s.release()
	for {
		l := s.link()
		if l == nil {
			if err := s.reopen(ctx); err != nil {
				return err
			}
			continue
		}
		it, ok := l.pop()
		if !ok {
			s.grant(l, 1)
			var err error
			if it, err = l.next(ctx, s.closed); err != nil {
				return fmt.Errorf("read: %w", err)
			}
		}
		done, err := s.take(l, &it)
		if done || err != nil {
			return err
		}
	}
}

// release gives back the buffer of the batch that the caller has read.
func (s *Subscription) release() {
	s.freed += s.batch.size
	s.batch.buf.Free()
	s.batch = Batch{}
	s.rest = 0
	if l := s.link(); l != nil {
		s.grant(l, s.o.BufferBytes/4)
	}
}

// grant gives credit back if it is worth a frame.
func (s *Subscription) grant(l *link, atLeast int) {
	if s.freed >= atLeast {
		l.grant(s.freed)
		s.freed = 0
	}
}

// take handles one item; done: there is something for the caller.
func (s *Subscription) take(l *link, it *item) (done bool, err error) {
	switch it.kind {
	case itemData:
		if reason := s.check(l, it); reason != "" {
			it.buf.Free()
			return false, s.heal(reason)
		}
		s.heals, s.barren.count = 0, 0
		s.batch = Batch{names: &l.cn.names, run: it.data.Run, history: it.data.History, count: int(it.data.Count), buf: it.buf, size: it.size}
		return true, nil
	case itemProgress:
		if it.seq > s.resume {
			s.resume = it.seq
			s.position.Store(it.seq)
		}
	case itemCaughtUp:
		return s.takeCaughtUp(it)
	case itemLost:
		s.avoid = l.cn.addr
		s.setLink(nil)
		s.barren.lost(time.Since(s.opened), it.err)
	case itemEnded:
		s.avoid = l.cn.addr
		s.setLink(nil)
		if refusal(it.err) {
			return false, fmt.Errorf("read: %w", it.err)
		}
		s.barren.ended(time.Since(s.opened), it.err)
	case itemSubscribed:
		return false, s.heal("second SUBSCRIBED")
	}
	return false, nil
}

// takeCaughtUp tells the reader once.
func (s *Subscription) takeCaughtUp(it *item) (done bool, err error) {
	if s.caught {
		return false, nil
	}
	if it.seq < s.head {
		return false, s.heal(fmt.Sprintf("caught up at %d, the head at opening was %d", it.seq, s.head))
	}
	s.caught = true
	s.resume = max(s.resume, it.seq)
	s.position.Store(s.resume)
	close(s.caughtUp)
	s.batch = Batch{caughtUp: true}
	return true, nil
}

// check says what is wrong with a data frame, and moves on if it is the next. The first thing it would see of a frame that
// is missing is that the next one does not follow on the last message.
func (s *Subscription) check(l *link, it *item) string {
	if it.data.Prev != s.last {
		return fmt.Sprintf("frame follows on %d, the last message was %d", it.data.Prev, s.last)
	}
	last := s.last
	known := ^uint32(0)
	for run := it.data.Run; len(run) > 0; run = run[record.Scan(run):] {
		rec := record.Record(run)
		seq, id := rec.Seq(), rec.Topic()
		if seq <= last {
			return fmt.Sprintf("message %d after %d", seq, last)
		}
		if id != known {
			if l.cn.names.get(id) == "" {
				return fmt.Sprintf("message %d has topic %d, which has no name", seq, id)
			}
			known = id
		}
		last = seq
	}
	s.last = last
	s.resume = max(s.resume, last)
	return ""
}

// errBroken is behind the error of a subscription that cannot be healed.
var errBroken = errors.New("the server sends messages that do not follow on each other")

// heal starts over after the last good message: nothing beyond a gap is delivered.
func (s *Subscription) heal(reason string) error {
	s.gaps.Add(1)
	s.heals++
	s.c.log.Warn("subscription has a gap", "after", s.last, "cause", reason)
	s.setLink(nil)
	if s.heals > maxHeals {
		s.heals = 0
		return &Error{Op: "read", Code: CodeProtocol, Message: reason, Cause: errBroken}
	}
	s.resume = max(s.last, s.base)
	s.position.Store(s.resume)
	return nil
}
