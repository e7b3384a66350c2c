package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// benchPayload is a JSON event of 128 bytes.
func benchPayload(i int) []byte {
	return fmt.Appendf(nil, `{"id":%010d,"user":"u%06d","event":"page_view","path":"/products/%05d","ms":%04d,"ok":true,"region":"eu-west-%d","v":"1.2.3"}  `,
		i, i*7919%1000000, i*104729%100000, i%5000, i%3)[:128]
}

// benchBatch is a batch of n such events on topics that the table holds.
func benchBatch(n, from int, topics []uint32) record.Batch {
	var b record.BatchBuilder
	b.Reset(nil, nil)
	for i := range n {
		if err := b.Add(topics[(from+i)%len(topics)], nil, benchPayload(from+i)); err != nil {
			panic(err)
		}
	}
	return b.Finish(record.ProducerID{}, 0, 0, false)
}

// benchTopics makes topics and returns their ids.
func benchTopics(b *testing.B, m *clustertest.Member, n int) []uint32 {
	ids := make([]uint32, n)
	for i := range n {
		name := fmt.Sprintf("shop/events/topic-%d", i)
		mustPublish(b, m, name, "x")
		id, _ := m.Stream().Table().Lookup(name)
		ids[i] = uint32(id)
	}
	return ids
}

func benchCluster(b *testing.B, nodes int, configure func(*cluster.Options)) (*clustertest.Cluster, *clustertest.Member) {
	c := clustertest.Start(b, nodes, clustertest.Options{Configure: func(_ int, o *cluster.Options) {
		o.HeartbeatTimeout, o.ElectionTimeout, o.LeaseTimeout, o.CommitTimeout = 0, 0, 0, 0
		if configure != nil {
			configure(o)
		}
	}})
	return c, c.Leader()
}

func report(b *testing.B, messages int, bytes int, took time.Duration, waits []time.Duration) {
	slices.Sort(waits)
	at := func(p float64) float64 { return float64(waits[int(p*float64(len(waits)-1))].Microseconds()) / 1000 }
	b.ReportMetric(float64(messages)/took.Seconds(), "msgs/s")
	b.ReportMetric(float64(bytes)/took.Seconds()/1e6, "MB/s")
	b.ReportMetric(at(0.50), "p50_ms")
	b.ReportMetric(at(0.99), "p99_ms")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkPublishOneAtATime: one message, wait for its ack, the next.
func BenchmarkPublishOneAtATime(b *testing.B) {
	_, m := benchCluster(b, 3, nil)
	topics := benchTopics(b, m, 1)
	waits := make([]time.Duration, 0, b.N)
	done := make(chan fsm.Result, 1)
	start := time.Now()
	for b.Loop() {
		at := time.Now()
		s := &cluster.Submission{Batch: benchBatch(1, len(waits), topics), Complete: func(_ *cluster.Submission, r fsm.Result) { done <- r }}
		if err := m.Submit(context.Background(), s); err != nil {
			b.Fatal(err)
		}
		if r := <-done; r.Code != fsm.OK {
			b.Fatal(r)
		}
		waits = append(waits, time.Since(at))
	}
	report(b, len(waits), 128*len(waits), time.Since(start), waits)
}

// BenchmarkPublishPipelined: publishers with a window of batches each, on the leader.
func BenchmarkPublishPipelined(b *testing.B) {
	for _, inflight := range []int{4, 8, 16, 32} {
		b.Run(fmt.Sprintf("entries=%d", inflight), func(b *testing.B) {
			c, m := benchCluster(b, 3, func(o *cluster.Options) { o.EntriesInflight = inflight })
			benchPipelined(b, m, 100)
			c.Stop()
		})
	}
}

// benchPipelined publishes b.N batches of perBatch messages from publishers that keep 256 batches in flight together.
func benchPipelined(b *testing.B, m *clustertest.Member, perBatch int) {
	const window = 256
	topics := benchTopics(b, m, 64)
	batches := make([]record.Batch, 512)
	for i := range batches {
		batches[i] = benchBatch(perBatch, i*perBatch, topics)
	}
	slots := make(chan struct{}, window)
	var mu sync.Mutex
	var failed atomic.Int64
	waits := make([]time.Duration, 0, 1<<20)
	var wg sync.WaitGroup
	b.ReportAllocs()
	start := time.Now()
	n := 0
	for b.Loop() {
		slots <- struct{}{}
		wg.Add(1)
		at := time.Now()
		s := &cluster.Submission{Batch: batches[n%len(batches)], Complete: func(_ *cluster.Submission, r fsm.Result) {
			if r.Code != fsm.OK {
				failed.Add(1)
			}
			mu.Lock()
			waits = append(waits, time.Since(at))
			mu.Unlock()
			<-slots
			wg.Done()
		}}
		if err := m.Submit(context.Background(), s); err != nil {
			b.Fatal(err)
		}
		n++
	}
	wg.Wait()
	if failed.Load() > 0 {
		b.Fatalf("%d batches failed", failed.Load())
	}
	report(b, n*perBatch, n*perBatch*128, time.Since(start), waits)
}
