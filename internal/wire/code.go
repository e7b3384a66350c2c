package wire

import "fmt"

// Code says how a request ended. Codes travel: never renumber. 0 to 31 are outcomes of the state machine, 32 to 63 of a
// command that did not reach it or whose fate is unknown, from 64 on of the protocol.
type Code uint16

const (
	CodeOK                 Code = 0
	CodeDuplicate          Code = 1 // published before
	CodeOutOfOrder         Code = 2 // detail = expected number
	CodeFenced             Code = 3 // detail = current epoch
	CodeUnknownProducer    Code = 4
	CodePreconditionFailed Code = 5 // detail = actual last seq of the topic of precondition Index
	CodeTooManyTopics      Code = 6
	CodeTooManyProducers   Code = 7
	CodeInvalid            Code = 8
	CodeSettled            Code = 9 // the numbers were used up before, with outcomes that differ or are forgotten

	CodeNotLeader       Code = 32 // not executed
	CodeUnavailable     Code = 33 // not executed: no leader or no quorum
	CodeUnknown         Code = 34 // may or may not have been executed
	CodeDiskFull        Code = 35 // not executed
	CodePublishTooLarge Code = 36 // not executed
	CodeShuttingDown    Code = 37 // not executed

	CodeProtocol             Code = 64 // malformed frame, unknown type, frame out of turn
	CodeVersion              Code = 65 // no common version
	CodeWrongCluster         Code = 66
	CodeTooLarge             Code = 67 // a frame over the limit
	CodeBadTopic             Code = 68
	CodeBadFilter            Code = 69
	CodeTooManyFilters       Code = 70 // detail = limit
	CodeTooManySubscriptions Code = 71 // detail = limit
	CodeGone                 Code = 72 // wanted seq is not kept any more: detail = oldest
	CodeNotYet               Code = 73 // min_seq not reached within the wait: detail = applied
	CodeSlow                 Code = 74 // client let the connection stall past the write timeout
	CodeInternal             Code = 75
	CodeTooManyConnections   Code = 76 // detail = limit
	CodeShutdown             Code = 77
	CodeNotFound             Code = 78 // no message answers the query
	CodeTooManyQueries       Code = 79 // detail = limit
)

// String is the code's name, as in logs, metrics and JSON.
func (c Code) String() string {
	switch {
	case int(c) < len(machineNames):
		return machineNames[c]
	case c >= CodeNotLeader && int(c-CodeNotLeader) < len(commandNames):
		return commandNames[c-CodeNotLeader]
	case c >= CodeProtocol && int(c-CodeProtocol) < len(protocolNames):
		return protocolNames[c-CodeProtocol]
	}
	return fmt.Sprintf("code_%d", uint16(c))
}

var (
	machineNames = [...]string{"ok", "duplicate", "out_of_order", "fenced", "unknown_producer", "precondition_failed",
		"too_many_topics", "too_many_producers", "invalid", "settled"}
	commandNames  = [...]string{"not_leader", "unavailable", "unknown", "disk_full", "publish_too_large", "shutting_down"}
	protocolNames = [...]string{"protocol", "version", "wrong_cluster", "too_large", "bad_topic", "bad_filter",
		"too_many_filters", "too_many_subscriptions", "gone", "not_yet", "slow", "internal", "too_many_connections", "shutdown",
		"not_found", "too_many_queries"}
)

// Error is a coded error as it travels; find it with errors.As.
type Error struct {
	Code    Code
	Detail  uint64 // see the table of codes, 0 if the code has none
	Message string // for people
}

func (e *Error) Error() string {
	switch {
	case e.Message != "":
		return e.Code.String() + ": " + e.Message
	case e.Detail != 0:
		return fmt.Sprintf("%s (%d)", e.Code, e.Detail)
	}
	return e.Code.String()
}

// protocolError is a malformed frame or body.
func protocolError(format string, args ...any) *Error {
	return &Error{Code: CodeProtocol, Message: fmt.Sprintf(format, args...)}
}
