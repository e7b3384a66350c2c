package cluster

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/tipstore"
)

// newTestTransport is a guarded transport on a free port, of one cluster.
func newTestTransport(t *testing.T, clusterID string) *guardTransport {
	t.Helper()
	return checkedTransport(t, clusterID, func(id, _ string) error {
		if id != clusterID {
			return errForeignPeer
		}
		return nil
	})
}

func checkedTransport(t *testing.T, clusterID string, check clusterCheck) *guardTransport {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	layer := newStreamLayer(l, l.Addr().String(), func() string { return clusterID }, check)
	g := newGuardTransport(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: 1, MaxRPCsInFlight: rpcsInFlight, Timeout: patience, Logger: hclog.NewNullLogger(),
	}), hclog.NewNullLogger(), newMetrics(nil))
	t.Cleanup(func() { _ = g.Close() })
	return g
}

// answerOne takes the next RPC and answers it.
func answerOne(g *guardTransport, resp any) <-chan any {
	got := make(chan any, 1)
	go func() {
		rpc := <-g.Consumer()
		rpc.Respond(resp, nil)
		got <- rpc.Command
	}()
	return got
}

func TestHeartbeatsPassThroughTheMainLoop(t *testing.T) {
	a, b := newTestTransport(t, "x"), newTestTransport(t, "x")
	var fast atomic.Bool
	b.SetHeartbeatHandler(func(rpc raft.RPC) { fast.Store(true); rpc.Respond(&raft.AppendEntriesResponse{}, nil) })
	got := answerOne(b, &raft.AppendEntriesResponse{})
	heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: 3, Addr: []byte("a:1")}, Term: 1}
	if err := a.AppendEntries("b", b.LocalAddr(), heartbeat, &raft.AppendEntriesResponse{}); err != nil {
		t.Fatal(err)
	}
	if fast.Load() {
		t.Fatal("the heartbeat took the fast path")
	}
	<-got
}

func TestPreVotesAreForwarded(t *testing.T) {
	a, b := newTestTransport(t, "x"), newTestTransport(t, "x")
	var tr raft.Transport = a
	pre, ok := tr.(raft.WithPreVote)
	if !ok {
		t.Fatal("raft would switch pre-votes off")
	}
	got := answerOne(b, &raft.RequestPreVoteResponse{Granted: true})
	var resp raft.RequestPreVoteResponse
	if err := pre.RequestPreVote("b", b.LocalAddr(), &raft.RequestPreVoteRequest{Term: 3}, &resp); err != nil || !resp.Granted {
		t.Fatalf("granted %v, %v", resp.Granted, err)
	}
	if _, ok := (<-got).(*raft.RequestPreVoteRequest); !ok {
		t.Fatal("something else arrived")
	}
}

// TestSnapshotsNeverReachRaft: an InstallSnapshot is answered beside it, while other RPCs pass, and who is busy fetching is asked
// again, also when it is opened again in between.
func TestSnapshotsNeverReachRaft(t *testing.T) {
	a, b := newTestTransport(t, "x"), newTestTransport(t, "x")
	req := &raft.InstallSnapshotRequest{Size: 3, LastLogIndex: 7}
	send := func() (raft.InstallSnapshotResponse, error) {
		var resp raft.InstallSnapshotResponse
		err := a.InstallSnapshot("b", b.LocalAddr(), req, &resp, strings.NewReader("abc"))
		return resp, err
	}
	if _, err := send(); err == nil || !strings.Contains(err.Error(), errInstallRefused.Error()) {
		t.Fatalf("a node that is starting: %v", err)
	}
	tries := 0
	install := installFunc(func(req *raft.InstallSnapshotRequest, blob []byte) (*raft.InstallSnapshotResponse, error) {
		got := answerOne(b, &raft.RequestVoteResponse{}) // raft still hears of other things
		if err := a.RequestVote("b", b.LocalAddr(), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{}); err != nil {
			t.Error(err)
		}
		<-got
		switch tries++; tries {
		case 1:
			return &raft.InstallSnapshotResponse{}, errFetching
		case 2:
			return nil, errInstallRefused // as one that starts
		}
		return &raft.InstallSnapshotResponse{Success: string(blob) == "abc"}, nil
	})
	b.install.Store(&install)
	if resp, err := send(); err != nil || !resp.Success || tries != 3 || !a.holds.has(7) {
		t.Fatalf("%+v, %v after %d tries, held from %d", resp, err, tries, a.holds.lowest())
	}
	answerOne(b, &raft.AppendEntriesResponse{Success: true})
	behind := &raft.AppendEntriesRequest{PrevLogEntry: 7, PrevLogTerm: 1}
	if err := a.AppendEntries("b", b.LocalAddr(), behind, &raft.AppendEntriesResponse{}); err != nil || a.holds.has(7) {
		t.Fatalf("held for a node that goes on by itself: %v", err)
	}
	select {
	case rpc := <-b.Consumer():
		t.Fatalf("raft got %T", rpc.Command)
	default:
	}
}

