package client

import "time"

// GetOption says how fresh a read of single messages must be.
type GetOption func(*getOptions)

type getOptions struct {
	minSeq       uint64
	asOf         uint64
	wait         time.Duration
	linearizable bool
	snapshot     *uint64
}

// MinSeq makes the read wait until its node has this seq, so that a client that knows a message to exist finds it on any node. ErrNotYet if
// it takes longer than MaxWait.
func MinSeq(seq uint64) GetOption { return func(o *getOptions) { o.minSeq = seq } }

// Linearizable makes the read see everything that was acknowledged to anyone before it began. It costs a round of the cluster's
// agreement, and ErrUnavailable while there is no leader. Without it a node answers with what it has.
func Linearizable() GetOption { return func(o *getOptions) { o.linearizable = true } }

// AsOf makes Get and GetAll find the last messages at or below a seq. ErrGone if nothing at or below it is kept. Far back it can cost a
// search through much of what the node holds.
func AsOf(seq uint64) GetOption { return func(o *getOptions) { o.asOf = seq } }

// MaxWait bounds the wait that MinSeq, AsOf, Linearizable or the seq of GetAt make necessary. Default 5 s.
func MaxWait(d time.Duration) GetOption { return func(o *getOptions) { o.wait = d } }

// SnapshotSeq stores the seq as of which GetAll reads, before the first message is yielded. Subscribing from the seq after it continues
// the snapshot without a gap.
func SnapshotSeq(seq *uint64) GetOption { return func(o *getOptions) { o.snapshot = seq } }
