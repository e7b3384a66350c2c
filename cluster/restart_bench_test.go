package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

// fillTopics publishes rounds messages on each of n topics, 500 to a batch, with many batches in flight.
func fillTopics(b *testing.B, m *clustertest.Member, n, rounds int) {
	b.Helper()
	const perBatch = 500
	slots, ids := make(chan struct{}, 128), make([]uint32, n)
	var wg sync.WaitGroup
	submit := func(s *cluster.Submission) {
		slots <- struct{}{}
		wg.Add(1)
		s.Complete = func(_ *cluster.Submission, r fsm.Result) {
			if r.Code != fsm.OK {
				b.Error(r.Code)
			}
			<-slots
			wg.Done()
		}
		if err := m.Submit(context.Background(), s); err != nil {
			b.Fatal(err)
		}
	}
	name := func(i int) string { return fmt.Sprintf("shop%d/events%d/topic-%d", i%10, i/10%100, i) }
	for i := 0; i < n; i += perBatch {
		var batch record.BatchBuilder
		var names []string
		batch.Reset(nil, nil)
		for j := range perBatch {
			names = append(names, name(i+j))
			if err := batch.Add(record.NewTopic|uint32(j), nil, benchPayload(i+j)); err != nil {
				b.Fatal(err)
			}
		}
		submit(&cluster.Submission{Batch: batch.Finish(record.ProducerID{}, 0, 0, false), Names: names})
	}
	wg.Wait()
	for i := range ids {
		id, _ := m.Stream().Table().Lookup(name(i))
		ids[i] = uint32(id)
	}
	for i := n; i < n*rounds; i += perBatch {
		submit(&cluster.Submission{Batch: benchBatch(perBatch, i, ids)})
	}
	wg.Wait()
}

// BenchmarkRestart: a node with a million topics and 5 million messages of 128 bytes in history and tip, a snapshot and the log of
// another 200,000 messages behind it, is opened; until it leads, the first message of the stream can be read and one is published.
func BenchmarkRestart(b *testing.B) {
	const topics = 1_000_000
	c, m := benchCluster(b, 1, func(o *cluster.Options) {
		o.Stream.Tip = tipstore.Options{SizeBytes: 512 << 20}
		o.Stream.History = &cluster.HistoryOptions{}
		o.SnapshotBytes = 1 << 40
	})
	dir := m.Dir
	fillTopics(b, m, topics, 5)
	start := time.Now()
	i, err := m.TakeSnapshot(context.Background())
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("snapshot in %v, history included: %d MB of state, %d MB of history in %d files", time.Since(start).Round(time.Millisecond), i.StateBytes>>20, i.HistoryBytes>>20, i.HistoryFiles)
	ids := []uint32{}
	for id := range uint32(200_000) {
		if m.Stream().Table().IsTopic(topic.ID(id)) {
			ids = append(ids, id)
		}
	}
	for at := 0; at < 200_000; at += 500 {
		if err := submitAndWait(m.Node, benchBatch(500, at, ids)); err != nil {
			b.Fatal(err)
		}
	}
	c.Close(m)
	var opened, read, ready time.Duration
	for b.Loop() {
		start := time.Now()
		n := reopen(b, dir)
		opened += time.Since(start)
		if first := firstMessage(b, n); first != 1 {
			b.Fatalf("the first message is %d", first)
		}
		read += time.Since(start)
		for submitAndWait(n, benchBatch(1, 0, ids)) != nil {
			time.Sleep(time.Millisecond)
		}
		ready += time.Since(start)
		if err := n.Close(); err != nil {
			b.Fatal(err)
		}
	}
	per := func(d time.Duration) float64 { return d.Seconds() / float64(b.N) }
	b.ReportMetric(per(opened), "s_open")
	b.ReportMetric(per(read), "s_read")
	b.ReportMetric(per(ready), "s_publish")
	b.ReportMetric(0, "ns/op")
}

func reopen(b *testing.B, dir string) *cluster.Node {
	b.Helper()
	o := clustertest.Defaults(dir)
	o.Stream.Tip = tipstore.Options{SizeBytes: 512 << 20}
	o.Stream.History = &cluster.HistoryOptions{}
	o.SnapshotBytes = 1 << 40
	n, err := cluster.Open(o)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

func submitAndWait(n *cluster.Node, batch record.Batch) error {
	done := make(chan fsm.Result, 1)
	s := &cluster.Submission{Batch: batch, Complete: func(_ *cluster.Submission, r fsm.Result) { done <- r }}
	if err := n.Submit(context.Background(), s); err != nil {
		return err
	}
	if r := <-done; r.Code != fsm.OK {
		return fmt.Errorf("published: %v", r.Code)
	}
	return nil
}

// firstMessage reads the first message that is kept.
func firstMessage(b *testing.B, n *cluster.Node) uint64 {
	b.Helper()
	fs, err := topic.ParseFilters([]string{"**"})
	if err != nil {
		b.Fatal(err)
	}
	r, err := n.Stream().OpenReader(cluster.ReaderOptions{Filters: fs, Start: wire.StartFirst})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var v tipstore.View
	defer v.Release()
	for v.Count == 0 {
		if err := r.Read(&v, tipstore.Limit{Count: 1}); err != nil {
			b.Fatal(err)
		}
	}
	return v.First
}
