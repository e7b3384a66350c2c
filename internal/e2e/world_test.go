package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/internal/loopback"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport"
	"github.com/cantus-bus/cantus/transport/http"
)

// patience bounds every wait for something that must happen. It is long because machines are busy: no test is about time.
const patience = 60 * time.Second

// smallTip is the smallest ring in which the rules for sleeping subscriptions hold: it wraps after 8 MiB.
var smallTip = tipstore.Options{SizeBytes: 8 << 20, ChunkBytes: 2 << 20}

// wholeTip holds everything that a test publishes.
var wholeTip = tipstore.Options{SizeBytes: 1 << 30, ChunkBytes: 8 << 20}

// long says that cases run at their full size.
func long() bool { return os.Getenv("CANTUS_E2E_LONG") != "" }

// world is a cluster that clients can reach. Its methods are the test goroutine's unless they say otherwise.
type world struct {
	testing.TB
	ctx      context.Context
	cluster  *clustertest.Cluster
	addrs    []string // of the nodes' data planes
	ledger   *ledger
	tip      tipstore.Options       // of nodes started from now on
	change   func(*cluster.Options) // further options of nodes, may be nil
	replicas map[int]bool           // members that never vote
	history  bool                   // nodes keep history, so nothing is ever gone; see keepHistory

	mu    sync.RWMutex         // held for writing while nodes stop and start
	ports map[string][2]string // data and control plane's addresses by node id: a restarted node takes them again
}

// start starts n nodes. Change may set options first.
func start(t testing.TB, n int, change func(*world)) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("starts real nodes")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*patience)
	t.Cleanup(cancel)
	w := &world{TB: t, ctx: ctx, ledger: newLedger(t), tip: smallTip, ports: map[string][2]string{}, replicas: map[int]bool{}}
	if change != nil {
		change(w)
	}
	w.cluster = clustertest.Start(t, n, clustertest.Options{Configure: w.configure, Serve: w.serve})
	for _, m := range w.cluster.Members {
		w.addrs = append(w.addrs, w.ports[m.NodeID()][0])
	}
	w.tellAddrs()
	return w
}

// keepHistory makes nodes keep history, in windows far below the ring.
func keepHistory(w *world) {
	w.history = true
	w.change = func(o *cluster.Options) {
		o.Stream.History = &cluster.HistoryOptions{}
		o.History = cluster.HistoryPolicy{WindowBytes: 512 << 10, PlanWindows: 3, StoresPerPartition: 4}
	}
}

// withAndWithoutHistory runs a case where the stream is what the tip holds, and where nearly all of it is in history.
func withAndWithoutHistory(t *testing.T, run func(t *testing.T, change func(*world))) {
	t.Parallel()
	t.Run("tip", func(t *testing.T) { t.Parallel(); run(t, func(*world) {}) })
	t.Run("history", func(t *testing.T) { t.Parallel(); run(t, keepHistory) })
}

