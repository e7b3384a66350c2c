package cluster

import (
	"context"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
)

// Writing history competes with publishing for processor and disk, and what is not written yet stands in the tip all the same. So
// while messages come thick and fast, sealed windows wait, as long as the tip has room and not for ever, and rewriting waits longer.
const (
	busyRate     = 80_000                // messages a second from which on the stream counts as busy
	calmSample   = 50 * time.Millisecond // shortest span that a rate is taken over
	archiveDelay = 10 * time.Second      // longest wait of a window
	rewriteDelay = time.Minute           // longest wait of a generation
)

// loadMeter tells whether a stream is busy from how its seq moves. One goroutine.
type loadMeter struct {
	at   time.Time
	seq  uint64
	busy bool // by the last sample
}

// sample returns whether the stream is busy by the messages since the last sample, or what it was if that was just now.
func (m *loadMeter) sample(now time.Time, seq uint64) bool {
	span := now.Sub(m.at)
	if span < calmSample {
		return m.busy
	}
	m.busy = !m.at.IsZero() && float64(seq-m.seq) >= busyRate*span.Seconds()
	m.at, m.seq = now, seq
	return m.busy
}

// awaitCalm returns when the stream is not busy, when hurry says that there is no more time, after limit, or when ctx ends.
func (h *history) awaitCalm(ctx context.Context, m *loadMeter, limit time.Duration, hurry func() bool) {
	for end := time.Now().Add(limit); ctx.Err() == nil; pause.For(ctx, calmSample) {
		now := time.Now()
		if !m.sample(now, h.machine.LastSeq()) || now.After(end) || hurry() {
			return
		}
	}
}

// crowded tells whether what waits to be archived takes three quarters of the tip.
func (a *archiver) crowded() bool {
	waiting := uint64(0)
	for _, w := range a.pending() {
		waiting += w.Bytes
	}
	return waiting >= uint64(a.h.tip.Stats().RingBytes)/4*3
}
