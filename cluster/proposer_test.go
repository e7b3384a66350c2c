package cluster

import (
	"context"
	"errors"
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

func TestProposerGathersWhileBusy(t *testing.T) {
	r := newRig(t, nil)
	r.lead()
	first := r.submit("1")
	e1 := r.next()
	rest := []outcomeOf{r.submit("2"), r.submit("3"), r.submit("4")}
	r.apply(e1)
	r.want(first, fsm.OK)
	r.apply(r.next())
	for _, o := range rest {
		r.want(o, fsm.OK)
	}
	if got := r.payloads(); got != "[1 2 3 4]" || r.raft.index != 2 {
		t.Fatalf("the stream holds %s in %d entries", got, r.raft.index)
	}
}

func TestRefusedEntriesKeepTheirOrder(t *testing.T) {
	r := newRig(t, func(o *Options) { o.EntriesInflight = 4 })
	s := r.lead()
	big := string(make([]byte, record.MaxEntryBody)) // fills an entry: several are in raft at once
	a, b, c := r.submit("a"+big), r.submit("b"+big), r.submit("c")
	ea, eb := r.next(), r.next()
	ea.future.err <- raft.ErrLeadershipTransferInProgress
	eb.future.err <- raft.ErrLeadershipTransferInProgress
	r.waitPending(s, 0)
	for range 3 {
		r.apply(r.next())
		if r.stream.Machine().LastSeq() == 3 {
			break
		}
	}
	for _, o := range []outcomeOf{a, b, c} {
		r.want(o, fsm.OK)
	}
	if got := r.payloads(); got != fmt.Sprint([]string{"a" + big, "b" + big, "c"}) {
		t.Fatal("batches changed places")
	}
}

func TestRefusedBeforeExecutedIsNotRetried(t *testing.T) {
	r := newRig(t, func(o *Options) { o.EntriesInflight = 4 })
	s := r.lead()
	big := string(make([]byte, record.MaxEntryBody))
	a, b := r.submit("a"+big), r.submit("b"+big)
	ea, eb := r.next(), r.next()
	ea.future.err <- raft.ErrLeadershipTransferInProgress
	r.waitPending(s, 1)
	r.apply(eb)
	r.want(b, fsm.OK)
	r.want(a, fsm.Unavailable)
}

// A future that raft never answers (it was shut down over it) must not keep a publisher waiting.
func TestSweepCompletesWhatRaftNeverAnswers(t *testing.T) {
	r := newRig(t, func(o *Options) { o.EntriesInflight = 1 })
	s := r.lead()
	lost := r.submit("lost")
	h := r.next()
	waits := r.submitAs("waits", true)
	r.stop()
	r.want(waits, fsm.ShuttingDown)
	returned, swept := s.sweep()
	if len(returned) != 0 || swept != 1 {
		t.Fatalf("swept %d, returned %d", swept, len(returned))
	}
	r.want(lost, fsm.Unknown)
	r.p.setSession(nil)
	r.apply(h) // commits after all: nothing more happens
	select {
	case res := <-lost.ch:
		t.Fatalf("completed twice: %v", res)
	case <-s.waited:
	}
}

func TestAmbiguousErrorsAreUnknown(t *testing.T) {
	for _, err := range []error{raft.ErrLeadershipLost, raft.ErrRaftShutdown, errors.New("disk on fire")} {
		r := newRig(t, nil)
		r.lead()
		o := r.submit("x")
		r.next().future.err <- err
		r.want(o, fsm.Unknown)
	}
}

func TestStuckTransferFailsTheNode(t *testing.T) {
	r := newRig(t, func(o *Options) {
		o.HeartbeatTimeout, o.ElectionTimeout, o.LeaseTimeout = 20*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	})
	r.lead()
	r.submit("x")
	for {
		select {
		case err := <-r.stuck:
			t.Log(err)
			return
		case <-r.raft.arrived:
			r.raft.mu.Lock()
			r.raft.held[0].future.err <- raft.ErrLeadershipTransferInProgress
			r.raft.held = r.raft.held[1:]
			r.raft.mu.Unlock()
		case <-time.After(patience):
			t.Fatal("a leader that refuses everything goes on")
		}
	}
}

func TestWithoutLeaderPublishesAreRefusedInTime(t *testing.T) {
	r := newRig(t, func(o *Options) { o.PublishWait = 20 * time.Millisecond })
	r.want(r.submitAs("from a peer", true), fsm.NotLeader)
	r.want(r.submit("x"), fsm.Unavailable)
}

func TestLowDiskRefusesPublishes(t *testing.T) {
	r := newRig(t, nil)
	r.lead()
	r.low.Store(true)
	r.want(r.submit("x"), fsm.DiskFull)
	r.low.Store(false)
	o := r.submit("y")
	r.apply(r.next())
	r.want(o, fsm.OK)
}

func TestBadTopicNumbersNeverReachTheLog(t *testing.T) {
	r := newRig(t, nil)
	r.lead()
	for _, topic := range []uint32{0, 77, record.NewTopic + 1} {
		b := testBatch("x")
		record.SetTopic(b.Records(), topic)
		o := outcomeOf{fmt.Sprintf("topic %#x", topic), make(chan fsm.Result, 1)}
		s := &Submission{Batch: b, Names: []string{"a/b"}, Complete: func(_ *Submission, res fsm.Result) { o.ch <- res }}
		if err := r.p.submit(context.Background(), s); err != nil {
			t.Fatal(err)
		}
		r.want(o, fsm.Invalid)
	}
}

func TestSubmitWaitsForRoom(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxInflight = record.MaxBatchBytes })
	payload := string(make([]byte, record.MaxPayload))
	first := r.submit(payload)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	s := &Submission{Batch: testBatch(payload), Names: []string{"a/b"}, Complete: func(*Submission, fsm.Result) { t.Error("completed though refused") }}
	if err := r.p.submit(ctx, s); !errors.Is(err, context.Canceled) {
		t.Fatalf("a full node took more: %v", err)
	}
	r.lead()
	r.apply(r.next())
	r.want(first, fsm.OK)
	if err := r.p.submit(context.Background(), &Submission{Batch: testBatch(payload), Names: []string{"a/b"}, Complete: func(*Submission, fsm.Result) {}}); err != nil {
		t.Fatal(err)
	}
}

