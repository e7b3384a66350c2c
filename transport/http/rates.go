package http

import (
	"sync"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
)

const (
	// sampleEvery is the span that a rate is measured over.
	sampleEvery = 5 * time.Second
	// sampleIdle: nobody asked for so long, so sampling stops and its memory is freed.
	sampleIdle = time.Minute
)

// rateSampler measures messages per second of every topic and subtree, while somebody asks.
//
// It costs 16 bytes a node of the topic tree while it runs, nothing otherwise.
type rateSampler struct {
	table *topic.Table

	mu struct {
		sync.Mutex
		// running: a goroutine samples; it stops by itself once asked lies sampleIdle back, or on quit.
		running bool
		asked   time.Time
		at      time.Time
		// counts of messages at the last sample, by node; own and subtree are rates over the span before it.
		counts       []uint64
		own, subtree []float32
	}
	quit chan struct{}
	done sync.WaitGroup
}

func newRateSampler(t *topic.Table) *rateSampler {
	return &rateSampler{table: t, quit: make(chan struct{})}
}

// rates of a moment: messages per second, by node.
type rates struct{ own, subtree []float32 }

// of the topic itself, or of all below it.
func (r rates) of(id topic.ID, subtree bool) float64 {
	list := r.own
	if subtree {
		list = r.subtree
	}
	if int(id) >= len(list) {
		return 0
	}
	return float64(list[id])
}

// get returns the newest rates; the first call starts the sampling, so that rates are there sampleEvery later.
func (r *rateSampler) get() rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.asked = time.Now()
	select {
	case <-r.quit:
		return rates{}
	default:
	}
	if !r.mu.running {
		r.mu.running = true
		r.sampleLocked(time.Now())
		r.done.Go(r.run)
	}
	return rates{r.mu.own, r.mu.subtree}
}

func (r *rateSampler) run() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if r.sample(now) {
				return
			}
		case <-r.quit:
			return
		}
	}
}

// sample reports whether sampling is over.
func (r *rateSampler) sample(now time.Time) (over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.mu.asked) > sampleIdle {
		r.mu.running = false
		r.mu.counts, r.mu.own, r.mu.subtree = nil, nil, nil
		return true
	}
	r.sampleLocked(now)
	return false
}

func (r *rateSampler) sampleLocked(now time.Time) {
	n := r.table.Nodes()
	counts := make([]uint64, n)
	own, subtree := make([]float32, n), make([]float32, n)
	span := float32(now.Sub(r.mu.at).Seconds())
	for id := n - 1; id >= 0; id-- {
		counts[id], _, _ = r.table.Stats(topic.ID(id))
		if id < len(r.mu.counts) && span > 0 {
			own[id] = float32(counts[id]-r.mu.counts[id]) / span
		} else if r.mu.counts != nil && span > 0 {
			own[id] = float32(counts[id]) / span
		}
		subtree[id] += own[id]
		if id > 0 {
			// A parent's number is always below its children's, so one pass backwards adds up the tree.
			subtree[r.table.Parent(topic.ID(id))] += subtree[id]
		}
	}
	r.mu.at, r.mu.counts, r.mu.own, r.mu.subtree = now, counts, own, subtree
}

func (r *rateSampler) close() {
	r.mu.Lock()
	select {
	case <-r.quit:
	default:
		close(r.quit)
	}
	r.mu.Unlock()
	r.done.Wait()
}
