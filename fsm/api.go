package fsm

import (
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// STUBS: the contract of this package; the owner replaces this file by real ones.

// Log is where applied messages go: tipstore.Store, or a model in tests.
type Log interface {
	Append(run []byte, count int, newTopics []topic.ID, firstSeq uint64, time int64) []byte
	Publish()
}

// Code of one batch's or command's outcome. Codes travel: never renumber.
type Code uint8

const (
	OK                 Code = 0
	Duplicate          Code = 1 // all of the batch was published before; FirstSeq is where, 0 if no longer known
	OutOfOrder         Code = 2 // number is beyond the next expected: Detail = expected
	Fenced             Code = 3 // epoch is old: Detail = current epoch
	UnknownProducer    Code = 4 // never opened, or expired
	PreconditionFailed Code = 5 // Detail = actual last seq of the topic of precondition Index
	TooManyTopics      Code = 6
	TooManyProducers   Code = 7
	Invalid            Code = 8 // a topic breaks a rule: the proposer should have refused it
	// outcomes that never come from the state machine
	NotLeader    Code = 32 // not executed
	Unavailable  Code = 33 // not executed: no leader, no quorum, queue full in bounded time
	Unknown      Code = 34 // may or may not have been executed: retry under the same number
	DiskFull     Code = 35 // not executed
	TooLarge     Code = 36 // not executed
	ShuttingDown Code = 37 // not executed
)

func (c Code) String() string              { panic("stub") }
func (c Code) Executed() (yes, known bool) { panic("stub") }

// Result of one batch (publish) or of the entry (other kinds).
type Result struct {
	Code       Code
	Index      uint16 // of the failed precondition
	Count      uint32 // messages of the batch
	FirstSeq   uint64 // of the batch's first message
	Time       int64
	Detail     uint64
	Epoch      uint32 // OpenProducer
	LastNumber uint64 // OpenProducer: last number of that producer that is settled
	LastSeq    uint64 // OpenProducer: its seq
}

type Options struct {
	Table        *topic.Table
	Log          Log
	MaxProducers int // 1 M
}

// Machine is the state machine: pure, no clock, no randomness. Apply is one goroutine's; the readers named so are any's.
type Machine struct{}

func New(o Options) *Machine { panic("stub") }

// Apply applies one log entry and appends its results to dst. An error means that the entry's bytes are corrupt or break an invariant: nothing
// was applied and the caller must stop the node.
func (m *Machine) Apply(index uint64, data []byte, dst []Result) (record.EntryHeader, []Result, error) {
	panic("stub")
}

// Readers for any goroutine (atomics).
func (m *Machine) LastSeq() uint64      { panic("stub") }
func (m *Machine) LastTime() int64      { panic("stub") }
func (m *Machine) LastMessageTime() int64 { panic("stub") }
func (m *Machine) AppliedIndex() uint64 { panic("stub") }
func (m *Machine) Producers() int       { panic("stub") }

// StreamConfig is set through the log.
type StreamConfig struct {
	ProducerLease int64 // nanoseconds; default 7 days
	Version       uint64
}

func (m *Machine) Config() StreamConfig { panic("stub") }

// Bodies of the small entries.
func OpenProducerBody(id record.ProducerID) []byte { panic("stub") }
func ExpireBody(cutoff int64) []byte               { panic("stub") }
func ConfigBody(c StreamConfig) []byte             { panic("stub") }
func CheckpointBody(id uint64) []byte              { panic("stub") }

// Digest of the whole state at a seq, with parts so that a difference can be named: "stream" (running hash of every stored byte),
// "topics", "producers", "config".
type Digest struct {
	Index uint64
	Seq   uint64
	Time  int64
	Parts map[string]string // hex
}

// Digest of now; Apply's goroutine only.
func (m *Machine) Digest() Digest { panic("stub") }

// Checkpoint returns the digest taken when checkpoint id was applied (the last 16 are kept; not part of the state). Any goroutine.
func (m *Machine) Checkpoint(id uint64) (Digest, bool) { panic("stub") }
