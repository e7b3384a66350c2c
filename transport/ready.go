package transport

import "sync"

// readyQueue holds the subscriptions of a connection that may have something to send, each at most once. Any goroutine
// pushes, the stream's writer among them: a push is a short critical section and never waits for anything else. The pump
// takes all at once, which makes its turns round robin.
type readyQueue struct {
	mu   sync.Mutex
	list []*subscription // Invariant: queued is true for each
}

// push reports whether s was not in the queue.
func (q *readyQueue) push(s *subscription) bool {
	if s.queued.Swap(true) {
		return false
	}
	q.mu.Lock()
	q.list = append(q.list, s)
	q.mu.Unlock()
	return true
}

// take empties the queue into a list that reuses spare. The caller clears queued of each before it serves it, so that a
// wake during the service queues it again.
func (q *readyQueue) take(spare []*subscription) []*subscription {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := q.list
	q.list = spare[:0]
	return list
}

func (q *readyQueue) empty() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.list) == 0
}
