package transport

import (
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
)

// openProducer asks the log for a producer's epoch, beside the connection: its other frames do not wait.
func (c *conn) openProducer(f wire.Frame) error {
	o, err := wire.DecodeOpenProducer(f.Body)
	if err != nil {
		return malformed(f.Type, err)
	}
	if c.leaving.Load() {
		c.producerOpened(f.ID, wire.ProducerOpened{Code: wire.Code(fsm.ShuttingDown)})
		return nil
	}
	if c.opening.Add(1) > int32(c.opts.MaxOpenProducers) {
		c.opening.Add(-1)
		c.producerOpened(f.ID, wire.ProducerOpened{Code: wire.Code(fsm.Unavailable), Detail: uint64(c.opts.MaxOpenProducers)})
		return nil
	}
	c.helpers.Add(1)
	go c.awaitProducer(f.ID, o)
	return nil
}

func (c *conn) awaitProducer(request uint32, o wire.OpenProducer) {
	defer c.helpers.Done()
	r, err := c.broker.OpenProducer(c.ctx, o.ID)
	answer := wire.ProducerOpened{
		Code: wire.Code(r.Code), Detail: r.Detail, Epoch: r.Epoch, LastNumber: r.LastNumber, LastSeq: r.LastSeq,
	}
	if err != nil {
		answer = wire.ProducerOpened{Code: refusedAs(err)}
	}
	c.producerOpened(request, answer)
	c.opening.Add(-1) // after the answer is queued: see drained
	c.signal()
}

func (c *conn) producerOpened(request uint32, o wire.ProducerOpened) {
	c.reply(wire.TProducerOpened, func(dst []byte) []byte { return wire.AppendProducerOpened(dst, request, o) })
}
