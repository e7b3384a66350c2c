// Package stall ends a request for something large when nothing of it comes any more: the time for all of it has no bound, the time
// without a byte has.
//
// It promises that the caller sees why: the cause that it gave, whether the answer never began or broke off. It starts no goroutine
// beyond a timer, which ends with Close or End. It does not retry.
package stall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Watch ends one request when nothing comes for a while. Make it before the request, with the context that the request gets; then either
// End it or read its Body and Close that.
type Watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
	body   io.ReadCloser // set by Body
}

// New watches from now on. The context that it returns, a child of ctx, is cancelled with cause after limit without a byte.
func New(ctx context.Context, limit time.Duration, cause error) (context.Context, *Watch) {
	w := &Watch{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(limit, func() { w.cancel(cause) })
	return w.ctx, w
}

// End ends a request that gets no body. It returns err, the request's, with the reason why the context ended in front if it has ended.
func (w *Watch) End(err error) error {
	if cause := context.Cause(w.ctx); cause != nil && err != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	w.stop()
	return err
}

// Body is the request's answer: each byte that is read of it sets the clock back. An error of a read is the reason why the context ended,
// if it has. Closing it ends the request.
func (w *Watch) Body(body io.ReadCloser) io.ReadCloser {
	w.body = body
	return (*watched)(w)
}

func (w *Watch) stop() {
	w.timer.Stop()
	w.cancel(context.Canceled)
}

// watched is a Watch with a body.
type watched Watch

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.body.Read(b)
	if n > 0 {
		w.timer.Reset(w.limit)
	}
	if cause := context.Cause(w.ctx); err != nil && !errors.Is(err, io.EOF) && cause != nil {
		err = cause
	}
	return n, err
}

func (w *watched) Close() error {
	(*Watch)(w).stop()
	return w.body.Close()
}