func TestStrangersDoNotSpeakRaft(t *testing.T) {
	a, b := newTestTransport(t, "x"), newTestTransport(t, "y")
	if err := a.RequestVote("b", b.LocalAddr(), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{}); err == nil {
		t.Fatal("a node of another cluster got an answer")
	}
	select {
	case rpc := <-b.Consumer():
		t.Fatalf("raft got %T", rpc.Command)
	default:
	}
}

// TestOnlyTheNodeThatIsMeantAnswers: a node that took the address of another gets none of its RPCs, and takes no cluster id from them.
func TestOnlyTheNodeThatIsMeantAnswers(t *testing.T) {
	wanted := make(chan string, 1)
	a, b := newTestTransport(t, "x"), checkedTransport(t, "x", func(_, node string) error {
		wanted <- node
		if node != "new" {
			return errForeignPeer
		}
		return nil
	})
	for _, rpc := range map[string]func(id raft.ServerID) error{
		"vote": func(id raft.ServerID) error {
			return a.RequestVote(id, b.LocalAddr(), &raft.RequestVoteRequest{}, &raft.RequestVoteResponse{})
		},
		"pre-vote": func(id raft.ServerID) error {
			return a.RequestPreVote(id, b.LocalAddr(), &raft.RequestPreVoteRequest{}, &raft.RequestPreVoteResponse{})
		},
		"append": func(id raft.ServerID) error {
			return a.AppendEntries(id, b.LocalAddr(), &raft.AppendEntriesRequest{}, &raft.AppendEntriesResponse{})
		},
		"timeout now": func(id raft.ServerID) error {
			return a.TimeoutNow(id, b.LocalAddr(), &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
		},
	} {
		if err := rpc("old"); err == nil || <-wanted != "old" {
			t.Fatalf("another node answered: %v", err)
		}
	}
	a.locate = func(id string) (string, bool) { return string(b.LocalAddr()), id == "new" }
	answerOne(b, &raft.RequestVoteResponse{Granted: true})
	var resp raft.RequestVoteResponse
	if err := a.RequestVote("new", "127.0.0.1:1", &raft.RequestVoteRequest{}, &resp); err != nil || !resp.Granted || <-wanted != "new" {
		t.Fatalf("%+v, %v", resp, err)
	}
}

func TestGreeting(t *testing.T) {
	for _, c := range []struct{ in, magic, id, node, err string }{
		{"CNTR\x02\x03abc\x02de", greetRaft, "abc", "de", ""},
		{"CNTF\x02\x03abc\x02de", greetFiles, "abc", "de", ""},
		{"CNTR\x02\x00\x00", greetRaft, "", "", ""},
		{"CNTR\x01\x03abc", "", "", "", "version 1"},
		{"HTTP/1", "", "", "", "begins with"},
		{"CNTR\x02\x09abc", "", "", "", "EOF"},
		{"CNTR\x02\x03abc", "", "", "", "EOF"},
		{"CNTR\x02\x03abc\x05de", "", "", "", "EOF"},
		{"CN", "", "", "", "EOF"},
	} {
		magic, id, node, err := readGreeting(strings.NewReader(c.in))
		if c.err == "" && (err != nil || magic != c.magic || id != c.id || node != c.node) || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%q: %q %q %q, %v", c.in, magic, id, node, err)
		}
	}
	if b := greeting(greetRaft, "abc", "de"); !bytes.Equal(b, []byte("CNTR\x02\x03abc\x02de")) {
		t.Errorf("greeting is %q", b)
	}
}

