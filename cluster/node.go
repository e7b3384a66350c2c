package cluster

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// Node is one node of a cluster. Its methods are any goroutine's. DESIGN.md lists its goroutines.
type Node struct {
	opts    Options
	log     hclog.Logger
	started time.Time
	metrics *metrics
	folder  *folder
	stream  *Stream
	gossip  *gossip

	stores    stores
	guard     *guardStore
	holds     *logHolds
	snaps     *snapshotStore // nil: no history, and so no snapshots
	logs      raft.LogStore  // guard and cache over stores.logs
	layer     *streamLayer   // raft's port
	transport *guardTransport
	adapter   *fsmAdapter
	raft      *raft.Raft
	notify    chan bool // raft's notices of leadership; followLeadership drains it

	proposer   *proposer
	link       atomic.Pointer[link] // to the leader; keepLink owns it
	positions  positions
	topologies topologies
	files      *fileClient
	serving    group // requests for this node's files
	catchup    *catchup
	repair     repair
	diskLow    atomic.Bool
	kicks      chan struct{} // capacity 1: housekeeping is due

	planning chan struct{} // capacity 1: full while a plan is made
	snapping chan struct{} // capacity 1: full while a snapshot is made
	sealings chan struct{} // capacity 1: a window was sealed
	trimming sync.Mutex    // held while the log's beginning is deleted

	removing sync.Map      // ids that are being removed
	readyAt  atomic.Uint64 // index to be applied before the node is ready; 0: not known yet; set once
	caughtUp atomic.Bool   // readyAt was reached; never false again

	ctx       context.Context // ends when the node closes
	cancel    context.CancelFunc
	intake    context.CancelFunc // ends the proposer, before all else
	proposing sync.WaitGroup     // the proposer's goroutine
	loops     sync.WaitGroup     // goroutines that end with ctx
	tasks     group              // short ones; some wait for raft
	futures   group              // those that wait for an answer of raft's: see await
	leading   sync.WaitGroup     // followLeadership
	raftDown  chan struct{}      // closed when raft has been shut down
	closeOnce sync.Once
	closeErr  error

	failure struct {
		once sync.Once
		ch   chan struct{} // closed when err is set
		err  error
	}
}

func newNode(o Options, f *folder, stream *Stream) *Node {
	id := f.identity()
	if o.Name == "" {
		o.Name = id.NodeID
	}
	n := &Node{
		opts: o, log: o.Logger.With("node", o.Name), started: time.Now(), metrics: newMetrics(o.Registry), folder: f, stream: stream,
		notify: make(chan bool, 16), kicks: make(chan struct{}, 1), planning: make(chan struct{}, 1), raftDown: make(chan struct{}),
		holds: newLogHolds(), snapping: make(chan struct{}, 1), sealings: make(chan struct{}, 1),
	}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.catchup = newCatchup(n)
	n.repair.init(n)
	n.failure.ch = make(chan struct{})
	n.positions.init()
	n.topologies.trigger = make(chan struct{}, 1)
	n.topologies.removed = make(chan struct{})
	n.topologies.current.Store(&topologyState{over: make(chan struct{})})
	n.gossip = newGossip(o, f, meta{
		Name: o.Name, Client: o.ClientAddr, HTTP: o.HTTPAddr, Cluster: id.ClusterID,
		Replica: o.Replica, Expect: o.BootstrapExpect, Version: o.Version, Was: id.was(),
	})
	n.gossip.changed = n.membersChanged
	n.gossip.foreign = n.foreignCluster
	n.gossip.answer = n.handleAsk
	n.proposer = newProposer(o, nil, stream, n.metrics)
	n.proposer.diskLow, n.proposer.link, n.proposer.stuck = &n.diskLow, n.currentLink, n.fail
	n.adapter = &fsmAdapter{
		stream: stream, settle: n.settle, applied: n.positions.advance, config: n.membersChanged, fail: n.fail,
		ctx: n.ctx, cluster: n.ClusterID, sealed: func() { kick(n.sealings) },
	}
	return n
}

// start brings up raft, then gossip, then the node's own goroutines. On an error everything it started is stopped.
func (n *Node) start() error {
	n.checkDisk()
	layer, err := n.listenRaft()
	if err != nil {
		return err
	}
	n.layer, n.files = layer, newFileClient(layer)
	n.gossip.mu.own.Raft = layer.advertise
	if err := n.startRaft(layer); err != nil {
		return err
	}
	n.proposer.raft = n.raft
	install := installFunc(n.catchup.offer)
	n.transport.install.Store(&install)
	n.leading.Go(func() { n.followLeadership(n.raftDown) })
	if err := n.gossip.start(n.opts); err != nil {
		n.stopRaft()
		return errors.Join(err, n.stores.close())
	}
	n.metrics.observe(n)
	n.run()
	return nil
}

