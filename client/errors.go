package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cantus-bus/cantus/internal/wire"
)

// Code is the outcome of a request as the server names it. Codes travel and are never renumbered.
type Code uint16

// Codes below 64 are outcomes of a publish; those from 64 on speak of a connection, a request or a subscription.
const (
	CodeOK                 Code = 0
	CodeDuplicate          Code = 1 // published before, under the same number
	CodeOutOfOrder         Code = 2 // Detail: the number expected next
	CodeFenced             Code = 3 // Detail: the current epoch
	CodeUnknownProducer    Code = 4
	CodePreconditionFailed Code = 5 // Detail: the topic's last seq; Index: the precondition
	CodeTooManyTopics      Code = 6
	CodeTooManyProducers   Code = 7
	CodeInvalid            Code = 8
	CodeSettled            Code = 9 // tried before; what became of it is no longer known
	CodeNotLeader          Code = 32
	CodeUnavailable        Code = 33
	CodeUnknown            Code = 34
	CodeDiskFull           Code = 35
	CodePublishTooLarge    Code = 36
	CodeShuttingDown       Code = 37

	CodeProtocol             = Code(wire.CodeProtocol)
	CodeVersion              = Code(wire.CodeVersion)
	CodeWrongCluster         = Code(wire.CodeWrongCluster)
	CodeTooLarge             = Code(wire.CodeTooLarge)
	CodeBadTopic             = Code(wire.CodeBadTopic)
	CodeBadFilter            = Code(wire.CodeBadFilter)
	CodeTooManyFilters       = Code(wire.CodeTooManyFilters)
	CodeTooManySubscriptions = Code(wire.CodeTooManySubscriptions)
	CodeGone                 = Code(wire.CodeGone)   // Detail: the oldest seq that is kept
	CodeNotYet               = Code(wire.CodeNotYet) // Detail: the newest seq the node has
	CodeSlow                 = Code(wire.CodeSlow)
	CodeInternal             = Code(wire.CodeInternal)
	CodeTooManyConnections   = Code(wire.CodeTooManyConnections)
	CodeShutdown             = Code(wire.CodeShutdown)
	CodeNotFound             = Code(wire.CodeNotFound)
	CodeTooManyQueries       = Code(wire.CodeTooManyQueries)
)

// Errors to test for with errors.Is. Most come wrapped in an *Error that carries the details.
var (
	// ErrClosed: the client, producer or subscription was closed by its owner.
	ErrClosed = errors.New("closed")
	// ErrFenced: another producer opened the same id; this one can never publish again.
	ErrFenced = errors.New("fenced: another producer has opened this id")
	// ErrUnknownProducer: the cluster has forgotten the producer (its lease ran out); open a new one.
	ErrUnknownProducer = errors.New("producer unknown: its lease ran out")
	// ErrUnknownFate: the message may or may not have been published, and the time for retries is over.
	ErrUnknownFate = errors.New("fate unknown: may or may not have been published")
	// ErrUnavailable: no server could serve the request in time. It was not executed.
	ErrUnavailable = errors.New("unavailable: not executed")
	// ErrPreconditionFailed: a topic's last message was not the one named. Nothing was published.
	ErrPreconditionFailed = errors.New("precondition failed: nothing published")
	// ErrTooLarge: a message or batch is above the limits. Nothing was published.
	ErrTooLarge = errors.New("too large: not published")
	// ErrTooManyTopics: the cluster holds as many topics as it may. Nothing was published.
	ErrTooManyTopics = errors.New("too many topics: not published")
	// ErrBadTopic: the topic breaks a rule. Nothing was published.
	ErrBadTopic = errors.New("bad topic")
	// ErrBadFilter: a filter breaks a rule, or there are none or too many.
	ErrBadFilter = errors.New("bad filter")
	// ErrGone: the wanted messages are not kept any more. Error.Detail is the oldest seq that is.
	ErrGone = errors.New("gone: the wanted messages are not kept any more")
	// ErrNotFound: no message answers Get: the topic does not exist, or had none by then.
	ErrNotFound = errors.New("not found: no such message")
	// ErrNotYet: the node did not reach the wanted seq within the wait.
	ErrNotYet = errors.New("not yet: the node has not reached the wanted seq")
	// ErrWrongCluster: the server belongs to another cluster than Options.ClusterID.
	ErrWrongCluster = errors.New("wrong cluster")
	// ErrProtocol: the server broke the protocol or speaks no version that this client speaks.
	ErrProtocol = errors.New("protocol error")
)

