package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// TestStreamAgainstModel is everything at once: random topics, sizes and filters, pipelined and atomic publishes, readers
// that are fast, slow, or stop and resume at random marks, a ring that turns over several times, and nodes that die
// alone or all at once, restart, join (as voters and as read replicas) and change leaders. In the end every node's stream is held against what publishers were told, and every reader's messages
// against the stream.
func TestStreamAgainstModel(t *testing.T) {
	t.Parallel()
	seeds := []uint64{uint64(time.Now().UnixNano()), 1}
	if long() {
		for len(seeds) < 20 {
			seeds = append(seeds, seeds[0]+uint64(len(seeds)))
		}
	}
	if s := os.Getenv("CANTUS_E2E_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds = []uint64{n}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			newRun(t, seed, nil).run()
		})
		t.Run(fmt.Sprintf("seed %d with history", seed), func(t *testing.T) {
			t.Parallel()
			newRun(t, seed, keepHistory).run()
		})
	}
}

// run is one run of the property test.
type run struct {
	*world
	seed    uint64
	r       *rand.Rand
	stop    chan struct{} // closed when writers are to end
	ended   atomic.Bool   // writers have ended and head is set
	head    uint64        // of the whole stream
	writers sync.WaitGroup
	readers sync.WaitGroup

	mu       sync.Mutex
	sessions []*session
}

func newRun(t *testing.T, seed uint64, change func(*world)) *run {
	t.Logf("CANTUS_E2E_SEED=%d", seed)
	return &run{world: start(t, 3, change), seed: seed, r: rand.New(rand.NewPCG(seed, 0)), stop: make(chan struct{})}
}

func (x *run) run() {
	var clients []*client.Client // readers and writers share them, and so their connections
	for i := range 3 {
		c := x.connect()
		clients = append(clients, c)
		w := x.writer(c, fmt.Sprint("w", i), client.ProducerOptions{
			BatchBytes: 1 << (10 + x.r.IntN(9)), MaxInflightBytes: 256 << 10, Linger: time.Duration(x.r.IntN(3)-1) * time.Millisecond})
		r := x.random()
		x.writers.Go(func() { x.write(w, r) })
	}
	for i := range 9 {
		c, r := clients[x.r.IntN(3)], x.random()
		behave := []func(*reader){(*reader).follow, (*reader).resume, (*reader).sleep}[i%3]
		x.readers.Go(func() {
			rd := &reader{run: x, c: c, r: r, name: fmt.Sprint("reader ", i)}
			behave(rd)
		})
	}
	x.chaos()
	close(x.stop)
	x.writers.Wait()
	_, of := x.digests()
	x.head = x.wantEqual(of).Seq
	x.ended.Store(true)
	x.readers.Wait()
	stream := x.audit()
	for _, s := range x.sessions {
		s.check(stream)
	}
	x.checkCounters(stream)
	x.checkHistory()
	x.summary(stream)
}

// checkHistory: all nodes keep the same files.
func (x *run) checkHistory() {
	if !x.history {
		return
	}
	var first string
	for i, m := range x.cluster.Running() {
		x.cluster.Eventually("history to be written", func() bool {
			st := m.Stream().HistoryStatus()
			return st.PendingWindows == 0 && st.PendingGenerations == 0
		})
		files := fmt.Sprint(m.Stream().HistoryFiles())
		if i == 0 {
			first = files
			st := m.Stream().HistoryStatus()
			x.Logf("history: %+v", *st)
			if st.ReadMessages == 0 {
				x.Errorf("nobody read from history: the ring is too large for this test")
			}
		} else if files != first {
			x.Errorf("node %d has other files:\n%s\nthan\n%s", i, files, first)
		}
	}
}

// random is a source for one goroutine, so that a seed's choices do not depend on how goroutines take turns.
func (x *run) random() *rand.Rand { return rand.New(rand.NewPCG(x.seed, x.r.Uint64())) }