// planNow has the leader plan what is sealed, if history is kept. Leadership may move meanwhile.
func (w *world) planNow() {
	w.Helper()
	if !w.history {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if _, err := w.cluster.Leader().PlanNow(ctx); err != nil {
		w.Logf("plan: %v", err)
	}
}

// wantHistoryRead fails if no node has read history for a reader.
func (w *world) wantHistoryRead() {
	w.Helper()
	read := uint64(0)
	for _, m := range w.cluster.Running() {
		read += m.Stream().HistoryStatus().ReadMessages
	}
	if read == 0 {
		w.Error("nobody read from history: the test shows nothing")
	}
}

func (w *world) configure(i int, o *cluster.Options) {
	o.Stream.Tip = w.tip
	o.Replica = w.replicas[i]
	if w.change != nil {
		w.change(o)
	}
}

// serve starts both planes of a node, on the addresses that it had before.
func (w *world) serve(n *cluster.Node) (addr string, stop func(), err error) {
	at, known := w.ports[n.NodeID()]
	if !known {
		if at, err = freePair(); err != nil {
			return "", nil, err
		}
		w.ports[n.NodeID()] = at
	}
	data, err := net.Listen("tcp", at[0])
	if err != nil {
		return "", nil, err
	}
	control, err := net.Listen("tcp", at[1])
	if err != nil {
		return "", nil, fmt.Errorf("%w (close: %v)", err, data.Close())
	}
	s := transport.NewServer(transport.Options{Broker: n, Progress: 20 * time.Millisecond})
	h := http.NewServer(http.Options{Node: n})
	var loops sync.WaitGroup
	loops.Go(func() { report(w, "serve data", s.Serve(data)) })
	loops.Go(func() { report(w, "serve control", h.Serve(control)) })
	return data.Addr().String(), func() {
		report(w, "close data", s.Close())
		report(w, "close control", h.Close())
		loops.Wait()
	}, nil
}

func report(t testing.TB, what string, err error) {
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func freePair() (pair [2]string, err error) {
	addrs, err := loopback.Addrs(len(pair))
	copy(pair[:], addrs)
	return pair, err
}

// tellAddrs makes nodes tell each other where their control planes are.
func (w *world) tellAddrs() {
	for _, m := range w.cluster.Running() {
		at := w.ports[m.NodeID()]
		m.SetAddrs(at[0], at[1])
	}
}

// kill stops a node as a crash would.
func (w *world) kill(m *clustertest.Member) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cluster.Crash(m)
}

// close stops a node gracefully.
func (w *world) close(m *clustertest.Member) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cluster.Close(m)
}

// restart starts a node again on its folder.
func (w *world) restart(m *clustertest.Member) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cluster.Restart(m)
	w.tellAddrs()
}

// join adds a node and waits until it has a vote, or, for a read replica, is known to the others.
func (w *world) join(replica bool) {
	w.Helper()
	w.mu.Lock()
	w.replicas[len(w.cluster.Members)] = replica
	m := w.cluster.Add()
	w.tellAddrs()
	w.addrs = append(w.addrs, w.ports[m.NodeID()][0])
	w.mu.Unlock()
	w.eventually("the new node to be a member", func() bool {
		for _, n := range w.cluster.Leader().Topology().Nodes {
			if n.ID == m.NodeID() && (n.Voter || replica) {
				return true
			}
		}
		return false
	})
}

// someAddr is a random node's address. Any goroutine.
func (w *world) someAddr(r *rand.Rand) string {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.addrs[r.IntN(len(w.addrs))]
}

// restartAll kills all nodes at once and starts them again.
func (w *world) restartAll() {
	w.Helper()
	all := w.cluster.Running()
	for _, m := range all {
		w.kill(m)
	}
	for _, m := range all {
		w.restart(m)
	}
	w.cluster.Leader()
}

// changeLeader hands the leadership over, or kills the leader, and returns when another node leads and the cluster is whole.
func (w *world) changeLeader(kill bool) {
	w.Helper()
	if dead := w.dropLeader(kill); dead != nil {
		w.restart(dead)
		w.cluster.Leader()
	}
}

// dropLeader hands the leadership over, or kills the leader and returns it. Another node leads then.
func (w *world) dropLeader(kill bool) (dead *clustertest.Member) {
	w.Helper()
	old := w.cluster.Leader()
	if kill {
		w.kill(old)
		w.cluster.Leader()
		return old
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := old.TransferLeader(ctx, ""); err != nil {
		w.Logf("transfer: %v", err) // another election may have come before
	}
	w.cluster.Leader()
	return nil
}

// oldest is the newest of the nodes' oldest seqs: what is below it has left the ring somewhere. Any goroutine.
func (w *world) oldest() (seq uint64) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, m := range w.cluster.Running() {
		first, _ := m.Stream().Tip().Bounds()
		seq = max(seq, first)
	}
	return seq
}

// connect makes a client that knows all nodes. Any goroutine.
func (w *world) connect(change ...func(*client.Options)) *client.Client {
	w.Helper()
	o := client.Options{Servers: w.addrs, ConnectWait: patience, RetryTimeout: patience, Heartbeat: 500 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	c, err := client.Connect(w.ctx, o)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
	return c
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// eventually polls until ok.
func (w *world) eventually(what string, ok func() bool) {
	w.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("waited %v in vain for %s", patience, what)
		}
	}
}
