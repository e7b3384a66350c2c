package history

import "time"

// Outcome is what a client knows about an operation.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"      // it happened
	Refused Outcome = "refused" // it did not happen and never will
	Unknown Outcome = "unknown" // it happened, or not, or happens later
)

// Publish is one call that publishes a message, or several in an atomic batch. It is written once, when the outcome is
// known, or with Unknown when the run ends without one.
type Publish struct {
	Process int    `json:"p"`           // the goroutine of the harness that called
	Node    string `json:"n,omitempty"` // whom it talked to, if known
	// Producer, Epoch and Number place the call among others of the same publisher: calls of one Producer and Epoch were
	// made in the order of Number, which is dense over messages; a later Epoch came after an earlier one. Number is
	// that of the first message. An empty Producer promises no order.
	Producer string `json:"prod,omitempty"`
	Epoch    uint32 `json:"ep,omitempty"`
	Number   uint64 `json:"num,omitempty"`

	Atomic   bool           `json:"atomic,omitempty"` // the messages are one atomic batch
	Messages []Sent         `json:"m"`                // at least one; more than one only if Atomic
	Pre      []Precondition `json:"pre,omitempty"`

	Invoke time.Duration `json:"at"`
	Return time.Duration `json:"ret"` // of Unknown: when the harness gave up

	Outcome   Outcome `json:"o"`
	Code      string  `json:"code,omitempty"` // why it was not OK, in the client's words
	FirstSeq  uint64  `json:"s,omitempty"`    // of OK: the first message's seq, the others follow densely; 0: the ack had none
	Time      int64   `json:"t,omitempty"`    // of OK: the messages' time in the stream, Unix nanoseconds; 0: the ack had none
	Duplicate bool    `json:"dup,omitempty"`  // the ack came from a retry that found the first attempt done
	// FailedSeq and FailedIndex are of a failed precondition: the last seq that topic Pre[FailedIndex] had instead.
	Failed      bool   `json:"failed,omitempty"`
	FailedIndex int    `json:"fi,omitempty"`
	FailedSeq   uint64 `json:"fs,omitempty"`
}

// Sent is a message as it was handed to the client.
type Sent struct {
	ID    uint64 `json:"id"` // in its payload; from Writer.NextID; never 0, never used twice in a run
	Topic string `json:"t"`
	Value int64  `json:"v,omitempty"` // in its payload; means what the workload says
}

// Precondition holds a batch back unless the last message of Topic has LastSeq; 0: unless it has none.
type Precondition struct {
	Topic   string `json:"t"`
	LastSeq uint64 `json:"s"`
}

// Kind returns KindPublish.
func (*Publish) Kind() Kind { return KindPublish }

// Probe is an attempt to publish whose only purpose is to find out whether that is possible. A probe that publishes a
// message is recorded as a Publish too.
type Probe struct {
	Node    string        `json:"n,omitempty"`
	Invoke  time.Duration `json:"at"`
	Return  time.Duration `json:"ret"`
	Outcome Outcome       `json:"o"`
	Code    string        `json:"code,omitempty"`
}

// Kind returns KindProbe.
func (*Probe) Kind() Kind { return KindProbe }
