package transport

import (
	"context"
	"fmt"
)

// Shutdown stops accepting, says GOODBYE to every client, refuses further publishes as not executed, and ends each
// connection once its acks are written. When ctx ends before that, the rest is closed as by Close and the error says so.
// Calling Shutdown and Close in any order and repeatedly is fine.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.stop(draining) {
		for _, c := range s.connections() {
			c.drain()
		}
	}
	done := make(chan struct{})
	go func() {
		s.connWG.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		if left := len(s.connections()); left > 0 {
			err = fmt.Errorf("transport: shutdown: %d connections had not finished and were closed: %w", left, ctx.Err())
		}
	}
	s.Close()
	<-done
	return err
}

// Close drops all connections at once and waits for their goroutines. Publishes under way are settled by the broker; their
// acks go nowhere.
func (s *Server) Close() error {
	s.stop(closed)
	s.cancel()
	s.connWG.Wait()
	s.watchWG.Wait()
	return nil
}

// stop moves the server's state forward and closes the listeners. It reports whether the state changed.
func (s *Server) stop(to serverState) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.state >= to {
		return false
	}
	s.mu.state = to
	for l := range s.mu.listeners {
		l.Close()
	}
	clear(s.mu.listeners)
	return true
}