// run starts the goroutines that end with the node.
func (n *Node) run() {
	intake, cancel := context.WithCancel(context.Background())
	n.intake = cancel
	n.proposing.Go(func() { n.proposer.run(intake) })
	for _, loop := range []func(context.Context){
		n.guard.watch, n.watchDisk, n.keepTopology, n.observeRaft, n.keepLink, n.housekeep, n.gossip.serve, n.watchHistory, n.keepSnapshots,
		n.serveFiles, n.catchup.run, n.repair.run,
		func(ctx context.Context) { n.gossip.keepJoined(ctx, n.joinAddrs()) },
	} {
		n.loops.Go(func() { loop(n.ctx) })
	}
	n.kick()
}

// kick asks for housekeeping. It does not block.
func (n *Node) kick() {
	select {
	case n.kicks <- struct{}{}:
	default:
	}
}

// housekeep keeps what this node says of itself true and starts a cluster when it is time to, until ctx ends.
func (n *Node) housekeep(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.kicks:
		case <-t.C:
		}
		cluster, state := n.ClusterID(), n.raft.LastIndex() > 0
		n.gossip.update(func(m *meta) { m.Cluster, m.State = cluster, m.State || state })
		n.tryBootstrap()
		n.electAlone()
		n.notePeers()
		n.gossip.spread()
		n.topologyChanged()
	}
}

func (n *Node) membersChanged() {
	n.topologyChanged()
	n.kick()
}

// foreignCluster fails a node that tries to join another cluster than its folder's, unless it is at home in its own: then
// it is the other that tries.
func (n *Node) foreignCluster(err error) {
	if _, leader := n.raft.LeaderWithID(); leader != "" || len(n.gossip.alive()) > 0 {
		n.log.Warn("refused a node of another cluster", "error", err)
		return
	}
	n.fail(err)
}

// watchHistory fails the node when its history is another stream's.
func (n *Node) watchHistory(ctx context.Context) {
	select {
	case <-ctx.Done():
	case err := <-n.stream.Failed():
		n.fail(err)
	}
}

// settle gives an applied entry's results to the session that proposed it.
func (n *Node) settle(h record.EntryHeader, results []fsm.Result) {
	if s := n.proposer.session(); s != nil && s.id == h.Proposer {
		s.applied(h, results)
	}
}

// fail cuts the node's network, so that it leads and votes no more, and tells the process, which is to exit. Any
// goroutine, also raft's own.
func (n *Node) fail(err error) {
	n.failure.once.Do(func() {
		if errors.Is(err, ErrReopen) {
			n.log.Info("the node is to be opened again", "reason", err)
			n.failure.err = fmt.Errorf("cluster: node %s: %w", n.NodeID(), err)
		} else {
			n.log.Error("the node has failed and must stop", "error", err)
			n.failure.err = fmt.Errorf("cluster: node %s has failed: %w", n.NodeID(), err)
		}
		close(n.failure.ch)
		if err := n.transport.Close(); err != nil {
			n.log.Warn("cutting the network", "error", err)
		}
		n.noteDamage(err)
	})
}

// Failed is closed when the node must stop (store error, stall, corrupt entry, stuck transfer, foreign cluster); Err says
// why. If that is ErrReopen, all is well: close the node and open it again.
func (n *Node) Failed() <-chan struct{} { return n.failure.ch }

// Err is why the node failed, nil if it has not.
func (n *Node) Err() error {
	select {
	case <-n.failure.ch:
		return n.failure.err
	default:
		return nil
	}
}

// Stream is what this node has applied.
func (n *Node) Stream() *Stream { return n.stream }

// Submit queues a batch; see Broker.
func (n *Node) Submit(ctx context.Context, s *Submission) error { return n.proposer.submit(ctx, s) }

// NodeID is the node's random id, the same for the life of its data folder.
func (n *Node) NodeID() string { return n.gossip.self }

// ClusterID is the cluster's id, "" while the node belongs to none.
func (n *Node) ClusterID() string { return n.folder.identity().ClusterID }

// RaftAddr is the raft address that others dial.
func (n *Node) RaftAddr() string { return n.gossip.ownMeta().Raft }

// GossipAddr is the gossip address that others join.
func (n *Node) GossipAddr() string { return n.gossip.addr }

// SetAddrs tells others the addresses of the client and HTTP listeners, once they are bound.
func (n *Node) SetAddrs(client, http string) {
	n.gossip.update(func(m *meta) { m.Client, m.HTTP = client, http })
	n.kick()
}

func (n *Node) closed() bool { return n.ctx.Err() != nil }

// randomID is a random number other than 0.
func randomID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}
