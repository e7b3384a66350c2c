package transport

import (
	"errors"

	"github.com/cantus-bus/cantus/internal/wire"
)

// errClosed ends the reading goroutine when the connection is ending for another reason.
var errClosed = errors.New("connection is closing")

// readFrames acts on frames until the connection ends, and says why it did.
func (c *conn) readFrames() error {
	for {
		if err := c.waitRoom(); err != nil {
			return err
		}
		f, err := c.frames.Next()
		if err != nil {
			return err
		}
		if c.over.Load() {
			continue // the client has not seen yet that the server ended the connection
		}
		c.metrics.frameIn[f.Type].Inc()
		if err := c.handle(f); err != nil {
			return err
		}
	}
}

// handle acts on one frame. An error is the end of the connection.
func (c *conn) handle(f wire.Frame) error {
	switch f.Type {
	case wire.TPublish:
		return c.publish(f)
	case wire.TCredit:
		return c.addCredit(f)
	case wire.TDefineTopics:
		return c.defineTopics(f)
	case wire.TOpenProducer:
		return c.openProducer(f)
	case wire.TSubscribe:
		return c.subscribe(f)
	case wire.TUnsubscribe:
		return c.unsubscribe(f)
	case wire.TPing:
		c.reply(wire.TPong, func(dst []byte) []byte { return wire.AppendEmpty(dst, wire.TPong, f.ID) })
		return nil
	case wire.TPong, wire.TGoodbye:
		return nil
	case wire.TQuery:
		return c.query(f)
	case wire.TError:
		return c.clientError(f)
	case wire.THello:
		return protocolError("second HELLO on one connection")
	default:
		return protocolError("%v is a frame that only servers send", f.Type)
	}
}

// clientError takes a client's word that something is wrong on its side.
func (c *conn) clientError(f wire.Frame) error {
	e, err := wire.DecodeError(f.Body)
	if err != nil {
		return malformed(f.Type, err)
	}
	c.log.Info("client reports an error", "id", f.ID, "error", &e)
	if f.ID == 0 {
		return errClosed
	}
	return nil
}

// reply queues one frame of type t that encode appends.
func (c *conn) reply(t wire.Type, encode func(dst []byte) []byte) {
	c.metrics.frameOut[t].Inc()
	c.replies.add(encode)
	c.signal()
}

func (c *conn) replyError(id uint32, e *wire.Error) {
	c.reply(wire.TError, func(dst []byte) []byte { return wire.AppendError(dst, wire.TError, id, e) })
}

// waitRoom holds the reading goroutine back while a limit of the connection is reached. TCP passes that on to the client.
func (c *conn) waitRoom() error {
	if c.hasRoom() {
		return nil
	}
	c.metrics.stalls.Inc()
	c.stalled.Store(true)
	defer c.stalled.Store(false)
	for !c.hasRoom() {
		select {
		case <-c.room:
		case <-c.ctx.Done():
			return errClosed
		}
	}
	return nil
}

func (c *conn) hasRoom() bool {
	return c.inflight.Load() < int64(c.opts.MaxInflight) && c.replies.size() < c.opts.MaxReplies
}

// madeRoom is the pump's call after each write.
func (c *conn) madeRoom() {
	if !c.stalled.Load() {
		return
	}
	select {
	case c.room <- struct{}{}:
	default:
	}
}
