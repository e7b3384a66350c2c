package cluster

import (
	"cmp"
	"slices"
	"time"
)

// queued is a submission that waits to be proposed or forwarded.
type queued struct {
	s    *Submission
	size int   // of the batch in bytes; the batch may be released before they are given back
	at   int64 // unix nanoseconds when it was submitted: PublishWait counts from here

	order uint64 // ascends as batches were submitted
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

// putBack returns items, in their order, to the front: they were popped before what is queued, except for others that came
// back meanwhile, among which they take their place.
func (q *queue) putBack(items []queued) {
	if len(items) == 0 {
		return
	}
	var between []queued
	for q.n > 0 && q.front().order < items[len(items)-1].order {
		between = append(between, q.pop())
	}
	if len(between) > 0 {
		items = append(between, items...)
		slices.SortStableFunc(items, func(a, b queued) int { return cmp.Compare(a.order, b.order) })
	}
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
