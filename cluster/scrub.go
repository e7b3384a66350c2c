package cluster

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/subtree"
)

// scrubFirst is how long after its start a node's first scrub begins at the latest, so that one that is restarted often scrubs too.
const scrubFirst = 10 * time.Minute

// scrubber reads all of history again and again and checks every byte, slowly. Damage that it finds is listed by the store, and mended
// by the node. Its goroutine is history's.
type scrubber struct {
	h     *history
	pace  pace
	bytes atomic.Uint64 // checked since the start
	ended atomic.Int64  // when the last whole scrub ended, unix nanoseconds; 0: none has
	errs  atomic.Uint64 // scrubs that did not get to their end
}

// run scrubs every o.ScrubInterval until ctx ends.
func (s *scrubber) run(ctx context.Context) {
	if s.h.o.ScrubInterval <= 0 || s.h.o.ScrubRate <= 0 {
		return
	}
	pause.For(ctx, min(s.h.o.ScrubInterval, scrubFirst))
	for ctx.Err() == nil {
		if err := s.once(ctx); err != nil {
			return
		}
		pause.For(ctx, s.h.o.ScrubInterval)
	}
}

// once checks all files; the error is only ctx's.
func (s *scrubber) once(ctx context.Context) error {
	before := len(s.h.store.Damaged())
	err := s.h.store.Scrub(ctx, s)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		s.errs.Add(1)
		s.h.log.Warn("scrubbing history ended early", "error", err)
		return nil
	}
	s.ended.Store(time.Now().UnixNano())
	if found := len(s.h.store.Damaged()); found > before {
		s.h.log.Error("scrubbing has found damaged files of history", "damaged", found)
	}
	return nil
}

var _ subtree.Limiter = (*scrubber)(nil)

// Wait implements subtree.Limiter.
func (s *scrubber) Wait(ctx context.Context, bytes int) error {
	s.bytes.Add(uint64(bytes))
	return s.pace.wait(ctx, bytes)
}
