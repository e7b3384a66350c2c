package http

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	nethttp "net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// maxLine bounds a line of an NDJSON body: a message of the largest size in base64, its topic and headers.
	maxLine = 2*record.MaxPayload + 64<<10
	// batchBytes is where a batch of lines is sent off.
	batchBytes = 128 << 10
	// batchLines bounds the lines of one batch.
	batchLines = 4096
)

// publishLine is one message of an NDJSON body.
type publishLine struct {
	Topic         string            `json:"topic"`
	Payload       *string           `json:"payload"`
	PayloadBase64 *string           `json:"payload_base64"`
	Headers       map[string]string `json:"headers"`
}

func (l *publishLine) payload() ([]byte, error) {
	switch {
	case l.Payload != nil && l.PayloadBase64 != nil:
		return nil, errors.New("has payload and payload_base64: give one of them")
	case l.PayloadBase64 != nil:
		return base64.StdEncoding.DecodeString(*l.PayloadBase64)
	case l.Payload != nil:
		return []byte(*l.Payload), nil
	}
	return nil, nil
}

// headers in order of their keys, so that the same line is always the same bytes.
func (l *publishLine) headers() []record.Header {
	out := make([]record.Header, 0, len(l.Headers))
	for _, k := range slices.Sorted(maps.Keys(l.Headers)) {
		out = append(out, record.Header{Key: k, Value: l.Headers[k]})
	}
	return out
}

// PublishAnswer is a line of the answer: one for each message, in order.
type PublishAnswer struct {
	Seq  uint64 `json:"seq"`
	Time int64  `json:"time"`
	// Duplicate: this number was published before; Seq is where, 0 if no longer known.
	Duplicate bool `json:"duplicate,omitempty"`
}

// publication is one POST /v1/publish on its way.
type publication struct {
	node   cluster.Broker
	who    identity
	atomic bool
	pre    []record.Precondition

	builder record.BatchBuilder
	names   []string
	// refs: what a topic's name stands for in the batch; an id, or record.NewTopic|index into names.
	refs map[string]uint32
	line int
}

func (s *Server) postPublish(w nethttp.ResponseWriter, r *nethttp.Request) {
	p, err := s.newPublication(r)
	if err != nil {
		writeErr(w, err)
		return
	}
	// Answers go out while lines still come in.
	_ = nethttp.NewResponseController(w).EnableFullDuplex()
	out := &answerWriter{w: w, patience: s.opts.WriteTimeout}
	if err := p.run(r.Context(), r.Body, out); err != nil {
		out.fail(err)
		return
	}
	out.finish()
}

func (s *Server) newPublication(r *nethttp.Request) (*publication, error) {
	q := r.URL.Query()
	who, err := parseIdentity(q)
	if err != nil {
		return nil, err
	}
	p := &publication{node: s.node, who: who, refs: make(map[string]uint32)}
	if v := q.Get("atomic"); v != "" {
		if p.atomic, err = strconv.ParseBool(v); err != nil {
			return nil, problem(nethttp.StatusBadRequest, "bad_request", "atomic=%q: want true or false", v)
		}
	}
	for _, v := range q["if_last"] {
		if err := p.addPrecondition(v); err != nil {
			return nil, err
		}
	}
	if len(p.pre) > record.MaxPreconditions {
		return nil, problem(nethttp.StatusBadRequest, "bad_request", "%d preconditions: at most %d", len(p.pre), record.MaxPreconditions)
	}
	p.builder.Reset(nil, p.pre)
	return p, nil
}

// addPrecondition reads "TOPIC@SEQ".
func (p *publication) addPrecondition(v string) error {
	at := strings.LastIndexByte(v, '@')
	if at < 0 || !p.atomic {
		return problem(nethttp.StatusBadRequest, "bad_request", "if_last=%q: want TOPIC@SEQ beside atomic=true", v)
	}
	seq, err := strconv.ParseUint(v[at+1:], 10, 64)
	if err != nil {
		return problem(nethttp.StatusBadRequest, "bad_request", "if_last=%q: %q is no seq", v, v[at+1:])
	}
	ref, err := p.ref(v[:at])
	if err != nil {
		return err
	}
	p.pre = append(p.pre, record.Precondition{Topic: ref, LastSeq: seq})
	return nil
}

func (p *publication) ref(name string) (uint32, error) {
	if ref, ok := p.refs[name]; ok {
		return ref, nil
	}
	if err := topic.Validate(name); err != nil {
		return 0, err
	}
	table := p.node.Stream().Table()
	if id, ok := table.Lookup(name); ok && table.IsTopic(id) {
		p.refs[name] = uint32(id)
		return uint32(id), nil
	}
	ref := record.NewTopic | uint32(len(p.names))
	p.names = append(p.names, name)
	p.refs[name] = ref
	return ref, nil
}

func (p *publication) run(ctx context.Context, body io.Reader, out *answerWriter) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for lines.Scan() {
		p.line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		err := p.add(lines.Bytes())
		if errors.Is(err, record.ErrBatchFull) { // what was gathered leaves no room for a large message
			if err := p.send(ctx, out); err != nil {
				return err
			}
			err = p.add(lines.Bytes())
		}
		if err != nil {
			return p.atLine(err, out)
		}
		if !p.atomic && (p.builder.Size() >= batchBytes || p.builder.Count() >= batchLines) {
			if err := p.send(ctx, out); err != nil {
				return err
			}
		}
	}
	p.line++
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return p.atLine(problem(nethttp.StatusRequestEntityTooLarge, "too_large", "line %d has over %d bytes: no line may", p.line, maxLine), out)
	case err != nil:
		return p.atLine(problem(nethttp.StatusBadRequest, "bad_request", "line %d: %v", p.line, err), out)
	}
	return p.send(ctx, out)
}

