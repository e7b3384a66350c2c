package http

import (
	"context"
	"encoding/base64"
	"encoding/json"
	nethttp "net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// readBytes is how much of the stream one step of an event stream takes.
const readBytes = 256 << 10

// moveEvery is how often a stream that nothing matches looks on.
const moveEvery = time.Second

// Event is the data of a "message" event.
type Event struct {
	Seq   uint64 `json:"seq"`
	Time  int64  `json:"time"`
	Topic string `json:"topic"`
	Size  int    `json:"size"`
	// Payload if it is UTF-8, else PayloadBase64.
	Payload       *string           `json:"payload,omitempty"`
	PayloadBase64 *string           `json:"payload_base64,omitempty"`
	Headers       map[string]string `json:"headers,omitempty"`
}

// mark is the data of a "progress" or "caught-up" event.
type mark struct {
	Seq uint64 `json:"seq"`
}

// eventStream is one GET /v1/subscribe.
type eventStream struct {
	server *Server
	w      nethttp.ResponseWriter
	ctl    *nethttp.ResponseController
	reader *cluster.Reader
	wake   chan struct{}
	view   tipstore.View
	buf    []byte
	// left is how many messages may still be sent; below 0: no limit.
	left         int
	toCaughtUp   bool
	caughtUp     bool
	lastProgress uint64
}

type subscribeParams struct {
	filters    topic.Filters
	start      wire.StartKind
	value      uint64
	minSeq     uint64
	count      int
	toCaughtUp bool
}

func (s *Server) getSubscribe(w nethttp.ResponseWriter, r *nethttp.Request) {
	p, err := parseSubscribe(r)
	if err != nil {
		writeErr(w, err)
		return
	}
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		writeProblem(w, nethttp.StatusServiceUnavailable, "too_many_subscriptions", "this node has %d event streams open, its limit: use another node, or the binary protocol", cap(s.streams))
		return
	}
	e := &eventStream{server: s, w: w, ctl: nethttp.NewResponseController(w), wake: make(chan struct{}, 1), left: p.count, toCaughtUp: p.toCaughtUp}
	if err := e.open(r.Context(), p); err != nil {
		writeErr(w, err)
		return
	}
	defer e.reader.Close()
	e.run(r.Context())
}

func parseSubscribe(r *nethttp.Request) (p subscribeParams, err error) {
	q := r.URL.Query()
	if p.filters, err = topic.ParseFilters(q["filter"]); err != nil {
		return p, problem(nethttp.StatusBadRequest, "bad_filter", "%v", err)
	}
	from := q.Get("from")
	if from == "" {
		from = "now"
	}
	if p.start, p.value, err = wire.ParseStart(from); err != nil {
		return p, problem(nethttp.StatusBadRequest, "bad_request", "from: %v", err)
	}
	if err := p.resume(r.Header.Get("Last-Event-ID")); err != nil {
		return p, err
	}
	switch q.Get("to") {
	case "", "forever":
	case "caught-up":
		p.toCaughtUp = true
	default:
		return p, problem(nethttp.StatusBadRequest, "bad_request", "to=%q: want forever or caught-up", q.Get("to"))
	}
	return p, p.parseNumbers(q)
}

// resume goes on after the last event that the client has seen: browsers send its id when they reconnect.
func (p *subscribeParams) resume(lastID string) error {
	if lastID == "" {
		return nil
	}
	seq, err := strconv.ParseUint(lastID, 10, 63)
	if err != nil {
		return problem(nethttp.StatusBadRequest, "bad_request", "Last-Event-ID %q is no seq", lastID)
	}
	p.start, p.value = wire.StartSeq, seq+1
	return nil
}

func (p *subscribeParams) parseNumbers(q url.Values) error {
	p.count = -1
	if v := q.Get("count"); v != "" {
		n, err := strconv.ParseUint(v, 10, 31)
		if err != nil || n == 0 {
			return problem(nethttp.StatusBadRequest, "bad_request", "count=%q: want a number of messages from 1", v)
		}
		p.count = int(n)
	}
	if v := q.Get("min_seq"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return problem(nethttp.StatusBadRequest, "bad_request", "min_seq=%q is no seq", v)
		}
		p.minSeq = n
	}
	return nil
}