// faultyStore fails or hangs on command.
type faultyStore struct {
	raft.LogStore
	fail atomic.Bool
	hang chan struct{} // not nil: StoreLogs waits for it
}

var errDisk = errors.New("input/output error")

func (f *faultyStore) StoreLogs(logs []*raft.Log) error {
	if f.hang != nil {
		<-f.hang
	}
	if f.fail.Load() {
		return errDisk
	}
	return f.LogStore.StoreLogs(logs)
}

// openAlone opens a node that leads alone, with faults.
func openAlone(t *testing.T, f *faultyStore, change func(*Options)) *Node {
	t.Helper()
	o := Options{
		DataDir: t.TempDir(), BootstrapExpect: 1, MinFreeBytes: -1, LogStore: LogStoreMemory,
		HeartbeatTimeout: 200 * time.Millisecond, ElectionTimeout: 200 * time.Millisecond, LeaseTimeout: 200 * time.Millisecond,
		Stream: StreamOptions{Tip: tipstore.Options{ChunkBytes: 2 << 20, SizeBytes: 8 << 20}, MaxTopics: 1000, MaxProducers: 10},
	}
	o.wrapStores = func(s stores) stores { f.LogStore = s.logs; s.logs = f; return s }
	if change != nil {
		change(&o)
	}
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Crash(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func submitTo(t *testing.T, n *Node, payload string) <-chan fsm.Result {
	t.Helper()
	ch := make(chan fsm.Result, 1)
	s := &Submission{Batch: testBatch(payload), Names: []string{"a/b"}, Complete: func(_ *Submission, r fsm.Result) { ch <- r }}
	if err := n.Submit(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return ch
}

func wantFailure(t *testing.T, n *Node, text string) {
	t.Helper()
	select {
	case <-n.Failed():
	case <-time.After(patience):
		t.Fatal("the node goes on")
	}
	if err := n.Err(); !strings.Contains(err.Error(), text) {
		t.Fatalf("it says %q, not %q", err, text)
	}
	if n.Ready() == nil {
		t.Fatal("a failed node is ready")
	}
}

func TestStoreErrorFailsTheNode(t *testing.T) {
	f := &faultyStore{}
	n := openAlone(t, f, nil)
	if r := <-submitTo(t, n, "fine"); r.Code != fsm.OK {
		t.Fatal(r)
	}
	f.fail.Store(true)
	ch := submitTo(t, n, "lost")
	wantFailure(t, n, errDisk.Error())
	f.fail.Store(false) // the disk works again, but nobody knows what it holds
	if r := <-ch; r.Code == fsm.OK {
		t.Fatal("acknowledged after a failed write")
	}
	if err := n.guard.StoreLogs(nil); !errors.Is(err, errStorePoisoned) {
		t.Fatalf("a failed store takes writes: %v", err)
	}
}

// TestAppliedEntriesStay: a node whose log is to be taken back behind what it has applied stops; its log's beginning may go.
func TestAppliedEntriesStay(t *testing.T) {
	n := openAlone(t, &faultyStore{}, nil)
	for range 3 {
		if r := <-submitTo(t, n, "fine"); r.Code != fsm.OK {
			t.Fatal(r)
		}
	}
	last, err := n.guard.LastIndex()
	if err != nil || n.positions.index.Load() != last {
		t.Fatalf("applied %d, last entry %d, %v", n.positions.index.Load(), last, err)
	}
	if err := n.guard.DeleteRange(1, 1); err != nil {
		t.Fatal(err)
	}
	if err := n.guard.DeleteRange(last, last); err == nil {
		t.Fatal("an applied entry was deleted")
	}
	wantFailure(t, n, "were applied here")
}

func TestStalledStoreFailsTheNode(t *testing.T) {
	g := newGuardStore(stores{logs: &faultyStore{hang: make(chan struct{})}}, 10*time.Millisecond, nil, newMetrics(nil))
	failed := make(chan error, 1)
	g.fail = func(err error) { failed <- err }
	hung := g.logs.(*faultyStore).hang
	done := make(chan error, 1)
	g.logs.(*faultyStore).LogStore = raft.NewInmemStore()
	go func() { done <- g.StoreLogs([]*raft.Log{{Index: 1}}) }()
	g.watch(t.Context())
	if err := <-failed; !strings.Contains(err.Error(), "store_logs has not returned") {
		t.Fatal(err)
	}
	close(hung)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := g.StoreLogs(nil); !errors.Is(err, errStorePoisoned) {
		t.Fatalf("a stalled store takes writes: %v", err)
	}
	if err := g.SetUint64([]byte("CurrentTerm"), 7); err != nil {
		t.Fatalf("raft would panic: %v", err)
	}
}

func TestUnappliableEntryFailsTheNode(t *testing.T) {
	n := openAlone(t, &faultyStore{}, nil)
	if r := <-submitTo(t, n, "fine"); r.Code != fsm.OK {
		t.Fatal(r)
	}
	if err := n.raft.Apply([]byte("not an entry"), 0).Error(); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, n, "cannot be applied")
	at := n.stream.Machine().AppliedIndex()
	submitTo(t, n, "later")
	if err := n.raft.Barrier(0).Error(); err != nil {
		t.Fatal(err)
	}
	if n.stream.Machine().AppliedIndex() != at {
		t.Fatal("entries were applied after one that could not be")
	}
}

// A leader that is shut down with entries under way completes each of them once.
func TestShutdownCompletesEverySubmission(t *testing.T) {
	f := &faultyStore{}
	n := openAlone(t, f, nil)
	if r := <-submitTo(t, n, "fine"); r.Code != fsm.OK {
		t.Fatal(r)
	}
	var pending []<-chan fsm.Result
	for range 200 {
		pending = append(pending, submitTo(t, n, string(make([]byte, 64<<10))))
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for i, ch := range pending {
		select {
		case r := <-ch:
			if r.Code != fsm.OK && r.Code != fsm.Unknown && r.Code != fsm.ShuttingDown {
				t.Errorf("submission %d ended as %v", i, r.Code)
			}
		default:
			t.Fatalf("submission %d is not completed after Close", i)
		}
	}
	err := n.Submit(t.Context(), &Submission{Batch: testBatch("x"), Complete: func(*Submission, fsm.Result) { t.Error("completed") }})
	if !errors.Is(err, ErrClosed) {
		t.Fatalf("a closed node: %v", err)
	}
}

func TestFolderErrors(t *testing.T) {
	dir := t.TempDir()
	f, err := openFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openFolder(dir); !errors.Is(err, ErrLocked) {
		t.Fatalf("a held folder: %v", err)
	}
	for i := range 2 {
		if isNew, err := f.setCluster("c1"); err != nil || isNew != (i == 0) {
			t.Fatalf("for the %d. time: new %v, %v", i+1, isNew, err)
		}
	}
	if _, err := f.setCluster("c2"); !errors.Is(err, ErrForeignCluster) {
		t.Fatalf("another cluster: %v", err)
	}
	id := f.identity()
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	f, err = openFolder(dir)
	if err != nil || f.identity().NodeID != id.NodeID || f.identity().ClusterID != "c1" {
		t.Fatalf("reopened as %+v, %v", f.identity(), err)
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]string{
		`{"format":2,"node_id":"new"}`: "newer version",
		`{"format":1,"node_id":"x"}`:   "no UUID",
		`{}`:                           "not a data folder",
		`{"form`:                       "damaged",
	} {
		if err := os.WriteFile(filepath.Join(dir, identityFile), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := openFolder(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("identity %s: %v", content, err)
		}
	}
}

func TestOpenRefusesALogWithoutIdentity(t *testing.T) {
	n := openAlone(t, &faultyStore{}, func(o *Options) { o.LogStore = LogStoreBolt })
	if r := <-submitTo(t, n, "x"); r.Code != fsm.OK {
		t.Fatal(r)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.opts.DataDir, identityFile)); err != nil {
		t.Fatal(err)
	}
	o := n.opts
	o.wrapStores = nil
	if _, err := Open(o); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "identity.json is missing") {
		t.Fatalf("opened: %v", err)
	}
	if lock, err := lockFolder(o.DataDir); err != nil {
		t.Errorf("the folder is still held: %v", err)
	} else if err := lock.Close(); err != nil {
		t.Error(err)
	}
}
