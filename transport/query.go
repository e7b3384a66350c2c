package transport

import (
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// maxAnswer bounds the records and topics of an ANSWER, in bytes: less than a frame, with lengths and padding. One message is always
// sent.
const maxAnswer = 512 << 10

// query reads single messages beside the connection: its other frames wait neither for the disk nor for the log.
func (c *conn) query(f wire.Frame) error {
	if f.ID == 0 {
		return protocolError("query 0: ids begin at 1")
	}
	q, err := wire.DecodeQuery(f.Body)
	switch {
	case err != nil && !ofFilters(err):
		return malformed(f.Type, err)
	case err != nil:
		c.replyError(f.ID, travelling(err, wire.CodeBadFilter))
		return nil
	case c.leaving.Load():
		c.replyError(f.ID, coded(wire.CodeShutdown, "this node is shutting down: use another one"))
		return nil
	}
	if c.querying.Add(1) > int32(c.opts.MaxQueries) {
		c.querying.Add(-1)
		e := coded(wire.CodeTooManyQueries, "this connection has its limit of %d queries under way: wait for an answer", c.opts.MaxQueries)
		e.Detail = uint64(c.opts.MaxQueries)
		c.replyError(f.ID, e)
		return nil
	}
	q.WaitMS = uint32(min(time.Duration(q.WaitMS)*time.Millisecond, c.opts.MaxSeqWait).Milliseconds())
	c.helpers.Add(1)
	go c.answer(f.ID, &q)
	return nil
}

func (c *conn) answer(request uint32, q *wire.Query) {
	defer c.helpers.Done()
	page, err := Lookup(c.ctx, c.broker, q)
	if err != nil {
		c.replyError(request, travelling(err, wire.CodeInternal))
	} else {
		answer := newAnswer(&page)
		c.metrics.looked.Add(float64(len(page.Messages)))
		c.reply(wire.TAnswer, func(dst []byte) []byte { return wire.AppendAnswer(dst, request, answer) })
	}
	c.querying.Add(-1) // after the answer is queued: see drained
	c.signal()
}

func newAnswer(page *cluster.LastPage) *wire.Answer {
	a := &wire.Answer{Seq: page.Seq, Next: page.Next, Count: uint32(len(page.Messages))}
	for _, m := range page.Messages {
		a.Run = append(a.Run, m.Record...)
		for len(a.Run)%record.Align != 0 {
			a.Run = append(a.Run, 0)
		}
		a.Topics = append(a.Topics, m.Topic)
	}
	return a
}
