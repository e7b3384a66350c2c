package cluster

import (
	"context"
	"errors"
	"testing"
)

// forgotten is a future that raft never answers, until the test is over.
type forgotten struct{ over chan struct{} }

func (f forgotten) Error() error  { <-f.over; return nil }
func (f forgotten) Index() uint64 { return 0 }

// TestForgottenFutures: whoever waits for a change that raft has forgotten goes on when the node closes, and the node closes.
func TestForgottenFutures(t *testing.T) {
	n := openAlone(t, &faultyStore{}, nil)
	f := forgotten{make(chan struct{})}
	answers := make(chan error, 2)
	go func() { answers <- awaitedFuture{f, n}.Error() }()
	go func() { answers <- awaitedTransfer{f, n}.Error() }()
	eventually(t, "both to wait", func() bool {
		n.futures.mu.Lock()
		defer n.futures.mu.Unlock()
		return n.futures.mu.running == 2
	})
	closed := make(chan error, 1)
	go func() { closed <- n.Close() }()
	for range 2 {
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Errorf("the node closed, and the answer was %v", err)
		}
	}
	close(f.over)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if err := (awaitedFuture{f, n}).Error(); !errors.Is(err, ErrClosed) {
		t.Errorf("a change of a closed node: %v", err)
	}
}
