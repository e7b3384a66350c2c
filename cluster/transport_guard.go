package cluster

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/bugs"
)

// rpcQueue is how many RPCs wait between transport and raft.
const rpcQueue = 64

// guardTransport stands between raft and its network:
//
//   - Heartbeats pass through raft's main loop. On the fast path they change term and state in a race with it.
//   - Pre-votes are forwarded; a wrapper without the method would switch them off silently.
//   - InstallSnapshot never reaches raft: a late or repeated one would roll the state machine back, and one to a follower with a
//     longer tail of its own would never end. See install.go.
//   - Each RPC goes to the node that raft means and to no other at its address. See namedTransport.
type guardTransport struct {
	*namedTransport
	rpcs     chan raft.RPC
	once     sync.Once     // for done
	done     chan struct{} // closed by Close
	stopped  chan struct{} // closed when the filter has returned
	log      hclog.Logger
	metrics  *metrics
	installs chan struct{} // a token for each InstallSnapshot that is being answered
	answers  group         // of their goroutines

	// install answers an InstallSnapshot that came; nil: refused, the node is starting.
	install atomic.Pointer[installFunc]
	// holds keep the log and a snapshot for a node that fetches it. Set before raft starts.
	holds *logHolds
	// ending is done when nothing should wait for other nodes any more. Set before raft starts.
	ending context.Context
}

var (
	_ raft.Transport   = (*guardTransport)(nil)
	_ raft.WithPreVote = (*guardTransport)(nil)
	_ raft.WithClose   = (*guardTransport)(nil)
)

func newGuardTransport(t *raft.NetworkTransport, log hclog.Logger, m *metrics) *guardTransport {
	g := &guardTransport{
		namedTransport: &namedTransport{NetworkTransport: t}, log: log, metrics: m, holds: newLogHolds(), ending: context.Background(),
		rpcs: make(chan raft.RPC, rpcQueue), done: make(chan struct{}), stopped: make(chan struct{}),
		installs: make(chan struct{}, maxInstalls),
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

// Consumer implements raft.Transport.
func (g *guardTransport) Consumer() <-chan raft.RPC { return g.rpcs }

// SetHeartbeatHandler implements raft.Transport by doing nothing.
func (g *guardTransport) SetHeartbeatHandler(f func(raft.RPC)) {
	if bugs.FastHeartbeat {
		g.namedTransport.SetHeartbeatHandler(f)
	}
}

// RequestPreVote implements raft.WithPreVote.
func (g *guardTransport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return g.namedTransport.RequestPreVote(id, addr, req, resp)
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
