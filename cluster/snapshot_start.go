package cluster

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
)

// openSnapshotStore opens the folder of snapshots if this node keeps history.
func (n *Node) openSnapshotStore() error {
	h := n.stream.history
	if h == nil {
		return nil
	}
	s, err := openSnapshots(h.o.FS, filepath.Join(n.opts.DataDir, snapshotDir), n.log)
	if err != nil {
		return err
	}
	// What was sealed up to a snapshot must be in history; what was dropped from its beginning since is in the log as well.
	s.covers = func(m *snapManifest) bool {
		_, last := h.store.Bounds()
		return last >= m.windowSeq
	}
	s.held, s.putting = n.holds.has, n.folder.setOvertaken
	n.snaps, n.adapter.snaps = s, s
	return nil
}

// chooseStart decides what this node begins with: the newest snapshot whose files are whole, and the log after it. It checks that the
// two fit together, and wipes a log that a snapshot of another node has overtaken. Raft is then told of that snapshot only.
func (n *Node) chooseStart(logs raft.LogStore) (raft.LogStore, error) {
	first, last, err := logBounds(logs)
	if err != nil {
		return nil, err
	}
	m, err := n.wholeSnapshot()
	if err != nil {
		return nil, err
	}
	switch {
	case m == nil:
		return logs, n.startFromLog(first, last)
	case n.ClusterID() != m.cluster:
		return nil, fmt.Errorf("data folder %s is of cluster %q, but its snapshot %s is of cluster %q: one of them was replaced: restore it",
			n.opts.DataDir, n.ClusterID(), m.id(), m.cluster)
	}
	if newer := n.newerThan(m); newer != nil {
		if last < m.index || first > m.index+1 {
			return nil, damaged(partSnapshot, fmt.Errorf("%w, and the raft log (entries %d to %d) does not go on behind %s, the one before: %s", newer, first, last, m.id(), howToMend))
		}
		n.log.Error("a snapshot cannot be used: starting from the one before and the log", "problem", newer, "from", m.id())
	} else if first > m.index+1 {
		return nil, damaged(partRaft, fmt.Errorf("the raft log of data folder %s begins with entry %d, its newest snapshot %s ends with %d: entries between are gone: %s",
			n.opts.DataDir, first, m.id(), m.index, howToMend))
	} else if err := n.wipeOvertaken(logs, m, last); err != nil {
		return nil, err
	}
	return &snapshotLog{logs, m.index, m.term}, nil
}

func logBounds(logs raft.LogStore) (first, last uint64, err error) {
	first, err = logs.FirstIndex()
	if err == nil {
		last, err = logs.LastIndex()
	}
	if err != nil {
		err = fmt.Errorf("read the raft log: %w", err)
	}
	return first, last, err
}

// wholeSnapshot reads the state file of the newest snapshot, and if it is not what the manifest says, that of the one before.
func (n *Node) wholeSnapshot() (*snapManifest, error) {
	if n.snaps == nil {
		return nil, nil
	}
	for {
		m, ok := n.snaps.newest()
		if !ok {
			return nil, nil
		}
		err := n.snaps.verify(m)
		if err == nil {
			return m, nil
		}
		if !errors.Is(err, errSnapshotFormat) {
			return nil, fmt.Errorf("read snapshot %s: %w", m.id(), err)
		}
		n.snaps.setDamaged(m, err)
	}
}

// startFromLog is nil if the log alone tells everything.
func (n *Node) startFromLog(first, last uint64) error {
	switch {
	case first <= 1 && last > 0:
		return nil
	case n.snaps == nil && first > 1:
		return fmt.Errorf("the raft log of data folder %s begins with entry %d: what was before is in snapshots and history: start it with history", n.opts.DataDir, first)
	case n.snaps == nil && n.folder.hasSnapshots():
		return fmt.Errorf("data folder %s holds snapshots, and its log is of no use without them: start it with history", n.opts.DataDir)
	case n.snaps == nil:
		return nil
	}
	problem := n.newerThan(&snapManifest{})
	if problem == nil && last == 0 {
		return nil
	}
	if problem == nil {
		problem = errNoSnapshot
	}
	return damaged(partSnapshot, fmt.Errorf("the raft log of data folder %s begins with entry %d, and %w: %s", n.opts.DataDir, first, problem, howToMend))
}

