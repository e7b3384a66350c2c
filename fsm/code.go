package fsm

import "fmt"

// Code is the outcome of one batch or command. Codes travel: never renumber.
type Code uint8

const (
	OK                 Code = 0
	Duplicate          Code = 1 // all of the batch was published before; FirstSeq is where, 0 if no longer known
	OutOfOrder         Code = 2 // number is not the next expected: Detail = expected. Nothing happened
	Fenced             Code = 3 // epoch is old: Detail = current epoch. Nothing happened
	UnknownProducer    Code = 4 // never opened, or expired: open it (again). Nothing happened
	PreconditionFailed Code = 5 // Detail = actual last seq of the topic of precondition Index. The numbers are used up
	TooManyTopics      Code = 6 // a new topic did not fit. The numbers are used up
	TooManyProducers   Code = 7 // nothing happened
	Invalid            Code = 8 // breaks a rule that the proposer should have held; of a batch, the numbers are used up
	Settled            Code = 9 // the numbers were used up before, by batches whose outcomes differ or are no longer known

	// Outcomes that never come from the state machine.

	NotLeader    Code = 32 // not executed
	Unavailable  Code = 33 // not executed: no leader, no quorum, queue full in bounded time
	Unknown      Code = 34 // may or may not have been executed: retry under the same number
	DiskFull     Code = 35 // not executed
	TooLarge     Code = 36 // not executed
	ShuttingDown Code = 37 // not executed
)

// String is the code's name as logs, metrics and people see it.
func (c Code) String() string {
	switch c {
	case OK:
		return "ok"
	case Duplicate:
		return "duplicate"
	case OutOfOrder:
		return "out of order"
	case Fenced:
		return "fenced"
	case UnknownProducer:
		return "unknown producer"
	case PreconditionFailed:
		return "precondition failed"
	case TooManyTopics:
		return "too many topics"
	case TooManyProducers:
		return "too many producers"
	case Invalid:
		return "invalid"
	case Settled:
		return "settled before"
	}
	return c.outsideString()
}

// outsideString names the codes that others make.
func (c Code) outsideString() string {
	switch c {
	case NotLeader:
		return "not leader"
	case Unavailable:
		return "unavailable"
	case Unknown:
		return "unknown"
	case DiskFull:
		return "disk full"
	case TooLarge:
		return "too large"
	case ShuttingDown:
		return "shutting down"
	}
	return fmt.Sprintf("code %d", uint8(c))
}

// Executed says whether the batch's messages are in the stream (by this attempt or an earlier one of the same numbers), and
// whether that is known at all. A code of a newer version is not known.
func (c Code) Executed() (yes, known bool) {
	switch c {
	case OK, Duplicate:
		return true, true
	case Unknown, Settled:
		return false, false
	}
	return false, c <= Settled || (c >= NotLeader && c <= ShuttingDown)
}

// Result is the outcome of one batch of a publish entry, or of a whole entry of another kind. Fields that a code does not name
// are 0.
type Result struct {
	Code       Code
	Index      uint16 // PreconditionFailed: which one
	Count      uint32 // messages of the batch
	FirstSeq   uint64 // OK, Duplicate: seq of the batch's first message; the others follow densely. 0: not known
	Time       int64  // OK: the messages' time, unix nanoseconds
	Detail     uint64 // by Code; expiry: producers forgotten; configuration: its version; checkpoint: its id; retention: oldest seq retained
	Epoch      uint32 // OpenProducer
	LastNumber uint64 // OpenProducer: last number of that producer that is used up, 0: none
	LastSeq    uint64 // OpenProducer: the seq of LastNumber, 0 if that was refused
}
