// Package pause waits for a while unless a context ends first. It promises no precision, and does not say whether the context has ended
// at the same moment: who must know asks the context.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d, not at all if that is negative; false: ctx ended first.
func For(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// About is a duration around an average, at least half of it and at most one and a half. An average below 0 is a bug of the caller.
func About(r *rand.Rand, average time.Duration) time.Duration {
	return average/2 + time.Duration(r.Int64N(int64(average)+1))
}
