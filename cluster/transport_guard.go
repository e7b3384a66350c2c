package cluster

import (
	"errors"
	"io"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// errNoSnapshots: raft keeps the whole log, so no node ever needs a snapshot. One that is asked for shows a wrong state.
var errNoSnapshots = errors.New("snapshots are not in use: the log is kept whole")

// rpcQueue is how many RPCs wait between transport and raft.
const rpcQueue = 64

// guardTransport stands between raft and its network:
//
//   - Heartbeats pass through raft's main loop. On the fast path they change term and state in a race with it.
//   - Pre-votes are forwarded; a wrapper without the method would switch them off silently.
//   - InstallSnapshot is refused both ways. A late or repeated one rolls the state machine back, and one to a follower
//     with a longer tail of its own never ends.
type guardTransport struct {
	*raft.NetworkTransport
	rpcs    chan raft.RPC
	once    sync.Once     // for done
	done    chan struct{} // closed by Close
	stopped chan struct{} // closed when the filter has returned
	log     hclog.Logger
	metrics *metrics
}

var (
	_ raft.Transport   = (*guardTransport)(nil)
	_ raft.WithPreVote = (*guardTransport)(nil)
	_ raft.WithClose   = (*guardTransport)(nil)
)

func newGuardTransport(t *raft.NetworkTransport, log hclog.Logger, m *metrics) *guardTransport {
	g := &guardTransport{
		NetworkTransport: t, log: log, metrics: m,
		rpcs: make(chan raft.RPC, rpcQueue), done: make(chan struct{}), stopped: make(chan struct{}),
	}
	go g.filter()
	return g
}

// filter passes RPCs on, in order, until Close.
func (g *guardTransport) filter() {
	defer close(g.stopped)
	for {
		select {
		case rpc := <-g.NetworkTransport.Consumer():
			if !g.admit(rpc) {
				continue
			}
			select {
			case g.rpcs <- rpc:
			case <-g.done:
				return
			}
		case <-g.done:
			return
		}
	}
}

// admit answers an InstallSnapshot itself.
func (g *guardTransport) admit(rpc raft.RPC) bool {
	req, ok := rpc.Command.(*raft.InstallSnapshotRequest)
	if !ok {
		return true
	}
	g.metrics.snapshotsRefused.Inc()
	g.log.Error("refused a snapshot", "index", req.LastLogIndex, "term", req.Term, "error", errNoSnapshots)
	if rpc.Reader != nil { // the sender streams it all before it reads the answer
		_, _ = io.Copy(io.Discard, rpc.Reader)
	}
	rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: req.RPCHeader, Term: req.Term}, errNoSnapshots)
	return false
}

// Consumer implements raft.Transport.
func (g *guardTransport) Consumer() <-chan raft.RPC { return g.rpcs }

// SetHeartbeatHandler implements raft.Transport by doing nothing.
func (g *guardTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// RequestPreVote implements raft.WithPreVote.
func (g *guardTransport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return g.NetworkTransport.RequestPreVote(id, addr, req, resp)
}

// InstallSnapshot implements raft.Transport by refusing.
func (g *guardTransport) InstallSnapshot(id raft.ServerID, _ raft.ServerAddress, req *raft.InstallSnapshotRequest, _ *raft.InstallSnapshotResponse, _ io.Reader) error {
	g.metrics.snapshotsRefused.Inc()
	g.log.Error("did not send a snapshot", "to", id, "index", req.LastLogIndex, "error", errNoSnapshots)
	return errNoSnapshots
}

// electNow tells this node's raft to stand for election at once, as a leader that hands over would.
func (g *guardTransport) electNow(header raft.RPCHeader) {
	rpc := raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: header}, RespChan: make(chan raft.RPCResponse, 1)}
	select {
	case g.rpcs <- rpc:
	case <-g.done:
	}
}

// Close implements raft.WithClose: when it returns, nothing leaves or arrives any more. Closing twice is fine.
func (g *guardTransport) Close() error {
	g.once.Do(func() { close(g.done) })
	err := g.NetworkTransport.Close()
	g.CloseStreams()
	<-g.stopped
	return err
}
