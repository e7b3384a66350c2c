package transport

import (
	"context"
	"errors"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// Lookup answers a query for single messages at a node, which it lets catch up first as far as the query needs, for q.WaitMS at most. The
// page of a query for one message has just that, under its own seq. An error is a *wire.Error.
func Lookup(ctx context.Context, b cluster.Broker, q *wire.Query) (cluster.LastPage, error) {
	filters, err := checkFilters(q)
	if err != nil {
		return cluster.LastPage{}, err
	}
	if err := catchUp(ctx, b, q); err != nil {
		return cluster.LastPage{}, err
	}
	page, err := read(ctx, b.Stream(), q, filters)
	if err != nil {
		return cluster.LastPage{}, lookupError(err)
	}
	return page, nil
}

func checkFilters(q *wire.Query) (topic.Filters, error) {
	switch q.Kind {
	case wire.QueryMessage:
		return nil, nil
	case wire.QueryLast:
		if err := topic.Validate(q.Filters[0]); err != nil {
			return nil, travelling(err, wire.CodeBadTopic)
		}
		return nil, nil
	}
	filters, err := topic.ParseFilters(q.Filters)
	if err != nil {
		return nil, travelling(err, wire.CodeBadFilter)
	}
	return filters, nil
}

// catchUp waits until the node has applied what the query needs.
func catchUp(ctx context.Context, b cluster.Broker, q *wire.Query) error {
	need := max(q.MinSeq, q.Seq)
	if !q.Linearizable && need <= b.Stream().Machine().LastSeq() {
		return nil
	}
	wait := time.Duration(q.WaitMS) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if q.Linearizable {
		if err := b.Barrier(ctx); err != nil {
			return inVain(err, wire.CodeUnavailable, 0, "what was committed before is not known here after %v: no leader has answered", wait)
		}
	}
	if err := b.WaitSeq(ctx, need); err != nil {
		applied := b.Stream().Machine().LastSeq()
		return inVain(err, wire.CodeNotYet, applied, "seq %d is not here yet: this node has %d after %v", need, applied, wait)
	}
	return nil
}

// inVain is the error of a wait: a deadline means code and detail, a code of the node's is passed on, and anything else is the end of the
// node or of the connection, so that the client asks another node.
func inVain(err error, code wire.Code, detail uint64, format string, args ...any) error {
	var e *wire.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		e = coded(code, format, args...)
		e.Detail = detail
		return e
	}
	return coded(wire.CodeShutdown, "this node is shutting down: use another one")
}

func read(ctx context.Context, s *cluster.Stream, q *wire.Query, filters topic.Filters) (cluster.LastPage, error) {
	if q.Kind == wire.QueryLastEach {
		count, bytes := min(q.Count, cluster.MaxLastCount), min(q.Bytes, maxAnswer)
		return s.LastEach(ctx, cluster.LastQuery{Filters: filters, Seq: q.Seq, After: q.After, Count: int(count), Bytes: int(bytes)})
	}
	var m cluster.Message
	var err error
	if q.Kind == wire.QueryLast {
		m, err = s.Last(ctx, q.Filters[0], q.Seq)
	} else {
		m, err = s.MessageAt(ctx, q.Seq)
	}
	if err != nil {
		return cluster.LastPage{}, err
	}
	return cluster.LastPage{Seq: m.Record.Seq(), Messages: []cluster.Message{m}}, nil
}

// lookupError says why a message was not read.
func lookupError(err error) *wire.Error {
	var notYet *cluster.NotYetError
	switch {
	case errors.As(err, &notYet):
		return &wire.Error{Code: wire.CodeNotYet, Detail: notYet.Newest, Message: err.Error()}
	case errors.Is(err, cluster.ErrNoMessage):
		return &wire.Error{Code: wire.CodeNotFound, Message: err.Error()}
	case errors.Is(err, context.Canceled):
		return coded(wire.CodeShutdown, "this node is shutting down: use another one")
	}
	return endedBy(err)
}
