package transport

import (
	"sync"

	"github.com/cantus-bus/cantus/internal/wire"
)

// replies gathers the frames that answer a client, acks above all, until the pump writes them. Any goroutine adds; adding
// never blocks. It is bounded from outside: acks by the in-flight bytes they settle, all else because the reading
// goroutine stops at Options.MaxReplies.
type replies struct {
	mu   sync.Mutex
	buf  []byte // whole frames
	cost int    // in-flight bytes that the acks in buf settle
	// closed: the connection is over and adds are dropped.
	closed bool
}

// keepReplies is the capacity above which a buffer that a burst has grown is not kept.
const keepReplies = 128 << 10

func (r *replies) ack(request uint32, a *wire.Ack, cost int) {
	r.mu.Lock()
	if !r.closed {
		r.buf = wire.AppendAck(r.buf, request, a)
		r.cost += cost
	}
	r.mu.Unlock()
}

// add lets encode append one frame.
func (r *replies) add(encode func(dst []byte) []byte) {
	r.mu.Lock()
	if !r.closed {
		r.buf = encode(r.buf)
	}
	r.mu.Unlock()
}

// take hands over what has gathered and goes on in spare.
func (r *replies) take(spare []byte) (frames []byte, cost int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.buf) == 0 {
		return nil, 0
	}
	frames, cost = r.buf, r.cost
	r.buf, r.cost = spare[:0], 0
	return frames, cost
}

func (r *replies) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.buf)
}

func (r *replies) close() {
	r.mu.Lock()
	r.closed, r.buf, r.cost = true, nil, 0
	r.mu.Unlock()
}