func (e *eventStream) open(ctx context.Context, p subscribeParams) (err error) {
	node := e.server.node
	if p.minSeq > 0 {
		wait, cancel := context.WithTimeout(ctx, e.server.opts.RequestTimeout)
		defer cancel()
		if err := node.WaitSeq(wait, p.minSeq); err != nil {
			return problem(nethttp.StatusServiceUnavailable, "not_yet", "this node has not reached seq %d: %v", p.minSeq, err)
		}
	}
	e.reader, err = node.Stream().OpenReader(cluster.ReaderOptions{
		Filters: p.filters, Start: p.start, Value: p.value,
		Wake: func() {
			select {
			case e.wake <- struct{}{}:
			default:
			}
		},
	})
	return err
}

func (e *eventStream) run(ctx context.Context) {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no")
	e.w.WriteHeader(nethttp.StatusOK)
	if e.flush() != nil {
		return
	}
	beat := time.NewTicker(e.server.opts.Heartbeat)
	defer beat.Stop()
	// A stream that nothing matches moves on all the same, else the ring would pass it by.
	move := time.NewTicker(min(moveEvery, e.server.opts.Heartbeat))
	defer move.Stop()
	for {
		e.reader.Arm()
		if done := e.drain(ctx); done {
			return
		}
		select {
		case <-e.wake:
		case <-move.C:
		case <-beat.C:
			if e.beat() != nil {
				return
			}
		case <-ctx.Done():
			return
		case <-e.server.stopped.Done():
			return
		}
	}
}

// drain sends all there is now; done: the stream is over.
func (e *eventStream) drain(ctx context.Context) (done bool) {
	for ctx.Err() == nil {
		before := e.reader.Position()
		limit := tipstore.Limit{Bytes: readBytes}
		if e.left > 0 {
			limit.Count = e.left
		}
		if err := e.reader.Read(&e.view, limit); err != nil {
			e.fail(err)
			return true
		}
		count := e.view.Count
		e.messages()
		e.view.Release()
		if e.flush() != nil || e.left == 0 {
			return true
		}
		if e.markCaughtUp() && e.toCaughtUp {
			return true
		}
		if count == 0 && e.reader.Position() == before {
			return false
		}
	}
	return true
}

func (e *eventStream) messages() {
	table := e.server.node.Stream().Table()
	for _, run := range e.view.Parts {
		for len(run) > 0 {
			rec, rest, err := record.Next(run)
			if err != nil {
				return // the ring holds only validated records
			}
			run = rest
			e.event("message", rec.Seq(), newEvent(table, rec))
			if e.left > 0 {
				e.left--
			}
		}
	}
}

func newEvent(table *topic.Table, rec record.Record) *Event {
	payload := rec.Payload()
	ev := &Event{Seq: rec.Seq(), Time: rec.Time(), Topic: table.Name(topic.ID(rec.Topic())), Size: len(payload)}
	if utf8.Valid(payload) {
		text := string(payload)
		ev.Payload = &text
	} else {
		text := base64.StdEncoding.EncodeToString(payload)
		ev.PayloadBase64 = &text
	}
	if rec.HasHeaders() {
		ev.Headers = make(map[string]string)
		for _, h := range rec.Headers() {
			ev.Headers[h.Key] = h.Value
		}
	}
	return ev
}

// markCaughtUp sends "caught-up" once, after the last match at or below the head at opening.
func (e *eventStream) markCaughtUp() bool {
	if e.caughtUp || e.reader.Position() < e.reader.Head() {
		return e.caughtUp
	}
	e.caughtUp = true
	e.event("caught-up", e.reader.Position(), mark{e.reader.Head()})
	return e.flush() == nil
}

// beat tells an idle client where it may resume, or just that the stream lives.
func (e *eventStream) beat() error {
	if pos := e.reader.Position(); pos > e.lastProgress {
		e.lastProgress = pos
		e.event("progress", pos, mark{pos})
	} else {
		e.buf = append(e.buf, ": alive\n\n"...)
	}
	return e.flush()
}

func (e *eventStream) fail(err error) {
	e.buf = append(e.buf, "event: error\n"...)
	e.data(errorBody{asProblem(err)})
	_ = e.flush()
}

func (e *eventStream) event(name string, id uint64, v any) {
	e.buf = append(append(append(e.buf, "id: "...), strconv.AppendUint(nil, id, 10)...), "\nevent: "...)
	e.buf = append(append(e.buf, name...), '\n')
	e.data(v)
}

func (e *eventStream) data(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // no event holds what JSON cannot
	}
	e.buf = append(append(append(e.buf, "data: "...), b...), "\n\n"...)
}

func (e *eventStream) flush() error {
	// Not every writer can have deadlines (a test's recorder has none); then the server's own limits hold.
	_ = e.ctl.SetWriteDeadline(time.Now().Add(e.server.opts.WriteTimeout))
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	if err != nil {
		return err
	}
	return e.ctl.Flush()
}
