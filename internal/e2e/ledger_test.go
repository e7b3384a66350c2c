package e2e

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cantus-bus/cantus/client"
)

// idHeader carries a message's id: which writer, and its how manieth.
const idHeader = "id"

// stored is a message as it stands in the stream.
type stored struct {
	seq   uint64
	topic string
	id    string
	hash  uint64 // of the payload
}

var hashSeed = maphash.MakeSeed()

func hashOf(payload []byte) uint64 { return maphash.Bytes(hashSeed, payload) }

// asStored copies what matters of a message that was read.
func asStored(m *client.Message) stored {
	s := stored{seq: m.Seq, topic: m.Topic, hash: hashOf(m.Payload)}
	for _, h := range m.Headers() {
		if h.Key == idHeader {
			s.id = h.Value
		}
	}
	return s
}

type fate int

const (
	open    fate = iota // handed over, no answer yet
	acked               // must be in the stream, once, at seq
	refused             // must not be in the stream
	unknown             // may be in the stream, once
)

// note is what is known of a message.
type note struct {
	stored // seq 0: not known
	fate   fate
}

// ledger is what publishers were told. Any goroutine.
type ledger struct {
	t     testing.TB
	head  atomic.Uint64 // largest seq of an ack
	bytes atomic.Int64  // of payloads acked
	count atomic.Int64  // of messages acked
	dups  atomic.Int64  // of them, those whose ack came from a retry

	mu    sync.Mutex
	notes map[string]*note // by id
}

func newLedger(t testing.TB) *ledger { return &ledger{t: t, notes: map[string]*note{}} }

// offer notes a message before it is published.
func (l *ledger) offer(id, topic string, payload []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.notes[id] != nil {
		l.t.Errorf("message %s is offered twice: the test is wrong", id)
	}
	l.notes[id] = &note{stored: stored{topic: topic, id: id, hash: hashOf(payload)}}
}

// settle notes what the publisher was told; size is the payload's.
func (l *ledger) settle(id string, size int, a client.Ack, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.notes[id]
	switch {
	case n.fate != open:
		l.t.Errorf("message %s is settled a second time: %+v, %v", id, a, err)
	case err == nil:
		n.fate, n.seq = acked, a.Seq
		l.raise(a.Seq)
		l.bytes.Add(int64(size))
		l.count.Add(1)
		if a.Duplicate {
			l.dups.Add(1)
		}
	case errors.Is(err, client.ErrUnknownFate):
		n.fate = unknown
	default:
		n.fate = refused
	}
}

func (l *ledger) raise(seq uint64) {
	for {
		h := l.head.Load()
		if seq <= h || l.head.CompareAndSwap(h, seq) {
			return
		}
	}
}

// check holds a whole stream against what publishers were told.
func (l *ledger) check(where string, stream []stored) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	at := make(map[string]uint64, len(stream))
	for i, s := range stream {
		if s.seq != uint64(i+1) {
			l.t.Fatalf("%s: message %d of the stream has seq %d", where, i+1, s.seq)
		}
		if first := at[s.id]; first != 0 {
			l.t.Errorf("%s: message %s was stored twice: %d and %d", where, s.id, first, s.seq)
		}
		at[s.id] = s.seq
		l.checkOne(where, s)
	}
	for id, n := range l.notes {
		switch {
		case n.fate == open:
			l.t.Errorf("message %s was never settled", id)
		case n.fate == acked && at[id] == 0:
			l.t.Errorf("%s: message %s was acked at %d and is LOST", where, id, n.seq)
		}
	}
}

func (l *ledger) checkOne(where string, s stored) {
	n := l.notes[s.id]
	switch {
	case n == nil:
		l.t.Errorf("%s: message %q at %d was never published", where, s.id, s.seq)
	case n.topic != s.topic || n.hash != s.hash:
		l.t.Errorf("%s: message %s at %d is not what was published: topic %q, want %q; payload equal: %v", where, s.id, s.seq, s.topic, n.topic, n.hash == s.hash)
	case n.fate == refused:
		l.t.Errorf("%s: message %s was refused and is at %d", where, s.id, s.seq)
	case n.fate == acked && n.seq != 0 && n.seq != s.seq:
		l.t.Errorf("%s: message %s was acked at %d and is at %d", where, s.id, n.seq, s.seq)
	}
}
