package cluster

import "time"

// queued is a submission that waits to be proposed or forwarded.
type queued struct {
	s    *Submission
	size int   // bytes taken of the in-flight limit; the batch may be released before they are given back
	at   int64 // unix nanoseconds when it was submitted: PublishWait counts from here
}

// queue is a first-in first-out ring of queued submissions that can also take some back at its front. It grows as needed
// and keeps its memory: its length is bounded by the in-flight bytes. Not for several goroutines at once.
type queue struct {
	ring []queued // Invariant: len is 0 or a power of two
	head int      // of the oldest
	n    int
}

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) *queued { return &q.ring[(q.head+i)&(len(q.ring)-1)] }

func (q *queue) grow() {
	if q.n < len(q.ring) {
		return
	}
	ring := make([]queued, max(64, 2*len(q.ring)))
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.head = ring, 0
}

func (q *queue) push(it queued) {
	q.grow()
	q.n++
	*q.at(q.n - 1) = it
}

func (q *queue) front() *queued { return q.at(0) }

func (q *queue) pop() queued {
	it := *q.at(0)
	*q.at(0) = queued{}
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return it
}

// putBack returns items to the front, in their order: they were popped before all that is queued.
func (q *queue) putBack(items []queued) {
	for i := len(items) - 1; i >= 0; i-- {
		q.grow()
		q.head = (q.head - 1) & (len(q.ring) - 1)
		q.n++
		*q.at(0) = items[i]
	}
}

// expiredAt tells whether the oldest has waited longer than wait.
func (q *queue) expiredAt(now int64, wait time.Duration) bool {
	return q.n > 0 && now-q.front().at > int64(wait)
}
