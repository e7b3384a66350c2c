package fake

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// quantum is how many bytes of records go into one DATA frame, if one record is not larger.
const quantum = 16 << 10

// subscription is a position in the stream.
type subscription struct {
	id       uint32
	filters  topic.Filters
	req      wire.Subscribe
	open     bool // SUBSCRIBED was sent; false: it waits for MinSeq
	next     uint64
	head     uint64 // at opening
	prev     uint64 // last match sent
	mark     uint64 // what the client knows to be safe to resume after
	credit   int64
	caughtUp bool
}

// subscribeLocked opens a subscription, or keeps it until the node has MinSeq.
func (s *session) subscribeLocked(f *wire.Frame) error {
	if f.ID == 0 {
		return refuse("subscription 0: ids begin at 1")
	}
	if s.subs[f.ID] != nil {
		return refuse("subscription %d is open already", f.ID)
	}
	req, err := wire.DecodeSubscribe(f.Body)
	var e *wire.Error
	if errors.As(err, &e) && e.Code != wire.CodeBadFilter && e.Code != wire.CodeTooManyFilters {
		return err
	}
	var filters topic.Filters
	if err == nil {
		filters, err = topic.ParseFilters(req.Filters)
	}
	switch {
	case e != nil:
	case err != nil:
		e = &wire.Error{Code: wire.CodeBadFilter, Message: err.Error()}
	case len(s.subs) >= maxSubscriptions:
		e = &wire.Error{Code: wire.CodeTooManySubscriptions, Detail: maxSubscriptions}
	}
	if e != nil {
		s.endedLocked(f.ID, e)
		return nil
	}
	sub := &subscription{id: f.ID, filters: filters, req: req, credit: int64(min(req.Credit, 1<<62)), prev: req.Prev}
	s.subs[f.ID] = sub
	s.ids = append(s.ids, f.ID)
	if applied := s.b.appliedLocked(s.n); req.MinSeq > applied {
		s.expectLocked(sub)
		return nil
	}
	s.openLocked(sub)
	return nil
}

// expectLocked ends a subscription whose MinSeq does not come in time.
func (s *session) expectLocked(sub *subscription) {
	time.AfterFunc(time.Duration(sub.req.WaitMS)*time.Millisecond, func() {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		if s.subs[sub.id] == sub && !sub.open {
			s.forgetLocked(sub.id)
			applied := s.b.appliedLocked(s.n)
			s.endedLocked(sub.id, &wire.Error{Code: wire.CodeNotYet, Detail: applied,
				Message: fmt.Sprintf("seq %d is not here yet: this node has %d", sub.req.MinSeq, applied)})
		}
	})
}

// openLocked places the subscription.
func (s *session) openLocked(sub *subscription) {
	b := s.b
	head, oldest := b.appliedLocked(s.n), b.mu.trimmed+1
	sub.head = head
	switch sub.req.Start {
	case wire.StartFirst:
		sub.next = oldest
	case wire.StartNow:
		sub.next = head + 1
	case wire.StartSeq:
		sub.next = max(sub.req.Value, 1)
	case wire.StartTime:
		sub.next = b.firstAtLocked(int64(min(sub.req.Value, 1<<63-1)), head)
	case wire.StartAgo:
		sub.next = oldest
		if head >= oldest {
			newest := record.First(b.mu.messages[head-oldest].rec).Time()
			sub.next = b.firstAtLocked(newest-int64(min(sub.req.Value, 1<<62)), head)
		}
	}
	if sub.next < oldest {
		s.forgetLocked(sub.id)
		s.endedLocked(sub.id, gone(sub.next, oldest))
		return
	}
	sub.open, sub.mark = true, sub.next-1
	answer := wire.Subscribed{Next: sub.next, Head: head, Oldest: oldest}
	s.sendLocked(func(out []byte) []byte { return wire.AppendSubscribed(out, sub.id, &answer) })
}

func gone(want, oldest uint64) *wire.Error {
	return &wire.Error{Code: wire.CodeGone, Detail: oldest, Message: fmt.Sprintf("seq %d is gone, the oldest is %d", want, oldest)}
}

// firstAtLocked is the seq of the first message at or after a time; head+1 if there is none up to head.
func (b *Broker) firstAtLocked(ns int64, head uint64) uint64 {
	n := int(head - b.mu.trimmed)
	i := sort.Search(n, func(i int) bool { return record.First(b.mu.messages[i].rec).Time() >= ns })
	return b.mu.trimmed + 1 + uint64(i)
}

func (s *session) forgetLocked(id uint32) {
	delete(s.subs, id)
	s.ids = slices.DeleteFunc(s.ids, func(have uint32) bool { return have == id })
}

