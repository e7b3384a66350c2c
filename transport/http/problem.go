package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	nethttp "net/http"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// Problem is the body of every error.
type Problem struct {
	// Code is a short stable word for programs.
	Code string `json:"code"`
	// Message says what failed, why, and what to do.
	Message string `json:"message"`
	// Detail goes with some codes: the oldest seq kept for "gone", the actual last seq for "precondition_failed", the
	// expected number for "out_of_order", the current epoch for "fenced".
	Detail uint64 `json:"detail,omitempty"`
	// Line of the NDJSON body that it speaks of, from 1; 0 if none.
	Line int `json:"line,omitempty"`

	status int
}

func (p *Problem) Error() string { return p.Message }

func problem(status int, code, format string, args ...any) *Problem {
	return &Problem{Code: code, Message: fmt.Sprintf(format, args...), status: status}
}

type errorBody struct {
	Error *Problem `json:"error"`
}

func writeJSON(w nethttp.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	// The status line is out: a client that went away is all that can fail here, and nobody is left to be told.
	_ = enc.Encode(v)
}

func writeProblem(w nethttp.ResponseWriter, status int, code, format string, args ...any) {
	writeErr(w, problem(status, code, format, args...))
}

func writeErr(w nethttp.ResponseWriter, err error) {
	p := asProblem(err)
	writeJSON(w, p.status, errorBody{p})
}

// asProblem finds the answer for an error of the packages below.
func asProblem(err error) *Problem {
	var (
		p     *Problem
		name  *topic.Error
		gone  *tipstore.GoneError
		coded *wire.Error
	)
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &name):
		return problem(nethttp.StatusBadRequest, "bad_name", "%v", err)
	case errors.As(err, &gone):
		p = problem(nethttp.StatusGone, "gone", "%v", err)
		p.Detail = gone.Oldest
		return p
	case errors.As(err, &coded):
		return codedProblem(coded)
	case errors.Is(err, cluster.ErrNoNode):
		return problem(nethttp.StatusNotFound, "no_node", "%v: see /v1/nodes", err)
	case errors.Is(err, cluster.ErrClosed):
		return problem(nethttp.StatusServiceUnavailable, "shutting_down", "%v: use another node", err)
	case errors.Is(err, context.DeadlineExceeded):
		return problem(nethttp.StatusServiceUnavailable, "timeout", "the cluster did not answer in time: %v; see /v1/status", err)
	default:
		return problem(nethttp.StatusInternalServerError, "internal", "%v", err)
	}
}

func codedProblem(e *wire.Error) *Problem {
	if e.Code < 64 {
		p := resultProblem(fsm.Result{Code: fsm.Code(e.Code), Detail: e.Detail})
		p.Message = e.Message
		return p
	}
	status, code := nethttp.StatusBadRequest, "refused"
	switch e.Code {
	case wire.CodeNotFound:
		status, code = nethttp.StatusNotFound, "not_found"
	case wire.CodeBadFilter, wire.CodeTooManyFilters:
		code = "bad_filter"
	case wire.CodeGone:
		status, code = nethttp.StatusGone, "gone"
	case wire.CodeNotYet:
		status, code = nethttp.StatusServiceUnavailable, "not_yet"
	case wire.CodeInternal, wire.CodeShutdown:
		status, code = nethttp.StatusServiceUnavailable, "unavailable"
	}
	p := problem(status, code, "%s", e.Message)
	p.Detail = e.Detail
	return p
}

// resultProblem turns an outcome that is not success into an answer that says truly whether the publish was executed.
func resultProblem(r fsm.Result) *Problem {
	type answer struct {
		status     int
		code, text string
	}
	answers := map[fsm.Code]answer{
		fsm.OutOfOrder:         {nethttp.StatusConflict, "out_of_order", "not executed: the producer's next number is %d"},
		fsm.Fenced:             {nethttp.StatusConflict, "fenced", "not executed: a newer epoch of this producer was opened: %d"},
		fsm.UnknownProducer:    {nethttp.StatusConflict, "unknown_producer", "not executed: the producer was never opened or has expired: POST /v1/producers first"},
		fsm.PreconditionFailed: {nethttp.StatusPreconditionFailed, "precondition_failed", "not executed: the topic's last seq is %d"},
		fsm.TooManyTopics:      {nethttp.StatusInsufficientStorage, "too_many_topics", "not executed: the limit of topics is reached (limits.topics)"},
		fsm.TooManyProducers:   {nethttp.StatusInsufficientStorage, "too_many_producers", "not executed: the limit of producers is reached (limits.producers)"},
		fsm.Invalid:            {nethttp.StatusBadRequest, "invalid", "not executed: a topic of the batch breaks a rule"},
		fsm.Settled:            {nethttp.StatusConflict, "settled", "these numbers were settled before, some published and some refused, or too long ago to tell: look in the stream; do not retry"},
		fsm.NotLeader:          {nethttp.StatusServiceUnavailable, "not_leader", "not executed: leadership moved: try again"},
		fsm.Unavailable:        {nethttp.StatusServiceUnavailable, "unavailable", "not executed: no leader with a quorum within the wait: see /v1/status"},
		fsm.Unknown:            {nethttp.StatusServiceUnavailable, "unknown", "fate unknown: it may yet be executed; retry under the same producer and number, or look in the stream"},
		fsm.DiskFull:           {nethttp.StatusInsufficientStorage, "disk_full", "not executed: the leader's disk is nearly full: free space or raise log.min_free"},
		fsm.TooLarge:           {nethttp.StatusRequestEntityTooLarge, "too_large", "not executed: the batch is over the limit"},
		fsm.ShuttingDown:       {nethttp.StatusServiceUnavailable, "shutting_down", "not executed: the node shuts down: use another one"},
	}
	a, ok := answers[r.Code]
	if !ok {
		return problem(nethttp.StatusInternalServerError, "internal", "unexpected outcome %v", r.Code)
	}
	text := a.text
	if r.Code == fsm.OutOfOrder || r.Code == fsm.Fenced || r.Code == fsm.PreconditionFailed {
		text = fmt.Sprintf(text, r.Detail)
	}
	p := problem(a.status, a.code, "%s", text)
	p.Detail = r.Detail
	return p
}
