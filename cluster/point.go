package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/subtree"
	"github.com/cantus-bus/cantus/tipstore"
)

// ErrNoMessage says that no message answers a point read: the topic does not exist, or it had none by then.
var ErrNoMessage = errors.New("no such message")

// NotYetError says that a point read names a seq that this node does not show yet. errors.As.
type NotYetError struct {
	Wanted uint64
	Newest uint64 // newest visible seq
}

func (e *NotYetError) Error() string {
	return fmt.Sprintf("cluster: read seq %d: this node has seqs up to %d", e.Wanted, e.Newest)
}

// Message is one message of the stream, copied: it is the caller's.
type Message struct {
	Topic  string
	Record record.Record // with seq and time
}

// A point read wants one message or one per topic, not what follows. The topic table knows the last seq of each topic, so the last
// message is found without a search: it is read from the tip, or from the one file of history that holds it. Only a read as of a
// seq that its topic has moved on from must look back, see lookBack.

// MessageAt reads the message with a seq. Errors: *NotYetError, *tipstore.GoneError, ctx's, and package subtree's when history
// cannot be read. Any goroutine, while the stream is open; so for the other point reads.
func (s *Stream) MessageAt(ctx context.Context, seq uint64) (Message, error) {
	defer s.holdOpen()()
	if newest := s.newest(); seq > newest {
		return Message{}, &NotYetError{Wanted: seq, Newest: newest}
	}
	return s.messageAt(ctx, topic.Root, seq)
}

// Last reads the last message of a topic at or below seq upTo; 0: the last of all. Errors are as MessageAt's, and ErrNoMessage.
func (s *Stream) Last(ctx context.Context, name string, upTo uint64) (Message, error) {
	defer s.holdOpen()()
	if upTo != 0 {
		if err := s.checkSnapshot(upTo); err != nil {
			return Message{}, err
		}
	}
	id, ok := s.table.Lookup(name)
	if !ok || !s.table.IsTopic(id) {
		return Message{}, fmt.Errorf("cluster: last message of %q: the topic does not exist: %w", name, ErrNoMessage)
	}
	seq, err := s.lastSeq(ctx, id, upTo)
	if err != nil {
		return Message{}, err
	}
	if seq == 0 {
		return Message{}, s.noneBefore(name, upTo)
	}
	return s.messageAt(ctx, id, seq)
}

// noneBefore says why a topic has no message at or below upTo, as far as it is known.
func (s *Stream) noneBefore(name string, upTo uint64) error {
	if oldest, _ := s.Bounds(); oldest > 1 {
		return fmt.Errorf("cluster: last message of %q at or below seq %d: none is kept, the oldest seq kept is %d: %w", name, upTo, oldest, ErrNoMessage)
	}
	return fmt.Errorf("cluster: last message of %q at or below seq %d: there was none yet: %w", name, upTo, ErrNoMessage)
}

// checkSnapshot refuses a seq that a snapshot cannot be taken at.
func (s *Stream) checkSnapshot(seq uint64) error {
	switch oldest, last := s.Bounds(); {
	case seq > last:
		return &NotYetError{Wanted: seq, Newest: last}
	case seq < oldest:
		return &tipstore.GoneError{Wanted: seq, Oldest: oldest}
	}
	return nil
}

// lastSeq is the seq of a topic's last message at or below upTo, 0: none.
func (s *Stream) lastSeq(ctx context.Context, id topic.ID, upTo uint64) (uint64, error) {
	_, _, seq := s.table.Stats(id)
	if upTo == 0 {
		return seq, s.awaitVisible(ctx, seq)
	}
	if seq <= upTo {
		return seq, nil
	}
	found, err := s.lookBack(ctx, []topic.ID{id}, upTo)
	return found[id], err
}

// awaitVisible waits for the rest of one entry: its messages are counted just before they are shown. That is a moment, unless applying
// waits for history's disk in the middle of the entry: so after some looks it pauses between them.
func (s *Stream) awaitVisible(ctx context.Context, seq uint64) error {
	for look := 0; ; look++ {
		if seq <= s.newest() {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if look < visibleLooks {
			runtime.Gosched()
		} else {
			pause.For(ctx, visiblePause)
		}
	}
}

const (
	visibleLooks = 100 // without a pause: what takes an entry no longer than usual
	visiblePause = time.Millisecond
)

// messageAt reads a visible message. id is its topic, or Root if that is not known: history then decodes a block of each section.
func (s *Stream) messageAt(ctx context.Context, id topic.ID, seq uint64) (Message, error) {
	if err := ctx.Err(); err != nil {
		return Message{}, err
	}
	if seq < s.machine.FirstSeq() {
		return Message{}, s.goneAt(seq)
	}
	raw, err := s.tip.At(nil, seq)
	if err == nil {
		return s.message(record.First(raw)), nil
	}
	if !s.inHistory(seq) {
		return Message{}, s.goneAt(seq)
	}
	var rec record.Record
	if id == topic.Root {
		rec, err = s.history.store.MessageAt(seq)
	} else {
		rec, err = s.history.store.LastOf(id, seq)
	}
	switch {
	case err != nil && !s.inHistory(seq):
		return Message{}, s.goneAt(seq)
	case err != nil:
		return Message{}, fmt.Errorf("cluster: read seq %d: %w", seq, err)
	case rec.Seq() != seq:
		return Message{}, fmt.Errorf("cluster: read seq %d: history gives seq %d in its place: %w", seq, rec.Seq(), subtree.ErrCorrupt)
	}
	return s.message(rec), nil
}

func (s *Stream) message(rec record.Record) Message {
	return Message{Topic: s.table.Name(topic.ID(rec.Topic())), Record: rec}
}

// newest is the newest visible seq.
func (s *Stream) newest() uint64 {
	_, last := s.tip.Bounds()
	return last
}

// inHistory tells whether a seq lies within history.
func (s *Stream) inHistory(seq uint64) bool {
	if s.history == nil {
		return false
	}
	first, last := s.history.store.Bounds()
	return first <= seq && seq <= last
}

func (s *Stream) goneAt(seq uint64) error {
	oldest, _ := s.Bounds()
	return &tipstore.GoneError{Wanted: seq, Oldest: oldest}
}

// holdOpen keeps Close from freeing the tip until the returned function was called.
func (s *Stream) holdOpen() (release func()) {
	s.readers.Add(1)
	return func() { s.readers.Add(-1) }
}
