package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/wire"
)

// SnapshotInfo describes one snapshot of a node.
type SnapshotInfo struct {
	ID           string    `json:"id"`
	Index        uint64    `json:"index"` // newest log entry in it
	Term         uint64    `json:"term"`
	Seq          uint64    `json:"seq"`           // newest message in it, 0: none
	FirstSeq     uint64    `json:"first_seq"`     // oldest message that was kept
	StateBytes   int64     `json:"state_bytes"`   // of its state file
	HistoryBytes int64     `json:"history_bytes"` // of the files of history when it was made
	HistoryFiles int       `json:"history_files"`
	Time         time.Time `json:"time"` // when it was made, by the clock of the node that did
}

func (m *snapManifest) info() SnapshotInfo {
	i := SnapshotInfo{
		ID: m.id(), Index: m.index, Term: m.term, Seq: m.seq, FirstSeq: m.firstSeq, StateBytes: m.stateSize,
		HistoryFiles: len(m.files), Time: time.Unix(0, m.time),
	}
	for _, f := range m.files {
		i.HistoryBytes += f.size
	}
	return i
}

// Snapshots are those that this node could be restored from, newest first; none if it keeps no history.
func (n *Node) Snapshots() (list []SnapshotInfo) {
	if n.snaps == nil {
		return nil
	}
	for _, k := range n.snaps.usable() {
		list = append(list, k.m.info())
	}
	return list
}

// TakeSnapshot makes a snapshot of what this node has applied, and cuts the log behind it as far as it may be cut. If nothing was applied
// since the last one, that one is returned. An end of ctx does not end the making.
func (n *Node) TakeSnapshot(ctx context.Context) (SnapshotInfo, error) {
	if n.snaps == nil {
		return SnapshotInfo{}, &wire.Error{Code: wire.Code(fsm.Invalid), Message: errSnapshotsOff.Error()}
	}
	done := make(chan error, 1)
	if !n.tasks.Go(func() { done <- n.snapshot(n.ctx) }) {
		return SnapshotInfo{}, ErrClosed
	}
	select {
	case err := <-done:
		if err != nil {
			return SnapshotInfo{}, fmt.Errorf("cluster: snapshot: %w", err)
		}
	case <-ctx.Done():
		return SnapshotInfo{}, ctx.Err()
	}
	m, ok := n.snaps.newest()
	if !ok {
		return SnapshotInfo{}, &wire.Error{Code: wire.Code(fsm.Unavailable), Message: "there is nothing to take a snapshot of: no message was published yet"}
	}
	return m.info(), nil
}

// snapshot makes a snapshot if anything was applied since the last one, and cuts the log. One is made at a time.
func (n *Node) snapshot(ctx context.Context) error {
	select {
	case n.snapping <- struct{}{}:
		defer func() { <-n.snapping }()
	case <-ctx.Done():
		return ErrClosed
	}
	start := time.Now()
	err := n.raft.Snapshot().Error()
	for ; err != nil && ctx.Err() == nil && strings.HasPrefix(err.Error(), notYet); err = n.raft.Snapshot().Error() {
		pause.For(ctx, retryRefused)
	}
	switch {
	case errors.Is(err, raft.ErrNothingNewToSnapshot):
		return nil
	case err != nil:
		n.metrics.snapshotErrors.Inc()
		return err
	}
	faults.Pass(faults.Closed)
	n.metrics.snapshots.Inc()
	if m, ok := n.snaps.newest(); ok {
		n.log.Info("snapshot taken", "id", m.id(), "seq", m.seq, "bytes", m.stateSize, "took", time.Since(start).Round(time.Millisecond))
	}
	n.trimLog(ctx)
	return nil
}

// notYet begins raft's error while a change of the configuration is committed but not applied: a moment later it is.
const notYet = "cannot take snapshot now"

// keepSnapshots takes a snapshot when enough of the log has been applied since the last one, looked at whenever a window is sealed, when
// the messages that history does not hold are fewest; and cuts the log, until ctx ends.
func (n *Node) keepSnapshots(ctx context.Context) {
	if n.snaps == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.sealings:
		}
		n.snaps.tidy()
		if n.adapter.since.Load() < n.opts.SnapshotBytes {
			n.trimLog(ctx)
			continue
		}
		if err := n.snapshot(ctx); err != nil && ctx.Err() == nil {
			n.log.Warn("cannot take a snapshot: the log grows until one succeeds, at the end of a window", "error", err)
		}
	}
}

// trimLog deletes entries that no restart of this node needs and that exceed what is kept for others.
func (n *Node) trimLog(ctx context.Context) {
	n.trimming.Lock()
	defer n.trimming.Unlock()
	first, err := n.logs.FirstIndex()
	limit := n.trimLimit()
	for err == nil && first > 0 && first <= limit && ctx.Err() == nil {
		high := min(limit, first/trimChunk*trimChunk+trimChunk-1)
		if err = n.logs.DeleteRange(first, high); err == nil {
			faults.Pass(faults.Trim)
			n.metrics.trimmed.Add(float64(high - first + 1))
			first = high + 1
		}
	}
	if err != nil {
		n.log.Warn("cannot cut the log", "error", err) // the guard has failed the node if the disk has
	}
}

// trimLimit is the newest entry that may be deleted: the second newest snapshot holds it, so that one damaged snapshot does no harm,
// enough bytes come after it, and nobody who fetches a snapshot will need it.
func (n *Node) trimLimit() uint64 {
	list := n.snaps.usable()
	keep := n.guard.sizes.keepFrom(n.opts.LogKeepBytes)
	if len(list) < snapshotsKept || keep == 0 {
		return 0
	}
	n.holds.keep(func(id string) bool { // a node that lost its disk is asked under its old id for a while
		_, ok := n.server(id)
		return ok
	})
	return min(list[snapshotsKept-1].m.index, keep-1, n.holds.lowest()-1)
}