// instantRaft applies at once, in the proposer's goroutine: what is left to measure is ours.
type instantRaft struct {
	p       *proposer
	stream  *Stream
	index   uint64
	results []fsm.Result
	done    fakeFuture
}

func (r *instantRaft) Apply(data []byte, _ time.Duration) raft.ApplyFuture {
	r.index++
	h, results, err := r.stream.Apply(r.index, data, r.results[:0])
	if err != nil {
		panic(err)
	}
	r.results = results
	r.p.session().applied(h, results)
	return &r.done
}

// BenchmarkSubmitToRing is the way of a batch of 100 messages from Submit through builder, fsm and ring, without raft:
// allocations per op are per batch, and most are per entry.
func BenchmarkSubmitToRing(b *testing.B) {
	r := newRig(b, nil)
	r.stop()
	fast := &instantRaft{p: r.p, stream: r.stream, done: fakeFuture{err: make(chan error)}}
	close(fast.done.err)
	r.p.raft = fast
	r.p.mu.closed = false
	s := r.lead()
	defer func() { s.stop() }()
	const perBatch, perStep = 100, 16
	var builder record.BatchBuilder
	builder.Reset(nil, nil)
	for i := range perBatch {
		if err := builder.Add(record.NewTopic, nil, fmt.Appendf(nil, `{"id":%010d,"path":"/products/%05d","ok":true}%80d`, i, i*7, i)); err != nil {
			b.Fatal(err)
		}
	}
	batch := builder.Finish(record.ProducerID{}, 0, 0, false)
	completed := 0
	subs := make([]Submission, perStep)
	for i := range subs {
		subs[i] = Submission{Batch: batch, Names: []string{"a/b"}, Complete: func(*Submission, fsm.Result) { completed++ }}
	}
	ctx := context.Background()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := r.p.submit(ctx, &subs[i%perStep]); err != nil {
			b.Fatal(err)
		}
		if i%perStep == perStep-1 {
			r.p.step(time.Now())
		}
	}
	r.p.step(time.Now())
	if completed != b.N {
		b.Fatalf("%d of %d batches completed", completed, b.N)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perBatch), "ns/message")
}
