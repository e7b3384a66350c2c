package cluster

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/tipstore"
)

// patience bounds waits in tests; nothing depends on it while all is well.
const patience = 30 * time.Second

// fakeFuture is a raft future that the test answers.
type fakeFuture struct{ err chan error }

func (f *fakeFuture) Error() error  { return <-f.err }
func (f *fakeFuture) Response() any { return nil }
func (f *fakeFuture) Index() uint64 { return 0 }

// fakeRaft holds entries until the test applies or refuses them.
type fakeRaft struct {
	mu      sync.Mutex
	held    []heldEntry
	arrived chan struct{} // one per entry
	index   uint64
}

type heldEntry struct {
	data   []byte
	future *fakeFuture
}

func (r *fakeRaft) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	f := &fakeFuture{err: make(chan error, 1)}
	r.mu.Lock()
	r.held = append(r.held, heldEntry{data, f})
	r.mu.Unlock()
	r.arrived <- struct{}{}
	return f
}

// rig is a proposer over a fake raft.
type rig struct {
	t      testing.TB
	p      *proposer
	raft   *fakeRaft
	stream *Stream
	low    atomic.Bool
	stuck  chan error
	stop   func()
}

func newRig(t testing.TB, change func(*Options)) *rig {
	t.Helper()
	o := Options{DataDir: "unused", PublishWait: patience, ElectionTimeout: time.Second, HeartbeatTimeout: time.Second}
	if change != nil {
		change(&o)
	}
	o = o.withDefaults()
	s, err := NewStream(StreamOptions{Tip: tipstore.Options{ChunkBytes: 2 << 20, SizeBytes: 8 << 20}, MaxTopics: 1000, MaxProducers: 10})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, raft: &fakeRaft{arrived: make(chan struct{}, 1000)}, stream: s, stuck: make(chan error, 1)}
	r.p = newProposer(o, r.raft, s, newMetrics(nil))
	r.p.diskLow, r.p.link = &r.low, func() *link { return nil }
	r.p.stuck = func(err error) {
		select {
		case r.stuck <- err:
		default:
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { r.p.run(ctx) })
	r.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(func() {
		r.stop()
		if sess := r.p.session(); sess != nil {
			r.endSession(sess)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// lead begins a session that takes entries.
func (r *rig) lead() *session {
	s := newSession(randomID(), r.p.inflight, r.p)
	r.p.setSession(s)
	s.open()
	return s
}

func (r *rig) endSession(s *session) {
	returned, _ := s.sweep()
	r.p.putBack(returned)
	r.p.setSession(nil)
	r.raft.mu.Lock()
	for _, h := range r.raft.held { // else a waiter would wait for ever
		h.future.err <- raft.ErrRaftShutdown
	}
	r.raft.held = nil
	r.raft.mu.Unlock()
	<-s.waited
}

// outcomeOf is a submission's result when it comes.
type outcomeOf struct {
	name string
	ch   chan fsm.Result
}

func (r *rig) submit(name string) outcomeOf { return r.submitAs(name, false) }

func (r *rig) submitAs(name string, forwarded bool) outcomeOf {
	r.t.Helper()
	o := outcomeOf{name, make(chan fsm.Result, 2)}
	s := &Submission{Batch: testBatch(name), Names: []string{"a/b"}, Forwarded: forwarded,
		Complete: func(_ *Submission, res fsm.Result) { o.ch <- res }}
	if err := r.p.submit(context.Background(), s); err != nil {
		r.t.Fatal(err)
	}
	return o
}

func testBatch(payload string) record.Batch {
	var b record.BatchBuilder
	b.Reset(nil, nil)
	if err := b.Add(record.NewTopic, nil, []byte(payload)); err != nil {
		panic(err)
	}
	return b.Finish(record.ProducerID{}, 0, 0, false)
}

// next waits for the next entry that reaches raft.
func (r *rig) next() heldEntry {
	r.t.Helper()
	select {
	case <-r.raft.arrived:
	case <-time.After(patience):
		r.t.Fatal("no entry came")
	}
	r.raft.mu.Lock()
	defer r.raft.mu.Unlock()
	h := r.raft.held[0]
	r.raft.held = r.raft.held[1:]
	return h
}

// apply commits an entry.
func (r *rig) apply(h heldEntry) {
	r.t.Helper()
	r.raft.index++
	header, results, err := r.stream.Apply(r.raft.index, h.data, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if s := r.p.session(); s != nil && s.id == header.Proposer {
		s.applied(header, results)
	}
	h.future.err <- nil
}

func (r *rig) want(o outcomeOf, code fsm.Code) {
	r.t.Helper()
	select {
	case res := <-o.ch:
		if res.Code != code {
			r.t.Fatalf("%s ended as %v, want %v", o.name, res.Code, code)
		}
	case <-time.After(patience):
		r.t.Fatalf("%s was never completed", o.name)
	}
}

// payloads are what the stream holds, in order.
func (r *rig) payloads() string {
	var out []string
	everything, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		r.t.Fatal(err)
	}
	rd, err := r.stream.OpenReader(ReaderOptions{Filters: everything})
	if err != nil {
		r.t.Fatal(err)
	}
	defer rd.Close()
	var v tipstore.View
	if err := rd.Read(&v, tipstore.Limit{Bytes: 1 << 20}); err != nil {
		r.t.Fatal(err)
	}
	defer v.Release()
	for _, part := range v.Parts {
		for len(part) > 0 {
			rec, rest, err := record.Next(part)
			if err != nil {
				r.t.Fatal(err)
			}
			out, part = append(out, string(rec.Payload())), rest
		}
	}
	return fmt.Sprint(out)
}

// waitPending waits until n entries are in raft and unsettled.
func (r *rig) waitPending(s *session, n int) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		if pending, _ := s.load(); pending == n {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("never %d entries pending", n)
		}
		time.Sleep(time.Millisecond)
	}
}
