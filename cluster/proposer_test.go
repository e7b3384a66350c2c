package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

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
