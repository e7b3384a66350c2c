package http

import (
	"context"
	"encoding/hex"
	"math"
	nethttp "net/http"
	"net/url"
	"strconv"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// maxNumber leaves room for every message of a body: numbers must not overflow.
const maxNumber = math.MaxInt64

// identity is what makes a publish over HTTP repeatable without a duplicate: the number counts the producer's messages.
type identity struct {
	id     record.ProducerID
	epoch  uint32
	number uint64
}

// idempotent reports whether the caller named a producer at all.
func (i identity) idempotent() bool { return i.id != record.ProducerID{} }

func parseProducerID(s string) (record.ProducerID, error) {
	var id record.ProducerID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, problem(nethttp.StatusBadRequest, "bad_request", "producer %q: want 32 hexadecimal digits", s)
	}
	copy(id[:], b)
	if id == (record.ProducerID{}) {
		return id, problem(nethttp.StatusBadRequest, "bad_request", "producer: all zero is no id; choose a random one")
	}
	return id, nil
}

func parseIdentity(q url.Values) (identity, error) {
	if !q.Has("producer") {
		return identity{}, nil
	}
	id, err := parseProducerID(q.Get("producer"))
	if err != nil {
		return identity{}, err
	}
	epoch, err := strconv.ParseUint(q.Get("epoch"), 10, 32)
	if err != nil || epoch == 0 {
		return identity{}, problem(nethttp.StatusBadRequest, "bad_request", "epoch %q: want the epoch that POST /v1/producers answered", q.Get("epoch"))
	}
	number, err := strconv.ParseUint(q.Get("number"), 10, 64)
	if err != nil || number == 0 || number > maxNumber {
		return identity{}, problem(nethttp.StatusBadRequest, "bad_request", "number %q: want the number of the first line's message, from 1 to %d", q.Get("number"), uint64(maxNumber))
	}
	return identity{id, uint32(epoch), number}, nil
}

// postProducer opens a producer: a new epoch that shuts out older users of the id.
func (s *Server) postProducer(w nethttp.ResponseWriter, r *nethttp.Request) {
	var req struct {
		ID string `json:"id"`
	}
	if err := readJSON(r, &req); err != nil {
		writeErr(w, err)
		return
	}
	id, err := parseProducerID(req.ID)
	if err != nil {
		writeErr(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.RequestTimeout)
	defer cancel()
	res, err := s.node.OpenProducer(ctx, id)
	if err == nil && res.Code != fsm.OK {
		err = resultProblem(res)
	}
	if err != nil {
		writeErr(w, err)
		return
	}
	writeJSON(w, nethttp.StatusOK, map[string]any{
		"id": req.ID, "epoch": res.Epoch, "last_number": res.LastNumber, "last_seq": res.LastSeq,
	})
}
