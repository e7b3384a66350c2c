package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Retries wait backoffMin doubled each time up to backoffMax, each wait shortened by up to half at random so that
// clients that lost the same server do not come back in step.
const (
	backoffMin = 5 * time.Millisecond
	backoffMax = 500 * time.Millisecond
)

// backoff is how long to wait before retry n (from 0).
func backoff(n int) time.Duration {
	d := backoffMax
	if n < 7 {
		d = min(backoffMin<<n, backoffMax)
	}
	return d/2 + rand.N(d/2+1)
}

// sleep waits for d, or until early is closed, and returns ctx's error if that ends first. A nil early never closes.
func sleep(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-early:
	case <-t.C:
	}
	return nil
}
