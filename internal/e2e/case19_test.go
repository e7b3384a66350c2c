package e2e

import (
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/transport/http"
)

// manyTopics is how many topics these cases publish to.
func manyTopics() int {
	if long() {
		return 1_000_000
	}
	return 200_000
}

// manyName is deep enough for every topic to have nodes of the tree for company, as real ones have.
func manyName(i int) string { return fmt.Sprintf("app%d/service%d/object %d", i%20, i/20%50, i) }

// topicBytes bounds what a node may take for one topic with one message, its name included: table and tree, counters, and
// its part of the index of the tip.
const topicBytes = 250

// TestCase19And20ManyTopics: elsewhere, memory per topic was so large that the number of topics was an out-of-memory, and
// listing some thousand took seconds. Here a topic that comes over the wire costs a bounded small number of bytes, and the
// control plane sorts and pages.
func TestCase19And20ManyTopics(t *testing.T) {
	w := start(t, 1, func(w *world) { w.tip = wholeTip })
	before := heap()
	n := manyTopics()
	names := w.publishMany(n)
	grown := heap() - before
	node := w.cluster.Leader()
	index := node.Stream().Tip().Stats().IndexBytes
	per := (float64(grown) + float64(index)) / float64(n)
	t.Logf("%d topics: %.0f bytes of heap and index for each beyond its name of %.0f", n, per-names, names)
	if per > topicBytes+names {
		t.Errorf("a topic takes %.0f bytes beyond its name, the bound is %d", per-names, topicBytes)
	}
	w.pageThrough(n)
}

// heap is what is in use after a collection.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// publishMany publishes to n topics, topic i with i%100 bytes, and returns the average length of their names.
func (w *world) publishMany(n int) (nameBytes float64) {
	w.Helper()
	c := w.connect()
	p, err := c.Producer(w.ctx, client.ProducerOptions{})
	w.must(err)
	began := time.Now()
	payload := make([]byte, 100)
	for i := range n {
		name := manyName(i)
		nameBytes += float64(len(name)) / float64(n)
		w.must(p.Publish(w.ctx, name, payload[:i%100]))
	}
	w.must(p.Close(w.ctx))
	w.must(c.Close()) // its own table of names goes with it
	w.Logf("published to %d new topics in %v", n, time.Since(began).Round(time.Millisecond))
	return nameBytes
}

// pageThrough lists all topics by bytes.
func (w *world) pageThrough(n int) {
	w.Helper()
	ctl, err := control.New([]string{w.ports[w.cluster.Leader().NodeID()][1]})
	w.must(err)
	seen := make(map[string]bool, n)
	var worst time.Duration
	last, pages := uint64(1<<63), 0
	for offset := 0; ; pages++ {
		began := time.Now()
		var page http.TopicPage
		q := url.Values{"sort": {"bytes"}, "limit": {"10000"}, "offset": {fmt.Sprint(offset)}}
		w.must(ctl.Get(w.ctx, "/v1/topics?"+q.Encode(), &page))
		worst = max(worst, time.Since(began))
		for _, row := range page.Topics {
			if row.Bytes > last || row.Messages != 1 || seen[row.Topic] {
				w.Fatalf("row %+v after one of %d bytes, seen before: %v", row, last, seen[row.Topic])
			}
			last, seen[row.Topic] = row.Bytes, true
		}
		if page.Next == nil {
			break
		}
		offset = *page.Next
	}
	for i := range n {
		if !seen[manyName(i)] {
			w.Fatalf("topic %q is on no page", manyName(i))
		}
	}
	w.Logf("%d pages of 10,000 of %d topics by bytes, the slowest in %v", pages+1, n, worst.Round(time.Millisecond))
}

// TestCase19TopicLimit: at the limit new topics are refused politely, and those that exist can be published to, on all nodes
// alike.
func TestCase19TopicLimit(t *testing.T) {
	t.Parallel()
	const limit = 1000
	w := start(t, 3, func(w *world) { w.change = func(o *cluster.Options) { o.Stream.MaxTopics = limit } })
	x := w.writer(w.connect(), "w", client.ProducerOptions{})
	var refused atomic.Int64
	for i := range 2 * limit {
		if _, err := x.publishSync(fmt.Sprint("t", i), nil); err != nil {
			if !errors.Is(err, client.ErrTooManyTopics) {
				t.Fatal(err)
			}
			refused.Add(1)
		}
		if refused.Load() == 20 {
			break
		}
	}
	if refused.Load() == 0 {
		t.Fatalf("no topic was refused at a limit of %d", limit)
	}
	for i := range 200 {
		if _, err := x.publishSync(fmt.Sprint("t", i), []byte("again")); err != nil {
			t.Errorf("topic t%d exists: %v", i, err)
		}
	}
	w.changeLeader(true)
	if _, err := x.publishSync("t0", []byte("again")); err != nil {
		t.Error(err)
	}
	x.close()
	w.audit()
}