// atLine sends what stands before a bad line, as those lines were good, unless all or none was asked for.
func (p *publication) atLine(err error, out *answerWriter) error {
	bad := asProblem(err)
	bad.Line = p.line
	if !p.atomic {
		if err := p.send(context.Background(), out); err != nil {
			return err
		}
	}
	return bad
}

// add puts a line's message into the batch. The error is ErrBatchFull if the next batch would take it.
func (p *publication) add(line []byte) error {
	l, err := parseLine(line)
	if err != nil {
		return problem(nethttp.StatusBadRequest, "bad_request", "line %d: %v", p.line, err)
	}
	payload, err := l.payload()
	if err != nil {
		return problem(nethttp.StatusBadRequest, "bad_request", "line %d: %v", p.line, err)
	}
	ref, err := p.ref(l.Topic)
	if err != nil {
		return err
	}
	err = p.builder.Add(ref, l.headers(), payload)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, record.ErrBatchFull) && !p.atomic:
		return err
	case errors.Is(err, record.ErrBadHeader):
		return problem(nethttp.StatusBadRequest, "bad_request", "line %d: %v", p.line, err)
	}
	return problem(nethttp.StatusRequestEntityTooLarge, "too_large", "line %d: %v", p.line, err)
}

// parseLine reads one JSON object that is all of the line: what stood behind it would be lost without a word, and so would
// bytes that are no UTF-8, which the decoder replaces.
func parseLine(line []byte) (l publishLine, err error) {
	if !utf8.Valid(line) {
		return l, errors.New("is not UTF-8: give such a payload as payload_base64")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		return l, err
	}
	if rest := bytes.TrimSpace(line[dec.InputOffset():]); len(rest) > 0 {
		return l, fmt.Errorf("%.20q stands behind the object: one message per line", rest)
	}
	return l, nil
}

// send submits the lines gathered and waits for their fate.
func (p *publication) send(ctx context.Context, out *answerWriter) error {
	if p.builder.Count() == 0 {
		return nil
	}
	batch := p.builder.Finish(p.who.id, p.who.epoch, p.who.number, p.atomic)
	// In the log a batch that breaks a rule would stop every node.
	if err := batch.Validate(); err != nil {
		return problem(nethttp.StatusBadRequest, "bad_request", "not executed: %v", err)
	}
	done := make(chan fsm.Result, 1)
	sub := &cluster.Submission{
		Batch:    batch,
		Names:    p.names,
		Complete: func(_ *cluster.Submission, r fsm.Result) { done <- r },
	}
	if err := p.node.Submit(ctx, sub); err != nil {
		return err
	}
	res := <-done
	count := batch.Header().Count
	if res.Code != fsm.OK && res.Code != fsm.Duplicate {
		return resultProblem(res)
	}
	if out.answers(res, count); out.gone != nil {
		return out.gone // what was published stays published
	}
	if p.who.idempotent() {
		p.who.number += uint64(count)
	}
	// The broker may still read the batch's bytes only until Complete, so the buffer is free again.
	p.builder.Reset(batch[:0], nil)
	return nil
}

// answerWriter writes the answer's lines; the status goes out with the first.
type answerWriter struct {
	w        nethttp.ResponseWriter
	patience time.Duration // of one write
	begun    bool
	gone     error // the first failed write: nobody reads any more
	buf      []byte
}

func (a *answerWriter) answers(r fsm.Result, count uint32) {
	a.begin()
	a.buf = a.buf[:0]
	for i := range uint64(count) {
		line := PublishAnswer{Time: r.Time, Duplicate: r.Code == fsm.Duplicate}
		if r.FirstSeq != 0 {
			line.Seq = r.FirstSeq + i
		}
		a.add(line)
	}
	a.flush()
}

func (a *answerWriter) begin() {
	if !a.begun {
		a.begun = true
		a.w.Header().Set("Content-Type", "application/x-ndjson")
		a.w.WriteHeader(nethttp.StatusOK)
	}
}

func (a *answerWriter) add(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return // no answer line holds what JSON cannot
	}
	a.buf = append(append(a.buf, b...), '\n')
}

func (a *answerWriter) flush() {
	ctl := nethttp.NewResponseController(a.w)
	// A client that sends and does not read may not hold the request for ever.
	_ = ctl.SetWriteDeadline(time.Now().Add(a.patience))
	_, err := a.w.Write(a.buf)
	a.gone = cmp.Or(a.gone, err, ctl.Flush())
	_ = ctl.SetWriteDeadline(time.Time{}) // the connection may carry other requests
}

// fail answers with a status if nothing was published yet, else with a last line.
func (a *answerWriter) fail(err error) {
	if !a.begun {
		// The rest of the body is not read, so the connection cannot carry another request.
		a.w.Header().Set("Connection", "close")
		writeErr(a.w, err)
		return
	}
	a.buf = a.buf[:0]
	a.add(errorBody{asProblem(err)})
	a.flush()
}

func (a *answerWriter) finish() { a.begin() }
