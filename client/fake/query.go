package fake

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

const (
	// maxQueries is per connection.
	maxQueries = 8
	// maxAnswer is how many bytes of records and topics a page has, if one message is not larger.
	maxAnswer = 512 << 10
)

// query is one that waits for its node.
type query struct {
	id   uint32
	req  wire.Query
	need uint64 // seq that the node must have
}

// queryLocked answers a query now, or keeps it until the node has what it needs.
func (s *session) queryLocked(f *wire.Frame) error {
	if f.ID == 0 {
		return refuse("query 0: ids begin at 1")
	}
	req, err := wire.DecodeQuery(f.Body)
	if err != nil {
		if !ofFilters(err) {
			return err
		}
		s.refuseLocked(f.ID, asError(err, wire.CodeBadFilter))
		return nil
	}
	if len(s.queries) >= maxQueries {
		s.refuseLocked(f.ID, &wire.Error{Code: wire.CodeTooManyQueries, Detail: maxQueries})
		return nil
	}
	q := &query{id: f.ID, req: req, need: max(req.MinSeq, req.Seq)}
	if req.Linearizable {
		if s.b.mu.leader < 0 {
			s.refuseLocked(f.ID, &wire.Error{Code: wire.CodeUnavailable, Message: "no leader"})
			return nil
		}
		q.need = max(q.need, s.b.lastSeqLocked())
	}
	if q.need <= s.b.appliedLocked(s.n) {
		s.answerLocked(q)
		return nil
	}
	s.queries = append(s.queries, q)
	time.AfterFunc(time.Duration(req.WaitMS)*time.Millisecond, func() {
		s.b.mu.Lock()
		defer s.b.mu.Unlock()
		if i := slices.Index(s.queries, q); i >= 0 {
			s.queries = slices.Delete(s.queries, i, i+1)
			applied := s.b.appliedLocked(s.n)
			s.refuseLocked(q.id, &wire.Error{Code: wire.CodeNotYet, Detail: applied,
				Message: fmt.Sprintf("seq %d is not here yet: this node has %d", q.need, applied)})
		}
	})
	return nil
}

// answerReadyLocked answers the queries whose node has come far enough.
func (s *session) answerReadyLocked() {
	applied := s.b.appliedLocked(s.n)
	s.queries = slices.DeleteFunc(s.queries, func(q *query) bool {
		ready := q.need <= applied
		if ready {
			s.answerLocked(q)
		}
		return ready
	})
}

func (s *session) refuseLocked(id uint32, e *wire.Error) {
	s.sendLocked(func(out []byte) []byte { return wire.AppendError(out, wire.TError, id, e) })
}

func (s *session) answerLocked(q *query) {
	a, e := s.lookUpLocked(&q.req)
	if e != nil {
		s.refuseLocked(q.id, e)
		return
	}
	s.sendLocked(func(out []byte) []byte { return wire.AppendAnswer(out, q.id, a) })
}

// lookUpLocked finds the messages that a query asks for, by looking at all of them.
func (s *session) lookUpLocked(q *wire.Query) (*wire.Answer, *wire.Error) {
	b, newest := s.b, s.b.appliedLocked(s.n)
	if q.Kind == wire.QueryMessage {
		if q.Seq <= b.mu.trimmed || q.Seq == 0 {
			return nil, gone(q.Seq, b.mu.trimmed+1)
		}
		a := &wire.Answer{Seq: q.Seq}
		b.addLocked(a, q.Seq)
		return a, nil
	}
	if q.Seq > 0 {
		newest = q.Seq
		if newest <= b.mu.trimmed {
			return nil, gone(newest, b.mu.trimmed+1)
		}
	}
	if q.Kind == wire.QueryLast {
		return b.lastLocked(q.Filters[0], newest)
	}
	filters, err := topic.ParseFilters(q.Filters)
	if err != nil {
		return nil, asError(err, wire.CodeBadFilter)
	}
	return b.pageLocked(q, filters, newest), nil
}

// lastLocked answers with a topic's last message up to newest.
func (b *Broker) lastLocked(name string, newest uint64) (*wire.Answer, *wire.Error) {
	if err := topic.Validate(name); err != nil {
		return nil, asError(err, wire.CodeBadTopic)
	}
	id, ok := b.mu.topics[name]
	seq := uint64(0)
	if ok {
		seq = b.lastOfLocked(id, newest)
	}
	switch last := b.lastOfLocked(id, b.lastSeqLocked()); {
	case seq > 0:
	case ok && last == 0 && b.mu.last[id] > 0:
		return nil, gone(b.mu.last[id], b.mu.trimmed+1)
	default:
		return nil, &wire.Error{Code: wire.CodeNotFound, Message: fmt.Sprintf("topic %q has no message at or below seq %d", name, newest)}
	}
	a := &wire.Answer{Seq: seq}
	b.addLocked(a, seq)
	return a, nil
}

// pageLocked answers with a page of last messages, in the order of the topics' ids, which begin at 0: after is one more.
func (b *Broker) pageLocked(q *wire.Query, filters topic.Filters, newest uint64) *wire.Answer {
	a, bytes := &wire.Answer{Seq: newest}, 0
	count := wire.MaxFilters
	if q.Count > 0 {
		count = int(min(q.Count, wire.MaxFilters))
	}
	for i := q.After; i < uint64(len(b.mu.names)); i++ {
		if !filters.Match(b.mu.names[i]) {
			continue
		}
		seq := b.lastOfLocked(uint32(i), newest)
		if seq == 0 {
			continue
		}
		bytes += len(b.mu.names[i]) + len(b.mu.messages[seq-b.mu.trimmed-1].rec)
		if a.Count > 0 && (int(a.Count) >= count || bytes > maxAnswer) {
			a.Next = i
			return a
		}
		b.addLocked(a, seq)
	}
	return a
}

// lastOfLocked is the seq of a topic's last message that is kept, up to newest; 0: none.
func (b *Broker) lastOfLocked(id uint32, newest uint64) uint64 {
	for seq := min(newest, b.lastSeqLocked()); seq > b.mu.trimmed; seq-- {
		if b.mu.messages[seq-b.mu.trimmed-1].topic == id {
			return seq
		}
	}
	return 0
}

// addLocked adds a message that is kept to an answer.
func (b *Broker) addLocked(a *wire.Answer, seq uint64) {
	m := b.mu.messages[seq-b.mu.trimmed-1]
	a.Count++
	a.Run = append(a.Run, m.rec[:record.Scan(m.rec)]...)
	a.Topics = append(a.Topics, b.mu.names[m.topic])
}

// ofFilters tells errors that concern filters from those of a body's format.
func ofFilters(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && (e.Code == wire.CodeBadFilter || e.Code == wire.CodeTooManyFilters)
}

// asError is err as it travels: under code if it has none.
func asError(err error, code wire.Code) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &wire.Error{Code: code, Message: err.Error()}
}
