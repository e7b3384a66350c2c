package http

import (
	"errors"
	nethttp "net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/transport"
)

// LastPage is a page of last messages.
type LastPage struct {
	// Seq of the snapshot: pass it with Next to stay in it.
	Seq      uint64   `json:"seq"`
	Messages []*Event `json:"messages"`
	// Next is the after of the next page, absent on the last.
	Next uint64 `json:"next,omitempty"`
}

// getMessage answers with the message with a seq.
func (s *Server) getMessage(w nethttp.ResponseWriter, r *nethttp.Request) {
	q := wire.Query{Kind: wire.QueryMessage}
	var wait uint64
	err := errors.Join(
		number("seq", r.PathValue("seq"), 1, 1<<63, &q.Seq),
		number("wait_ms", r.URL.Query().Get("wait_ms"), 0, 1<<31, &wait),
	)
	if err != nil {
		writeErr(w, err)
		return
	}
	q.WaitMS = uint32(min(wait, s.waitMS()))
	page, err := transport.Lookup(r.Context(), s.node, &q)
	var e *wire.Error
	if errors.As(err, &e) && e.Code == wire.CodeNotYet {
		p := problem(nethttp.StatusNotFound, "not_yet", "%s", e.Message)
		p.Detail = e.Detail
		err = p
	}
	if err != nil {
		writeErr(w, err)
		return
	}
	writeJSON(w, nethttp.StatusOK, newEvent(s.node.Stream().Table(), page.Messages[0].Record))
}

// getLast answers with a page of the last messages of topics.
func (s *Server) getLast(w nethttp.ResponseWriter, r *nethttp.Request) {
	q, err := parseLast(r.URL.Query())
	if err != nil {
		writeErr(w, err)
		return
	}
	q.WaitMS = uint32(s.waitMS())
	page, err := transport.Lookup(r.Context(), s.node, &q)
	if err != nil {
		writeErr(w, err)
		return
	}
	answer := LastPage{Seq: page.Seq, Messages: make([]*Event, len(page.Messages)), Next: page.Next}
	for i, m := range page.Messages {
		answer.Messages[i] = newEvent(s.node.Stream().Table(), m.Record)
	}
	writeJSON(w, nethttp.StatusOK, answer)
}

// waitMS is how long a request may wait for what it needs.
func (s *Server) waitMS() uint64 { return uint64(s.opts.RequestTimeout / time.Millisecond) }

func parseLast(v url.Values) (wire.Query, error) {
	q := wire.Query{Kind: wire.QueryLastEach, Filters: v["filter"]}
	limit := uint64(defaultPage)
	err := errors.Join(
		number("seq", v.Get("seq"), 1, 1<<63, &q.Seq),
		number("min_seq", v.Get("min_seq"), 0, 1<<63, &q.MinSeq),
		number("after", v.Get("after"), 0, 1<<63, &q.After),
		number("limit", v.Get("limit"), 1, cluster.MaxLastCount, &limit),
	)
	q.Count = uint32(limit)
	switch v.Get("linearizable") {
	case "", "false":
	case "true":
		q.Linearizable = true
	default:
		err = problem(nethttp.StatusBadRequest, "bad_request", "linearizable=%q: want true or false", v.Get("linearizable"))
	}
	return q, err
}

// number reads a parameter from low to high into to, which stays as it is if there is none.
func number(name, value string, low, high uint64, to *uint64) error {
	if value == "" {
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || n < low || n > high {
		return problem(nethttp.StatusBadRequest, "bad_request", "%s=%q: want a number from %d to %d", name, value, low, high)
	}
	*to = n
	return nil
}
