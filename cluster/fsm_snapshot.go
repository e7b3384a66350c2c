package cluster

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/faults"
)

// errSnapshotsOff: without history a state is no help, since what was before the tip could not be read; so the log is kept whole.
var errSnapshotsOff = errors.New("snapshots are not in use: this node keeps no history, so it keeps its log whole")

// Snapshot implements raft.FSM: it copies the state, which holds applying up for milliseconds. All else is done by Persist.
func (a *fsmAdapter) Snapshot() (raft.FSMSnapshot, error) {
	switch {
	case a.snaps == nil:
		return nil, errSnapshotsOff
	case a.broken:
		return nil, errors.New("an entry could not be applied here")
	case a.stream.machine.LastSeq() == 0:
		return nil, raft.ErrNothingNewToSnapshot // and raft compares: it must not be wrapped
	}
	if list := a.snaps.snapshots(); len(list) > 0 && list[0].m.index >= a.index {
		return nil, raft.ErrNothingNewToSnapshot
	}
	return &fsmSnapshot{a: a, state: a.stream.capture(), bytes: a.since.Load(), taken: time.Now()}, nil
}

// fsmSnapshot is a state on its way to disk, on raft's goroutine for snapshots.
type fsmSnapshot struct {
	a     *fsmAdapter
	state *streamState
	bytes int64 // applied since the last snapshot, when this was taken
	taken time.Time
}

// Persist implements raft.FSMSnapshot. It waits until history holds all windows that the state has sealed, then writes the state file
// and last the manifest, which raft makes a snapshot by closing the sink. It runs beside apply and never holds it up.
func (f *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	k, ok := sink.(*snapshotSink)
	if !ok {
		return fmt.Errorf("persist a snapshot: a sink of type %T", sink)
	}
	a := f.a
	if w, ok := f.state.state.Sealed(); ok {
		if err := a.stream.history.archiver.await(a.ctx, w.Number); err != nil {
			return fmt.Errorf("persist a snapshot: window %d is not archived: %w", w.Number, err)
		}
	}
	if err := k.writeState(func(w io.Writer) error { return f.state.writeTo(a.ctx, w) }); err != nil {
		return err
	}
	faults.Pass(faults.Snapshot)
	w, _ := f.state.state.Sealed()
	m := &k.m
	m.cluster, m.seq, m.firstSeq, m.time = a.cluster(), f.state.state.Seq(), f.state.state.First(), f.taken.UnixNano()
	m.window, m.windowSeq = w.Number, w.LastSeq
	for _, file := range a.stream.HistoryFiles() {
		m.files = append(m.files, snapFile{name: file.Name(), size: file.Size, sum: file.SHA256})
	}
	if _, err := k.Write(m.encode()); err != nil {
		return err
	}
	k.done = func() { a.since.Add(-f.bytes) }
	return nil
}

// Release implements raft.FSMSnapshot.
func (f *fsmSnapshot) Release() { f.state = nil }

// Restore implements raft.FSM. raft calls it once, before it runs, with the newest snapshot that can be used; what is restored at run
// time would take back what readers have seen, so the node fails then.
func (a *fsmAdapter) Restore(r io.ReadCloser) error {
	err := a.restore(r)
	if err = errors.Join(err, r.Close()); err != nil {
		err = fmt.Errorf("restore a snapshot: %w", err)
		a.broken, a.restoring = true, errors.Join(a.restoring, err)
		if a.runs.Load() {
			a.fail(err)
		}
	}
	return err
}

func (a *fsmAdapter) restore(r io.Reader) error {
	switch {
	case a.snaps == nil:
		return errSnapshotsOff
	case a.runs.Load() || a.index != 0 || a.broken:
		return errors.New("the node has a state already: it must be closed and opened again")
	}
	blob, err := io.ReadAll(io.LimitReader(r, maxSnapshotBlob+1))
	if err != nil {
		return err
	}
	m, err := decodeSnapManifest(blob)
	if err != nil {
		return err
	}
	h, err := a.snaps.openState(m.stateSum)
	if err != nil {
		return err
	}
	err = a.stream.restore(m, h)
	if err = errors.Join(err, h.Close()); err != nil {
		return err
	}
	faults.Pass(faults.Restored)
	a.index, a.window = m.index, m.window
	a.applied(m.index)
	return nil
}