func (s *session) endedLocked(id uint32, e *wire.Error) {
	s.sendLocked(func(out []byte) []byte { return wire.AppendError(out, wire.TEnded, id, e) })
}

func (s *session) unsubscribeLocked(f *wire.Frame) error {
	if err := wire.DecodeEmpty(f.Body); err != nil {
		return err
	}
	if s.subs[f.ID] != nil {
		s.forgetLocked(f.ID)
		s.endedLocked(f.ID, &wire.Error{})
	}
	return nil
}

func (s *session) creditLocked(f *wire.Frame) error {
	n, err := wire.DecodeCredit(f.Body)
	if err != nil {
		return err
	}
	if sub := s.subs[f.ID]; sub != nil {
		if n > 1<<62 || sub.credit > 1<<62-int64(n) {
			return refuse("subscription %d: credit overflows", f.ID)
		}
		sub.credit += int64(n)
	}
	return nil
}

// deliverLocked sends to all subscriptions of the cluster what they may have.
func (b *Broker) deliverLocked() {
	for _, n := range b.mu.nodes {
		for s := range n.sessions {
			for _, id := range slices.Clone(s.ids) {
				s.serveLocked(s.subs[id])
			}
			s.answerReadyLocked()
		}
	}
}

// serveLocked sends to one subscription until it has no credit or has seen all.
func (s *session) serveLocked(sub *subscription) {
	applied := s.b.appliedLocked(s.n)
	if !sub.open {
		if sub.req.MinSeq > applied {
			return
		}
		if s.openLocked(sub); !sub.open {
			return
		}
	}
	for sub.next <= applied && sub.credit > 0 {
		if sub.next <= s.b.mu.trimmed {
			s.forgetLocked(sub.id)
			s.endedLocked(sub.id, gone(sub.next, s.b.mu.trimmed+1))
			return
		}
		if sub.next == s.n.damaged {
			s.forgetLocked(sub.id)
			s.endedLocked(sub.id, &wire.Error{Code: wire.CodeInternal, Message: "history is damaged here"})
			return
		}
		if !s.dataLocked(sub, applied) {
			break
		}
	}
	s.sayCaughtUpLocked(sub)
	if position := sub.next - 1; position > sub.mark {
		sub.mark = position
		s.sendLocked(func(out []byte) []byte { return wire.AppendSeq(out, wire.TProgress, sub.id, position) })
	}
}

func (s *session) sayCaughtUpLocked(sub *subscription) {
	if !sub.caughtUp && sub.next > sub.head {
		sub.caughtUp = true
		s.sendLocked(func(out []byte) []byte { return wire.AppendSeq(out, wire.TCaughtUp, sub.id, sub.head) })
	}
}

// dataLocked sends the next frame of matches; false: there are none up to applied. A frame never crosses the head at
// opening, so that caught-up can be said right after it.
func (s *session) dataLocked(sub *subscription, applied uint64) bool {
	if !sub.caughtUp && sub.next <= sub.head {
		applied = min(applied, sub.head)
	}
	if d := s.n.damaged; sub.next < d {
		applied = min(applied, d-1)
	}
	var run []byte
	var names []wire.TopicName
	var count uint32
	last := sub.prev
	for sub.next <= applied {
		m := s.b.mu.messages[sub.next-s.b.mu.trimmed-1]
		if sub.filters.Match(s.b.mu.names[m.topic]) {
			if count > 0 && len(run)+len(m.rec) > min(quantum, int(sub.credit)) {
				break
			}
			if !s.told[m.topic] {
				s.told[m.topic] = true
				names = append(names, wire.TopicName{ID: m.topic, Name: s.b.mu.names[m.topic]})
			}
			run = append(run, m.rec...)
			last = sub.next
			count++
		}
		sub.next++
	}
	if count == 0 {
		s.sayCaughtUpLocked(sub)
		return sub.next <= s.b.appliedLocked(s.n)
	}
	if len(names) > 0 {
		s.sendLocked(func(out []byte) []byte { return wire.AppendTopicNames(out, names) })
	}
	s.sendDataLocked(sub, run, count)
	sub.prev, sub.mark = last, last
	sub.credit -= int64(len(run))
	s.sayCaughtUpLocked(sub)
	return true
}

// sendDataLocked sends a frame as often as faults want.
func (s *session) sendDataLocked(sub *subscription, run []byte, count uint32) {
	times := 1
	switch f := &s.b.mu.faults; {
	case f.skipData > 0:
		f.skipData--
		times = 0
	case f.repeatData > 0:
		f.repeatData--
		times = 2
	}
	for range times {
		s.sendLocked(func(out []byte) []byte {
			return append(wire.AppendDataHeader(out, sub.id, sub.prev, count, [][]byte{run}), run...)
		})
	}
}