// sentinels maps codes to the errors above. Codes without one have only their text.
var sentinels = map[Code]error{
	CodeFenced: ErrFenced, CodeUnknownProducer: ErrUnknownProducer, CodeUnknown: ErrUnknownFate,
	CodeNotLeader: ErrUnavailable, CodeUnavailable: ErrUnavailable, CodeShuttingDown: ErrUnavailable,
	CodeDiskFull: ErrUnavailable, CodeOutOfOrder: ErrUnavailable, CodeTooManyProducers: ErrUnavailable,
	CodePreconditionFailed: ErrPreconditionFailed, CodePublishTooLarge: ErrTooLarge, CodeTooLarge: ErrTooLarge,
	CodeSettled: ErrUnknownFate, CodeTooManyTopics: ErrTooManyTopics, CodeInvalid: ErrBadTopic, CodeBadTopic: ErrBadTopic,
	CodeBadFilter: ErrBadFilter, CodeTooManyFilters: ErrBadFilter, CodeGone: ErrGone, CodeNotYet: ErrNotYet,
	CodeWrongCluster: ErrWrongCluster, CodeProtocol: ErrProtocol, CodeVersion: ErrProtocol,
	CodeTooManyConnections: ErrUnavailable, CodeTooManySubscriptions: ErrUnavailable,
	CodeShutdown: ErrUnavailable, CodeSlow: ErrUnavailable, CodeInternal: ErrUnavailable,
	CodeNotFound: ErrNotFound, CodeTooManyQueries: ErrUnavailable,
}

var codeNames = map[Code]string{
	CodeOK: "ok", CodeDuplicate: "duplicate", CodeOutOfOrder: "out of order", CodeFenced: "fenced",
	CodeUnknownProducer: "unknown producer", CodePreconditionFailed: "precondition failed",
	CodeTooManyTopics: "too many topics", CodeTooManyProducers: "too many producers", CodeInvalid: "invalid",
	CodeSettled:   "settled before",
	CodeNotLeader: "not leader", CodeUnavailable: "unavailable", CodeUnknown: "unknown", CodeDiskFull: "disk full",
	CodePublishTooLarge: "publish too large", CodeShuttingDown: "shutting down", CodeProtocol: "protocol",
	CodeVersion: "version", CodeWrongCluster: "wrong cluster", CodeTooLarge: "too large", CodeBadTopic: "bad topic",
	CodeBadFilter: "bad filter", CodeTooManyFilters: "too many filters",
	CodeTooManySubscriptions: "too many subscriptions", CodeGone: "gone", CodeNotYet: "not yet", CodeSlow: "slow",
	CodeInternal: "internal", CodeTooManyConnections: "too many connections", CodeShutdown: "shutdown",
	CodeNotFound: "not found", CodeTooManyQueries: "too many queries",
}

// String returns the code's name in plain words.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return fmt.Sprintf("code %d", uint16(c))
}

// Error is a refusal by a server, or by this client in a server's place. errors.Is finds the matching sentinel and
// the cause; errors.As finds the details.
type Error struct {
	Op      string // what was being done, such as "publish to app/x"
	Code    Code
	Detail  uint64 // meaning depends on Code, see there
	Index   int    // of the failed precondition
	Message string // the server's words; may be empty
	Cause   error  // what led here; may be nil
}

// Error says the operation, the outcome and the cause.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", e.Op)
	if s := sentinels[e.Code]; s != nil {
		b.WriteString(s.Error())
	} else {
		b.WriteString(e.Code.String())
	}
	switch e.Code {
	case CodePreconditionFailed:
		fmt.Fprintf(&b, " (precondition %d: the topic's last seq is %d)", e.Index, e.Detail)
	case CodeGone:
		fmt.Fprintf(&b, " (oldest kept is %d)", e.Detail)
	case CodeNotYet:
		fmt.Fprintf(&b, " (it has %d)", e.Detail)
	case CodeOutOfOrder:
		fmt.Fprintf(&b, " (out of order: the cluster expects number %d)", e.Detail)
	case CodeDiskFull, CodeNotLeader, CodeTooManyProducers, CodeTooManySubscriptions, CodeTooManyConnections, CodeTooManyQueries,
		CodeSlow, CodeInternal, CodeShuttingDown, CodeShutdown:
		fmt.Fprintf(&b, " (%s)", e.Code)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Cause != nil {
		fmt.Fprintf(&b, ": %s", e.Cause)
	}
	return b.String()
}

// Unwrap gives errors.Is the sentinel and the cause.
func (e *Error) Unwrap() []error {
	list := make([]error, 0, 2)
	if s := sentinels[e.Code]; s != nil {
		list = append(list, s)
	}
	if e.Cause != nil {
		list = append(list, e.Cause)
	}
	return list
}

// remote turns an error that travelled into ours.
func remote(op string, e wire.Error) *Error {
	return &Error{Op: op, Code: Code(e.Code), Detail: e.Detail, Message: e.Message}
}
