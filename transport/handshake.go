package transport

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// welcomed is the answer to a good hello.
type welcomed struct {
	frame    []byte
	topology uint64 // version that the frame tells; 0: unknown, send the next one
}

// handshake reads the hello and prepares the welcome. An error of the client is a *wire.Error.
func (c *conn) handshake() (welcomed, error) {
	c.nc.SetReadDeadline(time.Now().Add(c.opts.HandshakeTimeout))
	f, err := c.frames.Next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return welcomed{}, protocolError("no HELLO within %v", c.opts.HandshakeTimeout)
	}
	if err != nil {
		return welcomed{}, err
	}
	c.metrics.frameIn[f.Type].Inc()
	if f.Type != wire.THello {
		return welcomed{}, protocolError("first frame is %v: a connection begins with HELLO", f.Type)
	}
	hello, err := wire.DecodeHello(f.Body)
	if err != nil {
		return welcomed{}, malformed(f.Type, err)
	}
	if err := c.agree(&hello); err != nil {
		return welcomed{}, err
	}
	c.nc.SetReadDeadline(time.Time{})
	c.frames.SetMaxFrame(wire.MaxFrame)
	c.log = c.log.With("name", hello.Client)
	c.log.Debug("client connected", "peer", c.peer, "heartbeat", c.heartbeat)
	return c.welcome(), nil
}

// agree holds a hello against what this server is.
func (c *conn) agree(h *wire.Hello) error {
	if h.MinVersion > wire.Version || h.MaxVersion < wire.Version || h.MinVersion > h.MaxVersion {
		e := coded(wire.CodeVersion, "client speaks versions %d to %d of the protocol, this server speaks %d", h.MinVersion, h.MaxVersion, wire.Version)
		e.Detail = wire.Version
		return e
	}
	if own := c.broker.ClusterID(); h.ClusterID != "" && h.ClusterID != own {
		return coded(wire.CodeWrongCluster, "client wants cluster %q, this is %q", h.ClusterID, own)
	}
	c.peer = h.Role == wire.RolePeer
	c.heartbeat = c.opts.Heartbeat
	if h.HeartbeatMS != 0 {
		c.heartbeat = min(max(time.Duration(h.HeartbeatMS)*time.Millisecond, MinHeartbeat), MaxHeartbeat)
	}
	return nil
}

func (c *conn) welcome() welcomed {
	var w welcomed
	if t := c.server.topology.Load(); t != nil {
		w.topology = t.version
	}
	first, last := c.stream.Bounds()
	w.frame = wire.AppendWelcome(nil, &wire.Welcome{
		Version:     wire.Version,
		NodeID:      c.broker.NodeID(),
		HeartbeatMS: uint32(c.heartbeat / time.Millisecond),
		MaxFrame:    wire.MaxFrame,
		MaxInflight: uint32(c.opts.MaxInflight),
		FirstSeq:    first,
		LastSeq:     last,
		Topology:    c.broker.Topology(), // at least as new as the version above
	})
	c.metrics.frameOut[wire.TWelcome].Inc()
	return w
}

// refuse ends a connection that never got its welcome.
func (c *conn) refuse(err error) {
	e, told := c.fault(err)
	if !told {
		return
	}
	c.log.Info("connection refused", "error", e)
	c.metrics.frameOut[wire.TError].Inc()
	sayLast(c.nc, wire.AppendError(nil, wire.TError, 0, e), c.opts.Linger)
}

// fault turns what ended the reading into what the client is told, and counts it. told is false when there is nobody to
// tell: the client closed, the network failed, or the server ended the connection itself.
func (c *conn) fault(err error) (e *wire.Error, told bool) {
	switch {
	case c.over.Load() || c.ctx.Err() != nil:
		return nil, false
	case errors.As(err, &e):
	case errors.Is(err, io.ErrUnexpectedEOF):
		c.metrics.cutShort.Inc()
		e = protocolError("connection ended within a frame")
	default:
		c.log.Debug("connection closed", "reason", err)
		return nil, false
	}
	c.metrics.protocolError(e.Code)
	return e, true
}

// malformed says that the body of a frame breaks its format.
func malformed(t wire.Type, err error) *wire.Error {
	e := *travelling(err, wire.CodeProtocol)
	e.Message = t.String() + " frame: " + e.Message
	return &e
}
