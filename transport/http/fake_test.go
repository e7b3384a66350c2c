package http

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

func TestMain(m *testing.M) {
	leak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
}

// fakeNode is a node without raft: what is submitted is applied at once.
type fakeNode struct {
	id     string
	stream *cluster.Stream

	mu       sync.Mutex
	builder  record.EntryBuilder
	index    uint64
	results  []fsm.Result
	refuse   fsm.Code // answer of every submit, when not OK
	leader   string
	nodes    []wire.NodeInfo
	changed  chan struct{}
	notReady error
	done     []string // what the control calls did
	files    []cluster.FileInfo
}

func newFakeNode(t *testing.T, id string) *fakeNode {
	t.Helper()
	stream, err := cluster.NewStream(cluster.StreamOptions{
		Tip: tipstore.Options{SizeBytes: 16 << 20, ChunkBytes: 4 << 20}, MaxTopics: 1000, MaxProducers: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stream.Close() })
	return &fakeNode{id: id, stream: stream, leader: id, changed: make(chan struct{})}
}

func (n *fakeNode) apply(data []byte) fsm.Result {
	n.index++
	var err error
	if _, n.results, err = n.stream.Apply(n.index, data, n.results[:0]); err != nil {
		return fsm.Result{Code: fsm.Unavailable}
	}
	return n.results[0]
}

func (n *fakeNode) Stream() *cluster.Stream { return n.stream }

func (n *fakeNode) Submit(_ context.Context, s *cluster.Submission) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refuse != fsm.OK {
		s.Complete(s, fsm.Result{Code: n.refuse})
		return nil
	}
	n.builder.Reset()
	b := record.Batch(n.builder.AddBatch(s.Batch))
	number := func(topic uint32) uint32 {
		if topic < record.NewTopic {
			return topic
		}
		return n.builder.NewTopicRef(s.Names[topic-record.NewTopic])
	}
	for i := range b.Header().Preconditions {
		b.SetPreconditionTopic(i, number(b.Precondition(i).Topic))
	}
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		record.SetTopic(run, number(record.Record(run).Topic()))
	}
	s.Complete(s, n.apply(n.builder.Finish(record.CodecNone, record.EntryHeader{Kind: record.KindPublish, Time: 1_700_000_000_000_000_000 + int64(n.index)})))
	return nil
}

func (n *fakeNode) OpenProducer(_ context.Context, id record.ProducerID) (fsm.Result, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.apply(record.EncodeEntry(record.EntryHeader{Kind: record.KindOpenProducer, Time: 1}, fsm.OpenProducerBody(id))), nil
}

func (n *fakeNode) Topology() wire.Topology {
	n.mu.Lock()
	defer n.mu.Unlock()
	nodes := n.nodes
	if nodes == nil {
		nodes = []wire.NodeInfo{{ID: n.id, Voter: true, Alive: true}}
	}
	return wire.Topology{ClusterID: "c", LeaderID: n.leader, Term: 3, Nodes: nodes}
}

func (n *fakeNode) TopologyChanged() <-chan struct{} { return n.changed }
func (n *fakeNode) NodeID() string                   { return n.id }
func (n *fakeNode) ClusterID() string                { return "c" }

func (n *fakeNode) WaitSeq(ctx context.Context, seq uint64) error {
	if n.stream.Machine().LastSeq() >= seq {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (n *fakeNode) Barrier(context.Context) error { return n.did("barrier") }

func (n *fakeNode) Status(context.Context) cluster.Status {
	return cluster.Status{NodeID: n.id, Healthy: true, Leader: n.leader, Nodes: []cluster.NodeStatus{{ID: n.id, Role: "leader"}}}
}
func (n *fakeNode) Ready() error { return n.notReady }

func (n *fakeNode) TakeSnapshot(context.Context) (cluster.SnapshotInfo, error) {
	return cluster.SnapshotInfo{ID: "s-1-2", Index: 2, Term: 1}, n.did("snapshot")
}

func (n *fakeNode) Snapshots() []cluster.SnapshotInfo { return nil }

func (n *fakeNode) FileList() cluster.FileList {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := cluster.FileList{Node: n.id, First: 1, Files: n.files}
	if len(n.files) > 0 {
		l.First, l.Last = n.files[0].FirstSeq, n.files[len(n.files)-1].LastSeq
	}
	return l
}

func (n *fakeNode) FileHandler() nethttp.Handler {
	mux := nethttp.NewServeMux()
	mux.HandleFunc("GET /files", func(w nethttp.ResponseWriter, _ *nethttp.Request) { writeJSON(w, nethttp.StatusOK, n.FileList()) })
	mux.HandleFunc("GET /files/{sha256}", func(w nethttp.ResponseWriter, r *nethttp.Request) { fmt.Fprint(w, r.PathValue("sha256")) })
	return mux
}

func (n *fakeNode) did(what string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.done = append(n.done, what)
	return nil
}

func (n *fakeNode) AddNode(_ context.Context, id, addr string, voter bool) error {
	if voter {
		return n.did("add voter " + id + " " + addr)
	}
	return n.did("add replica " + id + " " + addr)
}

func (n *fakeNode) RemoveNode(_ context.Context, id string) error {
	if id == "nobody" {
		return fmt.Errorf("remove node nobody: %w", cluster.ErrNoNode)
	}
	return n.did("remove " + id)
}

func (n *fakeNode) TransferLeader(_ context.Context, to string) error {
	if to == "itself" {
		return errors.New("transfer the leadership: cannot find peer")
	}
	return n.did("transfer " + to)
}

func (n *fakeNode) Checkpoint(context.Context) (uint64, error) {
	return 7, n.checkpoint(7)
}

func (n *fakeNode) checkpoint(id uint64) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apply(record.EncodeEntry(record.EntryHeader{Kind: record.KindCheckpoint, Time: 1}, fsm.CheckpointBody(id)))
	return nil
}

func (n *fakeNode) CheckpointDigest(ctx context.Context, id uint64) (fsm.Digest, error) {
	d, ok := n.stream.Machine().Checkpoint(id)
	if !ok {
		<-ctx.Done()
		return d, ctx.Err()
	}
	return d, nil
}

func (n *fakeNode) PlanNow(context.Context) ([]fsm.Generation, error) {
	return []fsm.Generation{{Number: 3, FirstWindow: 9, LastWindow: 16}}, n.did("plan")
}

// serve runs a server over the node.
func serve(t *testing.T, n *fakeNode, change func(*Options)) (*Server, *httptest.Server) {
	t.Helper()
	o := Options{Node: n}
	if change != nil {
		change(&o)
	}
	s := NewServer(o)
	ts := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.Close()
		ts.Close()
		nethttp.DefaultClient.CloseIdleConnections()
	})
	return s, ts
}
