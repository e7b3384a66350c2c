package load

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cantus-bus/cantus/client"
)

const (
	lowestLatency  = time.Microsecond
	highestLatency = 10 * time.Minute
)

// meter gathers the outcomes of one producer. The producer's goroutine adds, anybody reads.
type meter struct {
	progress func(n int64) // told of every settled message; never nil

	mu struct {
		sync.Mutex
		latency *hdrhistogram.Histogram // in nanoseconds
		acked   int64
		failed  int64
		err     error // the first failure
		first   uint64
		last    uint64 // Invariant: first <= last, both 0 if nothing was acked with a known seq
	}
}

func newMeter(progress func(int64)) *meter {
	m := &meter{progress: progress}
	if progress == nil {
		m.progress = func(int64) {}
	}
	m.mu.latency = hdrhistogram.New(int64(lowestLatency), int64(highestLatency), 3)
	return m
}

// onAck takes the outcome of one batch; the latency of its first message, the longest, counts for all.
func (m *meter) onAck(a client.BatchAck) {
	m.settle(int64(a.Count), a.FirstSeq, time.Since(a.Began), a.Err)
}

func (m *meter) settle(count int64, firstSeq uint64, latency time.Duration, err error) {
	m.mu.Lock()
	if err != nil {
		m.failLocked(count, err)
	} else {
		m.mu.acked += count
		m.spanLocked(firstSeq, count)
		// The histogram refuses only values above its range, and those are cut to it.
		_ = m.mu.latency.RecordValues(int64(min(latency, highestLatency)), count)
	}
	m.mu.Unlock()
	m.progress(count)
}

func (m *meter) failLocked(count int64, err error) {
	m.mu.failed += count
	if m.mu.err == nil {
		m.mu.err = err
	}
}

func (m *meter) fail(count int64, err error) {
	m.mu.Lock()
	m.failLocked(count, err)
	m.mu.Unlock()
	m.progress(count)
}

// spanLocked widens first..last; firstSeq is 0 for a duplicate whose place is no longer known.
func (m *meter) spanLocked(firstSeq uint64, count int64) {
	if firstSeq == 0 {
		return
	}
	if m.mu.first == 0 || firstSeq < m.mu.first {
		m.mu.first = firstSeq
	}
	m.mu.last = max(m.mu.last, firstSeq+uint64(count)-1)
}

// Result of a load. Latencies are from the call of Publish to the ack.
type Result struct {
	Published int64   `json:"published"` // handed to the client
	Acked     int64   `json:"acked"`
	Refused   int64   `json:"refused"` // not acked, with an error
	ElapsedMS float64 `json:"elapsed_ms"`
	PerSecond float64 `json:"per_s"`    // acked messages
	MBPerS    float64 `json:"mb_per_s"` // acked payload bytes, in 10^6
	FirstSeq  uint64  `json:"first_seq"`
	LastSeq   uint64  `json:"last_seq"`
	P50MS     float64 `json:"p50_ms"`
	P99MS     float64 `json:"p99_ms"`
	P999MS    float64 `json:"p999_ms"`
	MaxMS     float64 `json:"max_ms"`

	// FirstError is the first failure among Refused; nil if there was none.
	FirstError error `json:"-"`
}

// merge sums up the producers. payloadBytes is what all acked payloads hold.
func merge(meters []*meter, published, payloadBytes int64, elapsed time.Duration) Result {
	all := newMeter(nil)
	for _, m := range meters {
		m.mu.Lock()
		all.mu.latency.Merge(m.mu.latency)
		all.mu.acked += m.mu.acked
		all.mu.failed += m.mu.failed
		if all.mu.err == nil {
			all.mu.err = m.mu.err
		}
		if m.mu.first > 0 {
			all.spanLocked(m.mu.first, int64(m.mu.last-m.mu.first+1))
		}
		m.mu.Unlock()
	}
	ms := func(v int64) float64 { return float64(v) / float64(time.Millisecond) }
	h := all.mu.latency
	return Result{
		Published: published, Acked: all.mu.acked, Refused: all.mu.failed,
		ElapsedMS: ms(int64(elapsed)),
		PerSecond: float64(all.mu.acked) / elapsed.Seconds(),
		MBPerS:    float64(payloadBytes) / 1e6 / elapsed.Seconds(),
		FirstSeq:  all.mu.first, LastSeq: all.mu.last,
		P50MS: ms(h.ValueAtPercentile(50)), P99MS: ms(h.ValueAtPercentile(99)),
		P999MS: ms(h.ValueAtPercentile(99.9)), MaxMS: ms(h.Max()),
		FirstError: all.mu.err,
	}
}
