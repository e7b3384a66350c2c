package transport

import (
	"errors"
	"sync/atomic"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// noRequest is the id of an ERROR that belongs to no request and does not end the connection.
const noRequest = ^uint32(0)

// publication is a batch under way: the submission and the frame's buffer that it lies in. Pooled; the two functions of
// the submission are made once.
type publication struct {
	cluster.Submission
	conn *conn
	cost int // in-flight bytes

	buffer atomic.Pointer[wire.Buffer] // nil once freed
	// parts is how many of {bytes released, outcome known} are outstanding: the last one puts p back into the pool.
	parts atomic.Int32
}

func newPublication(s *Server) *publication {
	p := new(publication)
	p.Complete = completePublication
	p.Release = func() { p.release(s) }
	return p
}

// release frees the batch's bytes.
func (p *publication) release(s *Server) {
	if b := p.buffer.Swap(nil); b != nil {
		b.Free()
		p.part(s)
	}
}

func (p *publication) part(s *Server) {
	if p.parts.Add(-1) == 0 {
		p.conn, p.Conn, p.Batch, p.Names = nil, nil, nil, nil
		s.pubs.Put(p)
	}
}

// completePublication queues the ack. It is called from whatever goroutine applies and does not block.
func completePublication(sub *cluster.Submission, r fsm.Result) {
	p := sub.Conn.(*publication)
	c := p.conn
	c.ackResult(p.Request, &r, p.cost)
	p.part(c.server)
}

func (c *conn) ackResult(request uint32, r *fsm.Result, cost int) {
	c.ack(request, &wire.Ack{
		Code: wire.Code(r.Code), Index: r.Index, Count: r.Count, FirstSeq: r.FirstSeq, Time: r.Time, Detail: r.Detail,
	}, cost)
}

func (c *conn) ack(request uint32, a *wire.Ack, cost int) {
	c.metrics.acks[uint8(a.Code)].Inc()
	c.metrics.frameOut[wire.TAck].Inc()
	c.replies.ack(request, a, cost)
	c.signal()
}

// publish hands one batch to the broker. It blocks while the broker is full.
func (c *conn) publish(f wire.Frame) error {
	batch, err := wire.DecodePublish(f.Body)
	if err != nil {
		return c.badBatch(f, err)
	}
	h := batch.Header()
	culprit, undefined, ok := c.aliases.rewrite(batch, h.Preconditions)
	if !ok {
		return c.badAlias(f.ID, h.Count, culprit, undefined)
	}
	p := c.server.pubs.Get().(*publication)
	p.conn, p.cost = c, len(batch)+publishOverhead
	p.buffer.Store(c.frames.Take())
	p.parts.Store(2)
	p.Batch, p.Names, p.Forwarded, p.Request, p.Conn = batch, c.aliases.names, c.peer, f.ID, p

	c.admitBytes(p.cost)
	if c.leaving.Load() { // after the bytes are counted: see drained
		c.refusePublication(p, h.Count, wire.Code(fsm.ShuttingDown))
		return nil
	}
	c.metrics.published.Add(float64(h.Count))
	return c.submit(p, h.Count)
}

func (c *conn) submit(p *publication, count uint32) error {
	c.stalled.Store(true)
	err := c.broker.Submit(c.ctx, &p.Submission)
	c.stalled.Store(false)
	switch {
	case err == nil:
		return nil
	case c.ctx.Err() != nil:
		p.release(c.server)
		return errClosed
	}
	c.refusePublication(p, count, refusedAs(err))
	return nil
}

// refusePublication settles a batch that the broker does not have: not executed.
func (c *conn) refusePublication(p *publication, count uint32, code wire.Code) {
	c.ack(p.Request, &wire.Ack{Code: code, Count: count}, p.cost)
	p.release(c.server)
	p.part(c.server)
}

// admitBytes counts a batch as in flight. Its ack settles it.
func (c *conn) admitBytes(n int) {
	c.inflight.Add(int64(n))
	c.metrics.inflight.Add(float64(n))
}

// settleBytes is the pump's call once acks are written.
func (c *conn) settleBytes(n int) {
	if n > 0 {
		c.inflight.Add(-int64(n))
		c.metrics.inflight.Sub(float64(n))
	}
}

// badAlias refuses a batch whose topics cannot be told. A name that breaks a rule costs its batches; an alias that was
// never defined means that client and server no longer agree on anything.
func (c *conn) badAlias(request, count, culprit uint32, undefined bool) error {
	if undefined {
		return protocolError("publish %d: alias %d is not defined: %d are", request, culprit, len(c.aliases.entries))
	}
	c.ack(request, &wire.Ack{Code: wire.Code(fsm.Invalid), Count: count, Detail: uint64(culprit)}, 0)
	return nil
}

// badBatch answers a batch that breaks the format. One that is only too large costs itself; any other is the end.
func (c *conn) badBatch(f wire.Frame, err error) error {
	var coded *wire.Error
	if !errors.As(err, &coded) || coded.Code != wire.CodeTooLarge {
		return err
	}
	count := record.Batch(f.Body).Header().Count
	c.ack(f.ID, &wire.Ack{Code: wire.Code(fsm.TooLarge), Count: count}, 0)
	return nil
}

// badTopic tells the client which name breaks which rule. The frame of names has no id of its own, and an error with id 0
// would end the connection: noRequest stands for it, and the detail is the alias.
func (c *conn) badTopic(alias int, err error) {
	c.metrics.protocolError(wire.CodeBadTopic)
	c.replyError(noRequest, &wire.Error{Code: wire.CodeBadTopic, Detail: uint64(alias), Message: err.Error()})
}

// defineTopics adds names to the connection's table. One that breaks a rule keeps its number: the client is told, and
// batches that use it are refused.
func (c *conn) defineTopics(f wire.Frame) error {
	d, err := wire.DecodeDefineTopics(f.Body)
	if err != nil {
		return malformed(f.Type, err)
	}
	have := len(c.aliases.names)
	if int64(d.FirstAlias) != int64(have) {
		return protocolError("topics are defined from alias %d: the next one is %d", d.FirstAlias, have)
	}
	if have+len(d.Names) > c.opts.MaxAliases {
		return coded(wire.CodeTooLarge, "%d topics on one connection: the limit is %d", have+len(d.Names), c.opts.MaxAliases)
	}
	for i, name := range d.Names {
		if err := c.aliases.define(name); err != nil {
			c.badTopic(have+i, err)
		}
	}
	return nil
}
