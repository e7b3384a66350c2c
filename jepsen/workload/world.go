package workload

import (
	"context"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// World is what the parts of a workload share.
type World struct {
	Cluster *node.Cluster
	Record  *history.Writer
	Seed    uint64
	Rate    int // messages a second that all publishers together aim at
	// Newer is the build that nodes are upgraded to, where they start with an earlier one.
	Newer string

	// Ends of the run's parts, in this order.
	publish, read context.Context
	stopPublish   context.CancelFunc
	stopRead      context.CancelFunc
	publishers    sync.WaitGroup
	readers       sync.WaitGroup

	head      atomic.Uint64 // highest seq that was acked
	acked     atomic.Uint64 // messages
	failed    atomic.Uint64 // refused or of unknown fate
	delivered atomic.Uint64 // messages
	gaps      atomic.Uint64 // frames that did not follow on the one before, see client.SubscriptionStats
	drained   atomic.Bool   // no more is published: readers end at head
	processes atomic.Int64
	numbers   atomic.Int64 // of readers

	mu     sync.Mutex
	random map[string]uint64 // how often a name was given a source. Guarded by mu
	used   []string          // topics that are published to. Guarded by mu
}

// NewWorld makes a world at rest. Its parts live as long as ctx at most.
func NewWorld(ctx context.Context, c *node.Cluster, record *history.Writer, seed uint64, rate int) *World {
	w := &World{Cluster: c, Record: record, Seed: seed, Rate: rate, random: map[string]uint64{}}
	w.read, w.stopRead = context.WithCancel(ctx)
	w.publish, w.stopPublish = context.WithCancel(w.read)
	return w
}

// Counts of a world so far.
type Counts struct {
	Acked, Failed, Delivered, Gaps uint64
	Head                           uint64 // highest seq that was acked
}

// Counts returns the counts so far.
func (w *World) Counts() Counts {
	return Counts{w.acked.Load(), w.failed.Load(), w.delivered.Load(), w.gaps.Load(), w.head.Load()}
}

// StopPublishing ends the publishers and waits until every publish has an outcome.
func (w *World) StopPublishing() {
	w.stopPublish()
	w.publishers.Wait()
	w.drained.Store(true)
}

// StopReading waits until the readers have read everything, for patience at most, and ends them.
func (w *World) StopReading(patience time.Duration) {
	done := make(chan struct{})
	go func() {
		w.readers.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(patience):
	}
	w.stopRead()
	<-done
}

// source gives a part its own random numbers, which depend on the seed and the name only.
func (w *World) source(name string) *rand.Rand {
	w.mu.Lock()
	n := w.random[name]
	w.random[name]++
	w.mu.Unlock()
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return rand.New(rand.NewPCG(w.Seed, h.Sum64()+n))
}

// use notes topics that are published to.
func (w *World) use(topics []string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = append(w.used, topics...)
	return topics
}

// topics are those that are published to.
func (w *World) topics() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.used)
}

func (w *World) process() int { return int(w.processes.Add(1)) }

func (w *World) note(text string) {
	w.Record.Write(&history.Note{At: w.Record.Now(), Text: text})
}

// raise notes that a seq was acked.
func (w *World) raise(seq uint64) {
	for {
		h := w.head.Load()
		if seq <= h || w.head.CompareAndSwap(h, seq) {
			return
		}
	}
}

// heartbeat is how often clients look whether a connection is alive: often, so that a cut is noticed soon.
const heartbeat = 250 * time.Millisecond

// connect opens a client of the whole cluster, or one that talks to only only. It goes on trying until ctx ends.
func (w *World) connect(ctx context.Context, r *rand.Rand, only *node.Node) (*client.Client, error) {
	o := client.Options{Name: "jepsen", Heartbeat: heartbeat, DialTimeout: time.Second, RetryTimeout: -1, ConnectWait: time.Hour}
	if only != nil {
		addr := only.Place.Listen.Client
		o.Servers = []string{addr}
		o.Dial = func(ctx context.Context, to string) (net.Conn, error) {
			if to != addr {
				return nil, &net.AddrError{Err: "this client stays with one node", Addr: to}
			}
			return new(net.Dialer).DialContext(ctx, "tcp", to)
		}
		return client.Connect(ctx, o)
	}
	for _, n := range w.Cluster.Nodes {
		o.Servers = append(o.Servers, n.Place.Listen.Client)
	}
	r.Shuffle(len(o.Servers), func(i, j int) { o.Servers[i], o.Servers[j] = o.Servers[j], o.Servers[i] })
	return client.Connect(ctx, o)
}

// Continue makes w go on where another world has ended: topics, head and numbers are taken over.
func (w *World) Continue(before *World) *World {
	w.use(before.topics())
	w.head.Store(before.head.Load())
	w.processes.Store(before.processes.Load())
	w.numbers.Store(before.numbers.Load())
	return w
}
