package client

import (
	"bytes"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
)

// Limits of a message.
const (
	MaxPayload     = record.MaxPayload     // bytes
	MaxHeaderBytes = record.MaxHeaderBytes // all headers of a message, encoded
)

// Header is a key and a value beside a message's payload. Keys are at most 255 bytes.
type Header = record.Header

// Message is a message of the stream.
//
// Payload, and what Headers reads, lie in a receive buffer: they are valid until the iterator's next step or the
// next NextBatch. Topic may be kept. Clone to keep the whole.
type Message struct {
	Seq     uint64    // place in the stream, from 1
	Time    time.Time // when the leader took it; never goes back from one message to the next
	Topic   string
	Payload []byte
	History bool // the node read it from disk, not from memory

	rec record.Record // nil without headers
}

// Headers returns the message's headers in their order, nil if there are none. It allocates.
func (m *Message) Headers() []Header {
	if m.rec == nil {
		return nil
	}
	return m.rec.Headers()
}

// Clone returns a copy that stays valid.
func (m *Message) Clone() Message {
	c := *m
	c.Topic = strings.Clone(m.Topic)
	if m.rec != nil {
		c.rec = record.Record(bytes.Clone(m.rec))
		c.Payload = c.rec.Payload()
		return c
	}
	c.Payload = bytes.Clone(m.Payload)
	return c
}

// Outgoing is a message to publish as part of an atomic batch.
type Outgoing struct {
	Topic   string
	Payload []byte
	Headers []Header
}

// Precondition holds an atomic batch back unless the last message of Topic has this seq; 0: unless it has none.
type Precondition struct {
	Topic   string
	LastSeq uint64
}

// Ack says where a message is in the stream.
type Ack struct {
	Seq       uint64    // 0 only for a duplicate whose place the cluster no longer knows
	Time      time.Time // in the stream; zero for a duplicate
	Duplicate bool      // a retry found that the first attempt had succeeded
}

// BatchAck is the outcome of neighbouring messages of one producer that travelled together.
type BatchAck struct {
	FirstNumber uint64    // the producer's number of the first; the others follow densely
	Count       int       // messages
	Bytes       int       // encoded
	FirstSeq    uint64    // of the first; the others follow densely; 0 if Err, or as in Ack.Seq
	Time        time.Time // the messages' time in the stream; zero if Err or Duplicate
	Began       time.Time // when the first of them was handed to Publish
	Duplicate   bool
	Err         error // nil: published
}
