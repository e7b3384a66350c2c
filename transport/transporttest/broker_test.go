package transporttest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport/transporttest"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func open(t *testing.T) *transporttest.Broker {
	t.Helper()
	b, err := transporttest.New(cluster.StreamOptions{Tip: tipstore.Options{ChunkBytes: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// submission of one message to a topic that is new to the connection.
func submission(t *testing.T, topic string, done chan<- fsm.Result) *cluster.Submission {
	t.Helper()
	var b record.BatchBuilder
	b.Reset(nil, nil)
	if err := b.Add(record.NewTopic, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	return &cluster.Submission{
		Batch: b.Finish(record.ProducerID{}, 0, 0, false), Names: []string{topic},
		Complete: func(_ *cluster.Submission, r fsm.Result) { done <- r },
	}
}

func TestBatchesAreAppliedInOrder(t *testing.T) {
	b := open(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	done := make(chan fsm.Result, 10)
	b.Hold()
	for range cap(done) {
		if err := b.Submit(ctx, submission(t, "a/b", done)); err != nil {
			t.Fatal(err)
		}
	}
	waited := make(chan error, 1)
	go func() { waited <- b.WaitSeq(ctx, 10) }()
	if n := len(done); n != 0 {
		t.Errorf("%d batches were applied while held", n)
	}
	b.Resume()
	for i := range cap(done) {
		if r := <-done; r.Code != fsm.OK || r.FirstSeq != uint64(i+1) {
			t.Errorf("batch %d: %+v", i, r)
		}
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if n := b.Stream().Table().Topics(); n != 1 {
		t.Errorf("%d topics", n)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

func TestRefusedAndClosed(t *testing.T) {
	b := open(t)
	done := make(chan fsm.Result, 1)
	refusal := &wire.Error{Code: wire.CodeUnavailable}
	b.Refuse(refusal)
	if err := b.Submit(context.Background(), submission(t, "a", done)); !errors.Is(err, refusal) {
		t.Errorf("submit: %v", err)
	}
	b.Refuse(nil)
	b.Hold()
	if err := b.Submit(context.Background(), submission(t, "a", done)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if err := b.WaitSeq(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if r := <-done; r.Code != fsm.ShuttingDown {
		t.Errorf("what was queued at the close: %+v", r)
	}
	if err := b.Submit(context.Background(), submission(t, "a", done)); err == nil {
		t.Error("a closed broker takes batches")
	}
}

func TestTopologyChanges(t *testing.T) {
	b := open(t)
	changed := b.TopologyChanged()
	b.SetLeader("other", 5)
	<-changed
	if top := b.Topology(); top.LeaderID != "other" || top.Term != 5 {
		t.Errorf("topology: %+v", top)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
