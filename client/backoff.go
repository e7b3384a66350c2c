package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Retries wait backoffMin doubled each time up to backoffMax, each wait shortened by up to half at random so that
// clients that lost the same server do not come back in step. A change of the topology ends a wait after newsMax at the latest, and
// not at once: all clients hear of it at the same time, and an attempt may itself bring the news that would end the next wait.
const (
	backoffMin = 5 * time.Millisecond
	backoffMax = 500 * time.Millisecond
	newsMax    = 20 * time.Millisecond
)

// backoff is how long to wait before retry n (from 0).
func backoff(n int) time.Duration {
	d := backoffMax
	if n < 7 {
		d = min(backoffMin<<n, backoffMax)
	}
	return halved(d)
}

// halved is d shortened by up to half at random.
func halved(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

// sleep waits for d, or until soon after early is closed, and returns ctx's error if that ends first. A nil early never closes.
func sleep(ctx context.Context, d time.Duration, early <-chan struct{}) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-early:
		return sleep(ctx, min(d, halved(newsMax)), nil)
	case <-t.C:
	}
	return nil
}

// gaveUp is the error of an attempt after which nothing more was tried: if the caller's context has ended, that too.
func gaveUp(ctx context.Context, err error) error {
	if ctx.Err() == nil || errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}
