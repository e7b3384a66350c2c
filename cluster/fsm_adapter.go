package cluster

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// fsmAdapter is what raft sees of the stream. Its methods are called by raft's one apply goroutine. It never waits for
// raft: when 128 batches wait for it, raft's main loop stops.
type fsmAdapter struct {
	stream  *Stream
	settle  func(record.EntryHeader, []fsm.Result) // tells the proposer
	applied func(index uint64)                     // after each batch
	config  func()                                 // membership may have changed
	fail    func(error)
	results []fsm.Result // scratch
	broken  bool         // an entry could not be applied: what follows must not be
	index   uint64       // of the last entry that came here, or of the snapshot that was restored
	window  uint64       // the last sealed window

	// snaps keeps snapshots of what is applied here. nil: there are none.
	snaps     *snapshotStore
	ctx       context.Context // ends what a snapshot waits for
	cluster   func() string   // the cluster's id
	sealed    func()          // a window was sealed; must not block
	runs      atomic.Bool     // raft runs: nothing is restored any more
	restoring error           // why restoring failed; raft only logs it
	since     atomic.Int64    // bytes of entries applied since the last snapshot
	count     atomic.Uint64   // entries applied since the node started, those of its log among them
}

var _ raft.BatchingFSM = (*fsmAdapter)(nil)

// ApplyBatch implements raft.BatchingFSM: one result for each log. Outcomes go to the proposer by the entry's own
// numbers, not through raft's futures, which may never be answered. raft has no way to report a failed apply: the node
// fails and nothing more is applied.
func (a *fsmAdapter) ApplyBatch(logs []*raft.Log) []any {
	for _, l := range logs {
		switch {
		case l.Type == raft.LogConfiguration:
			a.config()
		case l.Type == raft.LogCommand && !a.broken:
			a.apply(l)
		}
	}
	if n := len(logs); n > 0 && !a.broken {
		a.index = logs[n-1].Index
		a.applied(a.index)
	}
	return make([]any, len(logs))
}

func (a *fsmAdapter) apply(l *raft.Log) {
	h, results, err := a.stream.Apply(l.Index, l.Data, a.results[:0])
	if err != nil {
		a.broken = true
		a.fail(fmt.Errorf("entry %d of term %d cannot be applied: %w: this node's log or state is broken: %s", l.Index, l.Term, err, howToMend))
		return
	}
	a.results = results
	a.settle(h, results)
	a.since.Add(int64(len(l.Data)))
	a.count.Add(1)
	if w := newestWindow(a.stream.machine); w != a.window {
		a.window = w
		a.sealed()
	}
}

// Apply implements raft.FSM; raft uses ApplyBatch.
func (a *fsmAdapter) Apply(l *raft.Log) any { return a.ApplyBatch([]*raft.Log{l})[0] }
