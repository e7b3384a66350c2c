package transport

import (
	"errors"
	"os"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// write sends what was gathered; false: the connection is over. A client that takes bytes, however slowly, is not slow: only
// one that takes none for the write timeout.
func (p *pump) write() bool {
	for len(p.out.bufs) > 0 {
		n, err := p.writeSome(p.c.opts.WriteTimeout)
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			p.c.log.Debug("write failed", "error", err)
			p.c.cancel()
			return false
		case n == 0:
			p.slow()
			return false
		}
	}
	return true
}

func (p *pump) writeSome(limit time.Duration) (int64, error) {
	p.c.nc.SetWriteDeadline(time.Now().Add(limit))
	n, err := p.out.bufs.WriteTo(p.c.nc)
	p.c.metrics.bytesOut.Add(float64(n))
	return n, err
}

// slow ends the connection of a client that takes nothing. It is told if it wakes up within the linger time: the frame that
// it has part of is completed first.
func (p *pump) slow() {
	p.c.metrics.slowClosed.Inc()
	p.c.metrics.protocolError(wire.CodeSlow)
	p.c.log.Info("client takes no bytes, closing its connection", "timeout", p.c.opts.WriteTimeout)
	e := coded(wire.CodeSlow, "no byte was taken for %v: read faster, or give less credit", p.c.opts.WriteTimeout)
	p.out.bufs = append(p.out.bufs, wire.AppendError(nil, wire.TError, 0, e))
	if _, err := p.writeSome(p.c.opts.Linger); err == nil {
		p.c.over.Store(true)
		if half, ok := p.c.nc.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
			p.c.nc.SetReadDeadline(time.Now().Add(p.c.opts.Linger))
			return
		}
	}
	p.c.cancel()
}