// chaos disturbs the cluster while messages flow.
func (x *run) chaos() {
	steps := 4
	if long() {
		steps = 12
	}
	for range steps {
		x.flow(40, 1<<20)
		switch x.r.IntN(7) {
		case 0:
			x.changeLeader(false)
		case 1, 2:
			x.changeLeader(true)
		case 3:
			f := x.cluster.Followers()
			m := f[x.r.IntN(len(f))]
			x.kill(m)
			x.flow(40, 1<<20)
			x.restart(m)
		case 4:
			m := x.cluster.Running()[x.r.IntN(len(x.cluster.Members))]
			x.close(m)
			x.flow(20, 1<<20)
			x.restart(m)
		case 5:
			x.restartAll()
		case 6:
			if len(x.cluster.Members) < 5 {
				x.join(x.r.IntN(2) == 0)
			}
		}
	}
	x.flow(40, 20<<20-x.ledger.bytes.Load()) // the ring turns over in every run
}

// flow waits until so much more was acked.
func (x *run) flow(count, bytes int64) {
	c, b := x.ledger.count.Load()+count, x.ledger.bytes.Load()+bytes
	x.eventually("messages to flow", func() bool { return x.ledger.count.Load() >= c && x.ledger.bytes.Load() >= b })
}

// write publishes until stopped.
func (x *run) write(w *writer, r *rand.Rand) {
	defer w.close()
	var own, shared uint64 // last seqs of the writer's counter and of the one that all compete for
	for {
		select {
		case <-x.stop:
			return
		default:
		}
		switch n := r.IntN(100); {
		case n < 2:
			own = x.count(w, "counters/"+w.name, own, true)
		case n < 4:
			shared = x.count(w, "counters/shared", shared, false)
		case n < 6:
			x.together(w, r)
		case n < 8:
			w.flush()
		default:
			w.publish(randomTopic(r), randomPayload(r))
		}
		if r.IntN(4) == 0 {
			time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond) // sets the rate, nothing waits for it
		}
	}
}

// together publishes several messages atomically, or with a condition that does not hold.
func (x *run) together(w *writer, r *rand.Rand) {
	list := make([]client.Outgoing, 1+r.IntN(6))
	for i := range list {
		list[i] = client.Outgoing{Topic: randomTopic(r), Payload: randomPayload(r)}
	}
	var pre []client.Precondition
	if r.IntN(2) == 0 {
		pre = []client.Precondition{{Topic: list[0].Topic, LastSeq: 1 << 60}}
	}
	_, err := w.atomic(pre, list...)
	if (pre == nil) != (err == nil) || pre != nil && !errors.Is(err, client.ErrPreconditionFailed) {
		x.Errorf("%s: atomic batch with conditions %v: %v", w.name, pre, err)
	}
}

// count appends to a counter if last is its newest message, and returns what is now. Nobody else counts on an own one: there
// the condition holds, unless a retry was executed twice.
func (x *run) count(w *writer, topic string, last uint64, own bool) uint64 {
	payload := fmt.Append(nil, last)
	first, err := w.atomic([]client.Precondition{{Topic: topic, LastSeq: last}}, client.Outgoing{Topic: topic, Payload: payload})
	var e *client.Error
	switch {
	case err == nil && first == 0:
		x.Errorf("%s: a counter's message has no seq", w.name)
	case err == nil:
		return first
	case own || !errors.Is(err, client.ErrPreconditionFailed) || !errors.As(err, &e):
		x.Errorf("%s: count on %s after %d: %v", w.name, topic, last, err)
	default:
		return e.Detail
	}
	return last
}

// checkCounters: each message of a counter was published on the condition that the one before it was the last.
func (x *run) checkCounters(stream []stored) {
	last := map[string]uint64{}
	for _, m := range stream {
		if !matches([]string{"counters/**"}, m.topic) {
			continue
		}
		if want := hashOf(fmt.Append(nil, last[m.topic])); m.hash != want {
			x.Errorf("counter %s: message %d was not published on the condition that %d is the last", m.topic, m.seq, last[m.topic])
		}
		last[m.topic] = m.seq
	}
}

func (x *run) summary(stream []stored) {
	var read, gone, resumed, caught int
	for _, s := range x.sessions {
		read += len(s.got)
		resumed += int(s.resumed)
		if s.gone != 0 {
			gone++
		}
		if s.caught >= 0 {
			caught++
		}
	}
	x.Logf("%d messages, %d MB, %d acked by a retry; %d sessions read %d messages, resumed %d times, caught up %d times, fell off the ring %d times",
		len(stream), x.ledger.bytes.Load()>>20, x.ledger.dups.Load(), len(x.sessions), read, resumed, caught, gone)
	if gone == 0 && !x.history {
		x.Errorf("no reader fell off the ring: it is too large for this test")
	}
}
