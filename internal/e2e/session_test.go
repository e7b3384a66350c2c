package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// mark is a position as the client told it, and how many messages had been handed over then.
type mark struct {
	position uint64
	count    int
}

// session is one subscription's life, recorded. It belongs to one goroutine; check comes after.
type session struct {
	w     *world
	name  string
	o     client.SubscribeOptions
	sub   *client.Subscription
	after uint64 // the place that the opening fixed: nothing at or below it comes
	known uint64 // acked before the opening and waited for by MinSeq: below the head at opening
	first bool   // began with First: until something was read the place moves up with the ring

	got     []stored
	marks   []mark
	oldest  uint64 // first: what may have been dropped before the first message was read
	caught  int    // len(got) when it was said to have caught up, -1: not yet
	upTo    uint64 // where it ended
	gone    uint64 // the oldest seq that a Gone error told, 0: there was none
	resumed uint64
}

// subscribe opens a session. The error is ErrGone with the oldest seq in gone.
func (w *world) subscribe(c *client.Client, name string, o client.SubscribeOptions) (*session, error) {
	s := &session{w: w, name: name, o: o, known: o.MinSeq, caught: -1}
	o.MinSeqWait = patience / 2
	sub, err := c.Subscribe(w.ctx, o)
	if err != nil {
		return s, s.ended(err)
	}
	s.sub, s.after, s.upTo = sub, sub.Position(), sub.Position()
	return s, nil
}

// goneAt is the oldest seq that a Gone error tells.
func goneAt(err error) (oldest uint64, ok bool) {
	var e *client.Error
	if !errors.Is(err, client.ErrGone) || !errors.As(err, &e) {
		return 0, false
	}
	return e.Detail, true
}

// ended takes an error: nil if it is the one that slow readers must expect.
func (s *session) ended(err error) error {
	oldest, ok := goneAt(err)
	if !ok {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	s.gone = oldest
	for end := time.Now().Add(patience); oldest > s.w.oldest(); time.Sleep(time.Millisecond) { // the node that said so may be dead, and the others behind
		if time.Now().After(end) {
			return fmt.Errorf("%s: gone: the oldest is said to be %d, it is %d", s.name, oldest, s.w.oldest())
		}
	}
	if s.sub != nil && oldest <= s.upTo+1 {
		return fmt.Errorf("%s: gone, although %d is kept and only %d was read", s.name, oldest, s.upTo)
	}
	return err
}

func (s *session) take(m *client.Message) {
	s.got = append(s.got, asStored(m))
	if s.first && len(s.got) == 1 {
		s.oldest = s.w.oldest()
	}
}

// mark notes the position.
func (s *session) mark() {
	s.upTo = s.sub.Position()
	s.marks = append(s.marks, mark{s.upTo, len(s.got)})
}

// batch waits, at most for wait, for the next batch.
func (s *session) batch(wait time.Duration) error {
	ctx, cancel := context.WithTimeout(s.w.ctx, wait)
	defer cancel()
	b, err := s.sub.NextBatch(ctx)
	if err != nil {
		return s.pause(ctx, err)
	}
	if b.CaughtUp() {
		if s.caught >= 0 || b.Len() > 0 {
			return fmt.Errorf("%s: caught up again, or with %d messages", s.name, b.Len())
		}
		s.caught = len(s.got)
	}
	for m := range b.All() {
		s.take(&m)
	}
	s.mark()
	return nil
}

// messages reads at most n messages one by one, for wait at most.
func (s *session) messages(n int, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(s.w.ctx, wait)
	defer cancel()
	for m, err := range s.sub.Messages(ctx) {
		s.noteCaughtUp()
		if err != nil {
			return s.pause(ctx, err)
		}
		s.take(&m)
		s.mark()
		if n--; n == 0 {
			break
		}
	}
	return nil
}

func (s *session) noteCaughtUp() {
	select {
	case <-s.sub.CaughtUp():
		if s.caught < 0 {
			s.caught = len(s.got)
		}
	default:
	}
}

// pause takes the error of a read: none if the wait was over.
func (s *session) pause(ctx context.Context, err error) error {
	s.mark()
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && s.w.ctx.Err() == nil {
		return nil
	}
	return s.ended(err)
}

// close ends the session at what was read.
func (s *session) close() {
	if s.sub == nil {
		return
	}
	s.upTo = s.sub.Position()
	s.resumed = s.sub.Stats().Resumed
	_ = s.sub.Close()
}

// check holds what was read against the whole stream.
func (s *session) check(stream []stored) {
	if s.sub == nil {
		return
	}
	var want []stored
	for _, m := range stream[min(s.after, uint64(len(stream))):min(s.upTo, uint64(len(stream)))] {
		if matches(s.o.Filters, m.topic) {
			want = append(want, m)
		}
	}
	if s.first {
		want = s.dropped(want)
	}
	for i := range max(len(want), len(s.got)) {
		switch {
		case i >= len(want):
			s.fail("read %+v, which is too much: the last is %d of %d", s.got[i], i, len(want))
		case i >= len(s.got):
			s.fail("%+v is MISSING at the end", want[i])
		case want[i] != s.got[i]:
			s.fail("message %d is %+v, want %+v", i, s.got[i], want[i])
		default:
			continue
		}
		return
	}
	s.checkMarks(want)
}

// dropped leaves out what had left the ring before a session that began with the oldest read anything.
func (s *session) dropped(want []stored) []stored {
	for len(want) > 0 && len(s.got) > 0 && want[0].seq < s.got[0].seq && want[0].seq < s.oldest {
		want = want[1:]
	}
	if len(s.got) == 0 && s.gone != 0 {
		return nil
	}
	return want
}

// checkMarks: all matches up to a position had been handed over when it was told, and none above it.
func (s *session) checkMarks(want []stored) {
	n, last := 0, uint64(0)
	for _, m := range s.marks {
		for n < len(want) && want[n].seq <= m.position {
			n++
		}
		if n != m.count {
			s.fail("position %d was told after %d messages, but %d matches are at or below it", m.position, m.count, n)
			return
		}
		if m.position < last {
			s.fail("position went back from %d to %d", last, m.position)
			return
		}
		last = m.position
	}
	below := 0
	for below < len(want) && want[below].seq <= s.known {
		below++
	}
	if s.caught >= 0 && s.caught < below {
		s.fail("caught up after %d messages, but %d were there at the opening", s.caught, below)
	}
}

func (s *session) fail(format string, args ...any) {
	s.w.Errorf("%s: filters %q from %d to %d (first %v, resumed %d, gone %d): %s", s.name, s.o.Filters, s.after+1, s.upTo,
		s.first, s.resumed, s.gone, fmt.Sprintf(format, args...))
}
