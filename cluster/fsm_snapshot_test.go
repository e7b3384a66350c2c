package cluster

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// testAdapter is an adapter over a stream with history, which applies a log by itself.
type testAdapter struct {
	*fsmAdapter
	f       *feeder
	failed  []error
	applied []uint64
}

func newTestAdapter(t *testing.T, fs vfs.FS) *testAdapter {
	t.Helper()
	s, err := openStream(historyOptions(fs))
	mustDo(t, err)
	t.Cleanup(func() { mustDo(t, s.Close()) })
	a := &testAdapter{f: &feeder{s: s}}
	a.fsmAdapter = &fsmAdapter{
		stream: s, snaps: openTestSnapshots(t, fs), ctx: t.Context(), cluster: func() string { return "c" }, sealed: func() {},
		fail:    func(err error) { a.failed = append(a.failed, err) },
		applied: func(index uint64) { a.applied = append(a.applied, index) },
	}
	return a
}

// publish applies an entry as raft would.
func (a *testAdapter) publish(t *testing.T) {
	t.Helper()
	mustDo(t, a.f.publish(1, nil, "a/b"))
	a.index = a.f.index
}

// take has raft's part in a snapshot.
func (a *testAdapter) take() error {
	snap, err := a.Snapshot()
	if err != nil {
		return err
	}
	defer snap.Release()
	sink, err := a.snaps.Create(raftSnapshotVersion, a.index, 3, testServers, 1, nil)
	if err != nil {
		return err
	}
	if err := snap.Persist(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

func (a *testAdapter) restoreNewest(t *testing.T, from *snapshotStore) error {
	t.Helper()
	m, ok := from.newest()
	if !ok {
		t.Fatal("no snapshot")
	}
	_, r, err := from.Open(m.id())
	mustDo(t, err)
	return a.Restore(r)
}

// TestRestoreOnlyAtStart: a state is restored once, into a node that has none, before raft runs.
func TestRestoreOnlyAtStart(t *testing.T) {
	fs := vfs.NewMem()
	a := newTestAdapter(t, fs)
	a.stream.start()
	if _, err := a.Snapshot(); err != raft.ErrNothingNewToSnapshot {
		t.Errorf("before the first message: %v", err)
	}
	a.since.Store(100)
	a.publish(t)
	mustDo(t, a.take())
	if err := a.take(); err != raft.ErrNothingNewToSnapshot {
		t.Errorf("nothing new: %v", err)
	}
	if n := a.since.Load(); n != 0 {
		t.Errorf("%d bytes since the snapshot", n)
	}
	m, _ := a.snaps.newest()
	if m.cluster != "c" || m.seq != 1 || m.firstSeq != 1 || m.window != 0 || len(m.config.Servers) != 2 {
		t.Errorf("%+v", m)
	}
	a.runs.Store(true)
	if err := a.restoreNewest(t, a.snaps); err == nil || len(a.failed) != 1 || !strings.Contains(a.failed[0].Error(), "closed and opened again") {
		t.Errorf("at run time: %v, failed %v", err, a.failed)
	}

	b := newTestAdapter(t, fs)
	if err := b.restoreNewest(t, b.snaps); err != nil || b.index != 1 || len(b.applied) != 1 || b.stream.machine.LastSeq() != 1 {
		t.Errorf("%v, index %d, applied %v", err, b.index, b.applied)
	}
	if err := b.restoreNewest(t, b.snaps); err == nil || !b.broken || b.restoring == nil || len(b.failed) != 0 {
		t.Errorf("twice: %v", err)
	}
	b.f.index = b.index
	b.publish(t)
	if _, err := b.Snapshot(); err == nil {
		t.Error("a broken state was captured")
	}
}

// TestRestoreRefusesAnotherState: a state file that its manifest does not fit leaves an error that says so.
func TestRestoreRefusesAnotherState(t *testing.T) {
	fs := vfs.NewMem()
	a := newTestAdapter(t, fs)
	a.stream.start()
	a.publish(t)
	mustDo(t, a.take())
	good, _ := a.snaps.newest()
	h, err := a.snaps.openState(good.stateSum)
	mustDo(t, err)
	state, err := io.ReadAll(h)
	mustDo(t, errors.Join(err, h.Close()))
	for name, change := range map[string]func(m *snapManifest, b []byte) []byte{
		"seq":   func(m *snapManifest, b []byte) []byte { m.seq++; return b },
		"first": func(m *snapManifest, b []byte) []byte { m.firstSeq++; return b },
		"magic": func(_ *snapManifest, b []byte) []byte { b[0]++; return b },
		"newer": func(_ *snapManifest, b []byte) []byte { b[8]++; return b },
		"cut":   func(_ *snapManifest, b []byte) []byte { return b[:len(b)-1] },
		"empty": func(_ *snapManifest, b []byte) []byte { return nil },
		"long":  func(_ *snapManifest, b []byte) []byte { return append(b, 0) },
	} {
		m := *good
		b := change(&m, bytes.Clone(state))
		s, err := openStream(historyOptions(vfs.NewMem()))
		mustDo(t, err)
		if err := s.restore(&m, bytes.NewReader(b)); !errors.Is(err, errSnapshotFormat) {
			t.Errorf("%s: %v", name, err)
		}
		mustDo(t, s.Close())
	}
}

// TestNoSnapshotsWithoutHistory: there is nothing to take and nothing to restore.
func TestNoSnapshotsWithoutHistory(t *testing.T) {
	a := newTestAdapter(t, vfs.NewMem())
	a.snaps = nil
	a.publish(t)
	if _, err := a.Snapshot(); !errors.Is(err, errSnapshotsOff) {
		t.Error(err)
	}
	if err := a.Restore(io.NopCloser(strings.NewReader(""))); !errors.Is(err, errSnapshotsOff) {
		t.Error(err)
	}
}
