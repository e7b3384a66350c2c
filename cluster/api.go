package cluster

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// STUBS: the contract of this package; the owner replaces this file by real ones.

// Submission is one batch on its way into the log.
//
// Topic numbers in the batch (records and preconditions) are ids of Table, or record.NewTopic|i where Names[i] is the
// name (validated by the caller). Batch was validated by the caller.
type Submission struct {
	Batch     record.Batch
	Names     []string // append-only table owned by the connection; entries named by the batch do not change
	Forwarded bool     // came from a peer: never forwarded again

	// Release is called once as soon as Batch's bytes are no longer needed (may be before Complete). May be nil.
	Release func()
	// Complete is called exactly once, from any goroutine, and must not block.
	Complete func(s *Submission, r fsm.Result)

	Request uint32 // the caller's
	Conn    any    // the caller's
}

// Broker is what the data plane needs of a node. *Node is one; tests have smaller ones.
type Broker interface {
	Stream() *Stream
	// Submit queues a batch. It blocks while the node's in-flight bytes are at their limit (back-pressure), at most until ctx ends; a returned
	// error means not queued and Complete will not be called.
	Submit(ctx context.Context, s *Submission) error
	OpenProducer(ctx context.Context, id record.ProducerID) (fsm.Result, error)
	Topology() wire.Topology
	// TopologyChanged returns a channel that is closed at the next change.
	TopologyChanged() <-chan struct{}
	NodeID() string
	ClusterID() string
	// WaitSeq waits until seq is applied here.
	WaitSeq(ctx context.Context, seq uint64) error
}

type Options struct {
	DataDir         string
	Name            string // for people; node id is random and stored
	ClusterName     string // gossip label: keeps clusters apart
	BootstrapExpect int    // 1: start alone
	Join            []string
	Replica         bool // stays a non-voter

	RaftListen, GossipListen string // host:port, port 0 = any free
	Advertise                string // host for others, default the listen host
	ClientAddr, HTTPAddr     string // advertised addresses of the other listeners
	GossipKey                []byte

	Stream StreamOptions

	LogStore        string // "bolt" or "memory" (tests)
	Codec           record.Codec
	MaxInflight     int           // bytes queued and proposed per leader, default 64 MiB
	EntriesInflight int           // proposals in raft at once, default 8
	MinFreeBytes    int64         // refuse publishes when the log's disk has less, default 256 MiB
	PublishWait     time.Duration // how long a publish may wait for a leader before Unavailable, default 3s

	HeartbeatTimeout, ElectionTimeout, LeaseTimeout, CommitTimeout time.Duration // defaults: 1s 1s 1s 5ms ; measure
	StallLimit                                                     time.Duration // a store call longer than this makes the node exit, default 30s

	Logger   hclog.Logger
	Registry prometheus.Registerer
}

type Node struct{}

// Open starts a node: folder lock, identity, raft, gossip. It returns when the node runs, not when there is a leader.
func Open(o Options) (*Node, error) { panic("stub") }

// Close steps down (leadership transfer if leader), stops raft, gossip, and frees the folder.
func (n *Node) Close() error { panic("stub") }

// Failed is closed when the node must stop (store error, stall, corrupt entry, stuck transfer); Err says why.
func (n *Node) Failed() <-chan struct{} { panic("stub") }
func (n *Node) Err() error              { panic("stub") }

func (n *Node) Stream() *Stream                                 { panic("stub") }
func (n *Node) Submit(ctx context.Context, s *Submission) error { panic("stub") }
func (n *Node) OpenProducer(ctx context.Context, id record.ProducerID) (fsm.Result, error) {
	panic("stub")
}
func (n *Node) Topology() wire.Topology                       { panic("stub") }
func (n *Node) TopologyChanged() <-chan struct{}              { panic("stub") }
func (n *Node) NodeID() string                                { panic("stub") }
func (n *Node) ClusterID() string                             { panic("stub") }
func (n *Node) WaitSeq(ctx context.Context, seq uint64) error { panic("stub") }

// SetAddrs tells others the addresses of the client and HTTP listeners, once they are bound.
func (n *Node) SetAddrs(client, http string) { panic("stub") }

type NodeStatus struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	Role          string `json:"role"` // leader, follower, non-voter (joining), replica, left
	RaftAddr      string `json:"raft_addr"`
	ClientAddr    string `json:"client_addr"`
	HTTPAddr      string `json:"http_addr"`
	Alive         bool   `json:"alive"`
	Healthy       bool   `json:"healthy"`
	AppliedIndex  uint64 `json:"applied_index"`
	AppliedSeq    uint64 `json:"applied_seq"`
	LagEntries    uint64 `json:"lag_entries"`
	LastContactMS int64  `json:"last_contact_ms"`
	Version       string `json:"version"`
	Problem       string `json:"problem,omitempty"`
}

type Status struct {
	ClusterID        string       `json:"cluster_id"`
	NodeID           string       `json:"node_id"`
	Healthy          bool         `json:"healthy"`
	Problems         []string     `json:"problems,omitempty"`
	Leader           string       `json:"leader"`
	Term             uint64       `json:"term"`
	CommitIndex      uint64       `json:"commit_index"`
	AppliedIndex     uint64       `json:"applied_index"`
	FirstSeq         uint64       `json:"first_seq"`
	AppliedSeq       uint64       `json:"applied_seq"`
	Nodes            []NodeStatus `json:"nodes"`
	FailureTolerance int          `json:"failure_tolerance"`
}

// Status is this node's view; it asks the leader and peers (bounded, 1 s) for their positions.
func (n *Node) Status(ctx context.Context) Status { panic("stub") }

// Ready: applied what was committed at start and knows a leader.
func (n *Node) Ready() error { panic("stub") }

// Leader-only; on another node a *wire.Error with fsm.NotLeader and the leader's HTTP address in Message.
func (n *Node) AddNode(ctx context.Context, id, raftAddr string, voter bool) error { panic("stub") }
func (n *Node) RemoveNode(ctx context.Context, id string) error                    { panic("stub") }
func (n *Node) TransferLeader(ctx context.Context, to string) error                { panic("stub") } // "" any

// Checkpoint commits a checkpoint entry and returns its id; then every node answers CheckpointDigest.
func (n *Node) Checkpoint(ctx context.Context) (id uint64, err error)               { panic("stub") }
func (n *Node) CheckpointDigest(ctx context.Context, id uint64) (fsm.Digest, error) { panic("stub") }

// Barrier: everything committed before the call is applied here when it returns.
func (n *Node) Barrier(ctx context.Context) error { panic("stub") }
