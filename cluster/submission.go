package cluster

import (
	"context"
	"errors"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// ErrClosed: the node is closing or closed.
var ErrClosed = errors.New("cluster: the node is closed")

// Submission is one batch on its way into the log.
//
// Topic numbers in the batch (records and preconditions) are ids of Table, or record.NewTopic|i where Names[i] is the
// name (validated by the caller). The batch was validated by the caller. Until Release is called the batch's bytes and
// the entries of Names that it uses belong to the node and must not change.
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

// finish completes a submission whose bytes are still held. size is what it took of the in-flight bytes.
func (s *Submission) finish(r fsm.Result) {
	s.release()
	s.Complete(s, r)
}

func (s *Submission) release() {
	if s.Release != nil {
		s.Release()
	}
}

// Broker is what the data plane needs of a node. *Node is one; tests have smaller ones.
type Broker interface {
	Stream() *Stream
	// Submit queues a batch. It blocks while the node's in-flight bytes are at their limit (back-pressure), at most until
	// ctx ends; a returned error means not queued and Complete will not be called. Batches that one goroutine submits are
	// proposed in that order.
	Submit(ctx context.Context, s *Submission) error
	// OpenProducer opens a producer through the log. The error is ctx's or ErrClosed; all other outcomes are codes.
	OpenProducer(ctx context.Context, id record.ProducerID) (fsm.Result, error)
	Topology() wire.Topology
	// TopologyChanged returns a channel that is closed at the next change. Take it before Topology.
	TopologyChanged() <-chan struct{}
	NodeID() string
	ClusterID() string
	// WaitSeq waits until seq is applied here.
	WaitSeq(ctx context.Context, seq uint64) error
	// Barrier waits until everything is applied here that was committed anywhere before the call. The error is ctx's, ErrClosed, or a
	// *wire.Error if no leader has answered.
	Barrier(ctx context.Context) error
}

var _ Broker = (*Node)(nil)
