package history

import "time"

// ReadOp is what a point read asks for.
type ReadOp string

// The point reads.
const (
	ReadLast ReadOp = "last" // the last message of Topics[0]
	ReadAt   ReadOp = "at"   // the message at Seq
	ReadEach ReadOp = "each" // the last message of each topic under Filters, all as of one seq
)

// Read is one point read.
type Read struct {
	Process int           `json:"p"`
	Node    string        `json:"n,omitempty"`
	Op      ReadOp        `json:"op"`
	Topic   string        `json:"topic,omitempty"` // of ReadLast
	Filters []string      `json:"f,omitempty"`     // of ReadEach
	Seq     uint64        `json:"s,omitempty"`     // of ReadAt
	AsOf    uint64        `json:"asof,omitempty"`  // read as of this seq; 0: as of what the node has
	MinSeq  uint64        `json:"min,omitempty"`   // the node must have this seq first
	Lin     bool          `json:"lin,omitempty"`   // linearizable
	Invoke  time.Duration `json:"at"`
	Return  time.Duration `json:"ret"`
	// Outcome OK: Found is the answer. None of it is one too for ReadLast (the topic has no message) and ReadEach; a ReadAt that
	// found nothing is Refused. Refused or Unknown: the read says nothing.
	Outcome  Outcome `json:"o"`
	Code     string  `json:"code,omitempty"`
	Found    []Found `json:"found,omitempty"`
	Snapshot uint64  `json:"snap,omitempty"` // of ReadEach: the seq as of which it answered
}

// Found is a message that a point read answered with.
type Found struct {
	Seq   uint64 `json:"s"`
	Topic string `json:"t"`
	ID    uint64 `json:"id"`
	Value int64  `json:"v,omitempty"`
}

// Kind returns KindRead.
func (*Read) Kind() Kind { return KindRead }