var errNoSnapshot = errors.New("there is no snapshot")

// newerThan says which snapshot newer than m cannot be used, and why; nil if there is none.
func (n *Node) newerThan(m *snapManifest) error {
	for _, d := range n.snaps.problems() {
		var term, index uint64
		if _, err := fmt.Sscanf(d.id, "s-%d-%d", &term, &index); err != nil || index > m.index {
			return fmt.Errorf("snapshot %s cannot be used: %w", d.id, d.err)
		}
	}
	for _, k := range n.snaps.snapshots() {
		if k.m.index > m.index {
			return fmt.Errorf("snapshot %s needs history up to seq %d, which is not in %s", k.m.id(), k.m.windowSeq, n.stream.history.o.Dir)
		}
	}
	return nil
}

// wipeOvertaken deletes a log that holds nothing that counts: it ends before a snapshot which came from another node, or has another
// entry in its place. Up to there the snapshot holds what was committed, and what comes behind another entry was not. A log that is
// behind a snapshot made here has lost its end, and what this node has promised with it.
func (n *Node) wipeOvertaken(logs raft.LogStore, m *snapManifest, last uint64) error {
	if last == 0 {
		return nil // noteState knows whether that may be
	}
	overtaken, err := behind(logs, m, last)
	id := n.folder.identity()
	switch {
	case err != nil:
		return n.spoiled(err)
	case !overtaken && id.Overtaken == m.id():
		return n.folder.setOvertaken("")
	case !overtaken:
		return nil
	case id.Overtaken != m.id() && n.opts.LogStore != LogStoreMemory:
		return damaged(partRaft, fmt.Errorf("the raft log of data folder %s ends with entry %d, or has another entry %d than snapshot %s, which was made here: the log was replaced: %s",
			n.opts.DataDir, last, m.index, m.id(), howToMend))
	}
	n.log.Info("deleting a log that a snapshot has overtaken", "snapshot", m.id(), "last_index", last)
	if err := n.folder.setEmptyLog(); err != nil {
		return err
	}
	return wipe(logs, last)
}

// behind tells whether the log ends before the snapshot or has another entry where it ends.
func behind(logs raft.LogStore, m *snapManifest, last uint64) (bool, error) {
	if last < m.index {
		return true, nil
	}
	var l raft.Log
	err := logs.GetLog(m.index, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return false, nil // the log goes on right behind it
	}
	if err != nil {
		return false, fmt.Errorf("read entry %d of the raft log: %w: %s", m.index, err, howToMend)
	}
	return l.Term != m.term, nil
}

// wipe deletes a log, its end first: what a crash leaves ends before the snapshot, or still has the other entry.
func wipe(logs raft.LogStore, last uint64) error {
	first, err := logs.FirstIndex()
	for err == nil && first > 0 && last >= first {
		low := max(first, last/trimChunk*trimChunk)
		if err = logs.DeleteRange(low, last); err == nil {
			last = low - 1
		}
	}
	if err != nil {
		return fmt.Errorf("delete the raft log: %w", err)
	}
	return nil
}

// restores tells whether this node begins with a snapshot.
func (n *Node) restores() bool {
	if n.snaps == nil {
		return false
	}
	_, ok := n.snaps.newest()
	return ok
}

// snapshotLog is a log that knows the entry a snapshot ends with, though it may not hold it: raft asks for its term when the log was
// wiped and a leader goes on from there.
type snapshotLog struct {
	raft.LogStore
	index, term uint64
}

// GetLog implements raft.LogStore.
func (s *snapshotLog) GetLog(index uint64, log *raft.Log) error {
	err := s.LogStore.GetLog(index, log)
	if index == s.index && errors.Is(err, raft.ErrLogNotFound) {
		*log = raft.Log{Index: s.index, Term: s.term, Type: raft.LogNoop}
		return nil
	}
	return err
}
