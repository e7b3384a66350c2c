package history

import "time"

// Start is where a reader begins.
type Start string

// The places to begin.
const (
	StartFirst Start = "first" // the oldest message that is kept
	StartSeq   Start = "seq"   // ReaderOpened.StartSeq
	StartTime  Start = "time"  // a time in the stream
	StartLive  Start = "live"  // after what the node has
)

// ReaderOpened says that a subscription was accepted. A reader's events are written by one goroutine.
type ReaderOpened struct {
	At      time.Duration `json:"at"`
	Reader  int           `json:"r"` // never used twice in a run; a reader that starts over by intent is a new one
	Process int           `json:"p,omitempty"`
	Node    string        `json:"n,omitempty"`
	Filters []string      `json:"f"`
	Start   Start         `json:"start"`
	From    uint64        `json:"from,omitempty"` // of StartSeq: the seq asked for
	MinSeq  uint64        `json:"min,omitempty"`  // the node had this seq when it accepted; 0: not asked for
	// Base is where the subscription begins: every match after it is the reader's, none at or below it.
	Base uint64 `json:"base"`
	// Head is the newest seq that the node had at opening; 0 if the harness cannot know it.
	Head uint64 `json:"head,omitempty"`
	// Patience is how long the harness itself leaves messages unread, at most. Stuck readers are judged with it.
	Patience time.Duration `json:"patience_ns,omitempty"`
}

// Kind returns KindReader.
func (*ReaderOpened) Kind() Kind { return KindReader }

// ReaderResumed says that a reader lost its connection, or was closed by the harness, and goes on after a seq: the place
// up to which everything was its own before. What it was promised does not change by that.
type ReaderResumed struct {
	At     time.Duration `json:"at"`
	Reader int           `json:"r"`
	Node   string        `json:"n,omitempty"`
	After  uint64        `json:"after"`
	Prev   uint64        `json:"prev,omitempty"` // the last seq that was delivered
}

// Kind returns KindResumed.
func (*ReaderResumed) Kind() Kind { return KindResumed }

// ReaderEnded says that a reader will read no more.
type ReaderEnded struct {
	At       time.Duration `json:"at"`
	Reader   int           `json:"r"`
	Position uint64        `json:"s"`              // everything that matches up to here was delivered
	Code     string        `json:"code,omitempty"` // empty: the harness wanted it so; else the error that ended it
}

// Kind returns KindReaderEnd.
func (*ReaderEnded) Kind() Kind { return KindReaderEnd }

// Delivery is one message that a reader was given. It is the most frequent event and has no optional context: that is in
// ReaderOpened.
type Delivery struct {
	At     time.Duration `json:"at"`
	Reader int           `json:"r"`
	Seq    uint64        `json:"s"`
	Prev   uint64        `json:"prev,omitempty"` // the matching seq before, as the frame said; 0: none, or not recorded
	Topic  string        `json:"t"`
	ID     uint64        `json:"id"`             // from the payload; 0: the payload is none of the harness's
	Time   int64         `json:"time,omitempty"` // in the stream, Unix nanoseconds; 0: not recorded
	Disk   bool          `json:"disk,omitempty"` // the node read it from history
}

// Kind returns KindDelivery.
func (*Delivery) Kind() Kind { return KindDelivery }

// Progress is a mark that it is safe to resume after: everything that matches up to Seq was delivered.
type Progress struct {
	At     time.Duration `json:"at"`
	Reader int           `json:"r"`
	Seq    uint64        `json:"s"`
}

// Kind returns KindProgress.
func (*Progress) Kind() Kind { return KindProgress }

// CaughtUp is the mark that comes once, after the last match at or below the head at opening.
type CaughtUp struct {
	At     time.Duration `json:"at"`
	Reader int           `json:"r"`
	Head   uint64        `json:"head,omitempty"` // as the frame said; 0: not recorded, then ReaderOpened's Head or MinSeq counts
}

// Kind returns KindCaughtUp.
func (*CaughtUp) Kind() Kind { return KindCaughtUp }
