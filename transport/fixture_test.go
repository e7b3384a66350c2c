package transport_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/vfs"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport"
	"github.com/cantus-bus/cantus/transport/transporttest"
)

// patience bounds every wait of a test: long, because the machine may be busy.
const patience = 30 * time.Second

// fixture is a server over a broker without raft, on loopback.
type fixture struct {
	t        testing.TB
	broker   *transporttest.Broker
	server   *transport.Server
	registry *prometheus.Registry
	addr     string

	mu    sync.Mutex
	names []string // topics published by publish, index is the number in submissions
	index map[string]uint32
}

type setup struct {
	options transport.Options
	stream  cluster.StreamOptions
	window  uint64 // bytes of a window of history
}

// smallRing is a tip that wraps after a few MB but is large enough for every rule to hold.
func smallRing(s *setup) { s.stream.Tip = tipstore.Options{SizeBytes: 8 << 20, ChunkBytes: 2 << 20} }

// overHistory is a ring that soon turns over, in front of history. What changes FS first is kept.
func overHistory(s *setup) {
	s.stream.Tip = tipstore.Options{SizeBytes: 1 << 20, ChunkBytes: 256 << 10}
	s.stream.History = &cluster.HistoryOptions{Dir: "history", FS: vfs.NewMem()}
}

// inTipAndHistory runs a test where all is in the tip, and where nearly all is in history.
func inTipAndHistory(t *testing.T, test func(t *testing.T, place func(*setup))) {
	t.Run("tip", func(t *testing.T) { test(t, func(*setup) {}) })
	t.Run("history", func(t *testing.T) { test(t, overHistory) })
}

// wantHistory fails unless readers have read from history, if it is kept.
func (f *fixture) wantHistory() {
	f.t.Helper()
	if st := f.broker.Stream().HistoryStatus(); st != nil && st.ReadMessages == 0 {
		f.t.Error("nobody read from history: the test shows nothing")
	}
}

func start(t testing.TB, changes ...func(*setup)) *fixture {
	t.Helper()
	s := setup{window: 128 << 10}
	s.stream.Tip = tipstore.Options{SizeBytes: 64 << 20, ChunkBytes: 2 << 20}
	s.options.Linger = 5 * time.Second
	for _, change := range changes {
		change(&s)
	}
	b, err := transporttest.New(s.stream)
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, broker: b, registry: prometheus.NewRegistry(), index: map[string]uint32{}}
	if s.stream.History != nil {
		c := fsm.StreamConfig{ProducerLease: 1, WindowBytes: s.window}
		if r, err := b.Command(t.Context(), record.KindConfig, fsm.ConfigBody(c)); err != nil || r.Code != fsm.OK {
			t.Fatal(r.Code, err)
		}
	}
	s.options.Broker, s.options.Registry = b, f.registry
	f.server = transport.NewServer(s.options)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f.addr = l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- f.server.Serve(l) }()
	t.Cleanup(func() {
		f.server.Close()
		if err := <-served; err != nil && !errors.Is(err, transport.ErrClosed) {
			t.Errorf("serve: %v", err)
		}
		if err := b.Close(); err != nil {
			t.Errorf("close the broker: %v", err)
		}
	})
	return f
}

// message of a test.
type message struct {
	topic   string
	payload string
}

// publish puts messages into the stream, past the server, as one batch, and returns the first seq.
func (f *fixture) publish(list ...message) uint64 {
	f.t.Helper()
	r := <-f.submit(list...)
	if r.Code != fsm.OK {
		f.t.Fatalf("publish: %v", r.Code)
	}
	return r.FirstSeq
}

func (f *fixture) submit(list ...message) <-chan fsm.Result {
	f.t.Helper()
	var b record.BatchBuilder
	b.Reset(nil, nil)
	f.mu.Lock()
	for _, m := range list {
		n, ok := f.index[m.topic]
		if !ok {
			n = uint32(len(f.names))
			f.index[m.topic] = n
			f.names = append(f.names, m.topic)
		}
		if err := b.Add(record.NewTopic|n, nil, []byte(m.payload)); err != nil {
			f.t.Fatal(err)
		}
	}
	names := f.names
	f.mu.Unlock()
	done := make(chan fsm.Result, 1)
	s := &cluster.Submission{
		Batch: b.Finish(record.ProducerID{}, 0, 0, false), Names: names,
		Complete: func(_ *cluster.Submission, r fsm.Result) { done <- r },
	}
	if err := f.broker.Submit(context.Background(), s); err != nil {
		f.t.Fatal(err)
	}
	return done
}

// fill publishes n messages of size bytes to one topic.
func (f *fixture) fill(topic string, n, size int) {
	f.t.Helper()
	payload := strings.Repeat("x", size)
	per := max(1, min(n, 200<<10/(size+64)))
	for n > 0 {
		list := make([]message, min(n, per))
		for i := range list {
			list[i] = message{topic, payload}
		}
		f.publish(list...)
		n -= len(list)
	}
}

// head is the newest seq.
func (f *fixture) head() uint64 { return f.broker.Stream().Machine().LastSeq() }

// metric is the sum of a metric's samples whose labels contain all given values.
func (f *fixture) metric(name string, labels ...string) float64 {
	f.t.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	sum, found := 0.0, false
	for _, family := range families {
		if family.GetName() != "cantus_transport_"+name {
			continue
		}
		for _, m := range family.GetMetric() {
			values := map[string]bool{}
			for _, l := range m.GetLabel() {
				values[l.GetValue()] = true
			}
			all := true
			for _, want := range labels {
				all = all && values[want]
			}
			if all {
				found = true
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	if !found && len(labels) == 0 {
		f.t.Fatalf("no metric %s", name)
	}
	return sum
}

// eventually polls until ok.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func topicName(parts ...any) string {
	s := make([]string, len(parts))
	for i, p := range parts {
		s[i] = fmt.Sprint(p)
	}
	return strings.Join(s, "/")
}
