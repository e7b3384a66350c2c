package stall

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

const limit = time.Minute

var errStalled = errors.New("nothing comes")

// pipe is an answer that the test sends byte by byte. Like that of a request it breaks off when the context ends.
func pipe(ctx context.Context) (*io.PipeReader, *io.PipeWriter) {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(errors.New("connection closed")) })
	return r, w
}

// TestBodyThatGoesOn: an answer may take many times the limit, as long as something comes in time.
func TestBodyThatGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := New(t.Context(), limit, errStalled)
		r, in := pipe(ctx)
		go func() {
			for range 10 {
				time.Sleep(limit - time.Second)
				in.Write([]byte("x"))
			}
			in.Close()
		}()
		body := w.Body(r)
		got, err := io.ReadAll(body)
		if err != nil || string(got) != "xxxxxxxxxx" {
			t.Errorf("%q, %v", got, err)
		}
		if err := body.Close(); err != nil || ctx.Err() == nil {
			t.Errorf("closed: %v, the context: %v", err, ctx.Err())
		}
	})
}

// TestBodyThatStalls: what came is given, then the cause.
func TestBodyThatStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := New(t.Context(), limit, errStalled)
		r, in := pipe(ctx)
		go in.Write([]byte("some"))
		body := w.Body(r)
		began := time.Now()
		got, err := io.ReadAll(body)
		if string(got) != "some" || !errors.Is(err, errStalled) || time.Since(began) != limit {
			t.Errorf("%q, %v after %v", got, err, time.Since(began))
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestAnswerThatNeverBegins: the caller's error gets the cause; one that has nothing to do with it stays what it is.
func TestAnswerThatNeverBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, w := New(t.Context(), limit, errStalled)
		<-ctx.Done()
		own := errors.New("no answer")
		if err := w.End(own); !errors.Is(err, errStalled) || !errors.Is(err, own) {
			t.Errorf("stalled: %v", err)
		}
		ctx, w = New(t.Context(), limit, errStalled)
		if err := w.End(own); err != own || ctx.Err() == nil {
			t.Errorf("refused: %v, the context: %v", err, ctx.Err())
		}
		outer, cancel := context.WithCancel(t.Context())
		_, w = New(outer, limit, errStalled)
		cancel()
		if err := w.End(context.Canceled); err != context.Canceled {
			t.Errorf("given up by the caller: %v", err)
		}
	})
}

// TestGivenUpByTheCaller: a reader whose caller gives up is told so, not that nothing came.
func TestGivenUpByTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outer, cancel := context.WithCancelCause(t.Context())
		ctx, w := New(outer, limit, errStalled)
		r, _ := pipe(ctx)
		body := w.Body(r)
		defer body.Close()
		mine := errors.New("the test ends")
		time.AfterFunc(time.Second, func() { cancel(mine) })
		if _, err := io.ReadAll(body); !errors.Is(err, mine) {
			t.Error(err)
		}
	})
}
