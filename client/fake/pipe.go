package fake

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBuffer is how many bytes each direction of a Pipe holds before Write waits.
const pipeBuffer = 256 << 10

// Pipe returns the two ends of a connection in memory. Unlike net.Pipe's, writes do not wait for reads until a buffer
// is full. What was written before Close can still be read. Deadlines are not kept: setting one does nothing.
func Pipe() (net.Conn, net.Conn) {
	a, b := newHalf(), newHalf()
	return &end{in: a, out: b}, &end{in: b, out: a}
}

// half is one direction.
type half struct {
	mu     sync.Mutex
	cond   sync.Cond
	buf    []byte // Invariant: len <= pipeBuffer
	closed bool   // by either end: no more writes
	shut   bool   // by the reading end: no more reads
}

func newHalf() *half {
	h := &half{}
	h.cond.L = &h.mu
	return h
}

func (h *half) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.buf) == 0 && !h.closed && !h.shut {
		h.cond.Wait()
	}
	switch {
	case h.shut:
		return 0, os.ErrClosed
	case len(h.buf) == 0:
		return 0, io.EOF
	}
	n := copy(p, h.buf)
	h.buf = h.buf[:copy(h.buf, h.buf[n:])]
	h.cond.Broadcast()
	return n, nil
}

func (h *half) write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	written := 0
	for len(p) > 0 {
		for len(h.buf) >= pipeBuffer && !h.closed {
			h.cond.Wait()
		}
		if h.closed {
			return written, io.ErrClosedPipe
		}
		n := min(len(p), pipeBuffer-len(h.buf))
		h.buf = append(h.buf, p[:n]...)
		p, written = p[n:], written+n
		h.cond.Broadcast()
	}
	return written, nil
}

func (h *half) close(reader bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.shut = h.shut || reader
	h.cond.Broadcast()
}

// end is one end of a Pipe.
type end struct{ in, out *half }

func (e *end) Read(p []byte) (int, error)  { return e.in.read(p) }
func (e *end) Write(p []byte) (int, error) { return e.out.write(p) }

func (e *end) Close() error {
	e.in.close(true)
	e.out.close(false)
	return nil
}

func (e *end) LocalAddr() net.Addr              { return addr{} }
func (e *end) RemoteAddr() net.Addr             { return addr{} }
func (e *end) SetDeadline(time.Time) error      { return nil }
func (e *end) SetReadDeadline(time.Time) error  { return nil }
func (e *end) SetWriteDeadline(time.Time) error { return nil }

type addr struct{}

func (addr) Network() string { return "fake" }
func (addr) String() string  { return "fake" }
