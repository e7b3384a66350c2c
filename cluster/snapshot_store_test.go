package cluster

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/vfs"
)

var errPower = errors.New("the power is gone")

func openTestSnapshots(tb testing.TB, fsys vfs.FS) *snapshotStore {
	tb.Helper()
	s, err := openSnapshots(fsys, "snapshots", hclog.NewNullLogger())
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func stateOf(index uint64) []byte { return bytes.Repeat([]byte(fmt.Sprintf("state %d;", index)), 20) }

var testServers = raft.Configuration{Servers: []raft.Server{
	{Suffrage: raft.Voter, ID: "a", Address: "h:1"}, {Suffrage: raft.Nonvoter, ID: "b", Address: "h:2"},
}}

// manifestOf is what another node would send.
func manifestOf(index uint64) *snapManifest {
	state := stateOf(index)
	return &snapManifest{
		index: index, term: 3, config: testServers, configIndex: 1, cluster: "c", seq: index, firstSeq: 1, window: 1, windowSeq: 1, time: 5,
		stateSize: int64(len(state)), stateSum: sha256.Sum256(state), files: []snapFile{{name: "w-1.cnts", size: 100}},
	}
}

// take makes a snapshot in the way raft does.
func take(s *snapshotStore, index uint64) error {
	sink, err := s.Create(raftSnapshotVersion, index, 3, testServers, 1, nil)
	if err != nil {
		return err
	}
	k := sink.(*snapshotSink)
	err = k.writeState(func(w io.Writer) error {
		_, err := w.Write(stateOf(index))
		return err
	})
	if err == nil {
		k.m.cluster, k.m.seq, k.m.firstSeq = "c", index, 1
		_, err = sink.Write(k.m.encode())
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// receive brings a snapshot from elsewhere.
func receive(s *snapshotStore, index uint64) error {
	m := manifestOf(index)
	in, err := s.receiveState(m.stateSum, m.stateSize)
	if err != nil {
		return err
	}
	if _, err = in.Write(stateOf(index)[in.Have():]); err == nil {
		err = in.Commit()
	}
	if err = errors.Join(err, in.Close()); err != nil {
		return err
	}
	return s.put(m.encode())
}

func mustDo(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func indexesOf(tb testing.TB, s *snapshotStore) (list []uint64) {
	tb.Helper()
	metas, err := s.List()
	mustDo(tb, err)
	for _, m := range metas {
		list = append(list, m.Index)
	}
	return list
}

// mustBeWhole reads all that a store lists, by every way there is.
func mustBeWhole(tb testing.TB, s *snapshotStore, want ...uint64) {
	tb.Helper()
	if got := indexesOf(tb, s); !slices.Equal(got, want) {
		tb.Fatalf("listed are %v, want %v", got, want)
	}
	for _, k := range s.snapshots() {
		meta, r, err := s.Open(k.m.id())
		mustDo(tb, err)
		blob, err := io.ReadAll(r)
		mustDo(tb, err)
		if !bytes.Equal(blob, k.blob) || meta.Size != int64(len(blob)) || len(meta.Configuration.Servers) != 2 || meta.ConfigurationIndex != 1 || meta.Term != 3 {
			tb.Fatalf("%+v, %d bytes", meta, len(blob))
		}
		mustDo(tb, s.verify(k.m))
		h, err := s.openState(k.m.stateSum)
		mustDo(tb, err)
		state, err := io.ReadAll(h)
		mustDo(tb, errors.Join(err, h.Close()))
		if !bytes.Equal(state, stateOf(meta.Index)) {
			tb.Fatalf("state of %d is %q", meta.Index, state)
		}
	}
}

// mustHoldOnly wants no other files than those of the snapshots that are listed, and what was received.
func mustHoldOnly(tb testing.TB, s *snapshotStore) {
	tb.Helper()
	names, err := s.fs.List(s.dir)
	mustDo(tb, err)
	for _, name := range names {
		id := strings.TrimSuffix(strings.TrimSuffix(name, stateSuffix), manifestSuffix)
		kept := slices.ContainsFunc(s.snapshots(), func(k keptSnapshot) bool { return k.m.id() == id })
		if !kept && !strings.HasPrefix(name, receivedPrefix) || strings.HasSuffix(name, tempSuffix) {
			tb.Fatalf("left over: %s", name)
		}
	}
}

func TestSnapshotsKeepTwo(t *testing.T) {
	s := openTestSnapshots(t, vfs.NewMem())
	for i := uint64(10); i <= 50; i += 10 {
		mustDo(t, take(s, i))
	}
	mustBeWhole(t, s, 50, 40)
	mustHoldOnly(t, s)
	held := map[uint64]bool{40: true}
	s.held = func(index uint64) bool { return held[index] }
	mustDo(t, take(s, 60))
	mustDo(t, receive(s, 70))
	mustBeWhole(t, s, 70, 60, 40)
	h, err := s.openState(sha256.Sum256(stateOf(40)))
	mustDo(t, err)
	delete(held, 40)
	s.tidy()
	mustBeWhole(t, s, 70, 60)
	mustHoldOnly(t, s)
	if state, err := io.ReadAll(h); err != nil || !bytes.Equal(state, stateOf(40)) {
		t.Errorf("an open state file is not readable any more: %v", err)
	}
	mustDo(t, h.Close())
	if _, err := s.openState(sha256.Sum256(stateOf(40))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a state file that is gone: %v", err)
	}
}

func TestSnapshotSinkSettlesOnce(t *testing.T) {
	s := openTestSnapshots(t, vfs.NewMem())
	mustDo(t, take(s, 10))
	for _, index := range []uint64{9, 10} {
		if err := take(s, index); !errors.Is(err, errSnapshotOld) {
			t.Errorf("a snapshot of %d after 10: %v", index, err)
		}
	}
	sink, err := s.Create(raftSnapshotVersion, 20, 3, testServers, 1, nil)
	mustDo(t, err)
	if _, err := s.Create(raftSnapshotVersion, 21, 3, testServers, 1, nil); !errors.Is(err, errSnapshotBusy) {
		t.Errorf("a second sink: %v", err)
	}
	if _, _, err := s.Open("s-3-10"); err != nil {
		t.Errorf("with a sink open: %v", err)
	}
	k := sink.(*snapshotSink)
	mustDo(t, k.writeState(func(w io.Writer) error { _, err := w.Write(stateOf(20)); return err }))
	k.m.firstSeq = 1
	_, err = sink.Write(k.m.encode())
	mustDo(t, err)
	mustBeWhole(t, s, 10)
	mustDo(t, receive(s, 30)) // meanwhile
	for range 2 {
		if err := sink.Close(); !errors.Is(err, errSnapshotOld) {
			t.Errorf("close after a newer one: %v", err)
		}
		mustDo(t, sink.Cancel())
	}
	mustBeWhole(t, s, 30, 10)
	mustHoldOnly(t, s)
	sink, err = s.Create(raftSnapshotVersion, 40, 3, testServers, 1, nil)
	mustDo(t, err)
	mustDo(t, sink.Cancel())
	mustDo(t, sink.Cancel())
	if _, err := sink.Write([]byte("x")); err == nil {
		t.Error("a cancelled sink takes bytes")
	}
	sink, err = s.Create(raftSnapshotVersion, 40, 3, testServers, 1, nil)
	mustDo(t, err)
	if err := sink.Close(); !errors.Is(err, errSnapshotFormat) {
		t.Errorf("close without a manifest: %v", err)
	}
	mustDo(t, take(s, 40))
	mustBeWhole(t, s, 40, 30)
	mustHoldOnly(t, s)
}

// TestSnapshotsAfterCrash cuts the power at every step of making one and of receiving one: what was kept stays whole, the new one is
// there whole or not at all, nothing else stays, and the next one can be made.
func TestSnapshotsAfterCrash(t *testing.T) {
	for name, step := range map[string]func(*snapshotStore, uint64) error{"take": take, "receive": receive} {
		for cut := 0; ; cut++ {
			finished := false
			for seed := range int64(20) {
				fsys := vfs.NewMem()
				s := openTestSnapshots(t, fsys)
				mustDo(t, errors.Join(take(s, 10), take(s, 20)))
				cutSteps(fsys, cut)
				err := step(s, 30)
				finished = err == nil
				if finished != slices.Contains(indexesOf(t, s), 30) {
					t.Fatalf("%s cut at %d: %v, but %v is listed", name, cut, err, indexesOf(t, s))
				}
				var rnd *rand.Rand
				if seed > 0 {
					rnd = rand.New(rand.NewSource(seed))
				}
				after := fsys.Crash(rnd)
				again := openTestSnapshots(t, after)
				want := []uint64{20, 10}
				if list := indexesOf(t, again); len(list) > 0 && list[0] == 30 {
					want = []uint64{30, 20}
				} else if finished {
					t.Fatalf("%s cut at %d: it was told to be done, and is gone: %v", name, cut, list)
				}
				mustBeWhole(t, again, want...)
				mustHoldOnly(t, again)
				mustDo(t, errors.Join(receive(again, 35), take(again, 40)))
				mustBeWhole(t, again, 40, 35)
				mustHoldOnly(t, again)
			}
			if finished && cut > 10 {
				break
			}
		}
	}
}

// cutSteps lets a number of changing steps through and fails all later ones.
func cutSteps(m *vfs.Mem, steps int) {
	seen := 0
	m.SetHook(func(op vfs.Op, _ string) error {
		if op == vfs.OpRead || op == vfs.OpOpen {
			return nil
		}
		if seen++; seen > steps {
			return errPower
		}
		return nil
	})
}

// TestSnapshotFailsOnce lets each step of making a snapshot fail, once: it is not there, and the next attempt succeeds.
func TestSnapshotFailsOnce(t *testing.T) {
	for at := 1; ; at++ {
		fsys := vfs.NewMem()
		s := openTestSnapshots(t, fsys)
		mustDo(t, errors.Join(take(s, 10), take(s, 20)))
		seen := 0
		fsys.SetHook(func(op vfs.Op, _ string) error {
			if op == vfs.OpRead || op == vfs.OpOpen {
				return nil
			}
			if seen++; seen == at {
				return errPower
			}
			return nil
		})
		if take(s, 30) != nil {
			mustBeWhole(t, s, 20, 10)
			mustDo(t, take(s, 30))
		}
		mustBeWhole(t, s, 30, 20)
		if seen < at {
			return
		}
	}
}

func TestReceiveStateGoesOn(t *testing.T) {
	fsys := vfs.NewMem()
	s := openTestSnapshots(t, fsys)
	m := manifestOf(10)
	begin := func() *incomingState {
		t.Helper()
		in, err := s.receiveState(m.stateSum, m.stateSize)
		mustDo(t, err)
		return in
	}
	in := begin()
	_, err := in.Write(stateOf(10)[:17])
	mustDo(t, errors.Join(err, in.Close()))
	s = openTestSnapshots(t, fsys)
	in = begin()
	if in.Have() != 17 {
		t.Fatalf("has %d bytes of 17", in.Have())
	}
	if _, err := in.Write(make([]byte, m.stateSize)); err == nil {
		t.Error("takes more than the whole")
	}
	if err := in.Commit(); !errors.Is(err, errSnapshotFormat) {
		t.Errorf("commit of a part: %v", err)
	}
	if err := s.put(m.encode()); err == nil || s.hasState(m.stateSum) {
		t.Errorf("put without a state: %v", err)
	}
	in = begin()
	if in.Have() != 0 {
		t.Errorf("%d bytes of what was wrong are still there", in.Have())
	}
	_, err = in.Write(stateOf(10))
	mustDo(t, errors.Join(err, in.Commit(), in.Close()))
	if !s.hasState(m.stateSum) {
		t.Error("it is not there")
	}
	mustDo(t, errors.Join(s.put(m.encode()), s.put(m.encode())))
	mustBeWhole(t, s, 10)
	other, err := s.receiveState(sha256.Sum256(nil), 5)
	mustDo(t, errors.Join(err, other.Close()))
	again := begin()
	mustDo(t, again.Close())
	if names, err := fsys.List("snapshots"); err != nil || len(names) != 3 {
		t.Errorf("%v: the other transfer's part should be gone (%v)", names, err)
	}
}

// TestDamagedSnapshots: what is damaged is not listed, and does not keep the rest from being used.
func TestDamagedSnapshots(t *testing.T) {
	spoil := map[string]func(*vfs.Mem){
		"manifest": func(m *vfs.Mem) { flip(t, m, "s-3-20.snap", 30) },
		"cut":      func(m *vfs.Mem) { m.SetBytes(filepath.Join("snapshots", "s-3-20.state"), stateOf(20)[1:]) },
		"missing":  func(m *vfs.Mem) { mustDo(t, m.Remove(filepath.Join("snapshots", "s-3-20.state"))) },
		"state":    func(m *vfs.Mem) { flip(t, m, "s-3-20.state", 30) },
	}
	for name, f := range spoil {
		fsys := vfs.NewMem()
		s := openTestSnapshots(t, fsys)
		mustDo(t, errors.Join(take(s, 10), take(s, 20)))
		f(fsys)
		s = openTestSnapshots(t, fsys)
		for _, k := range s.snapshots() {
			if err := s.verify(k.m); err != nil {
				s.setDamaged(k.m, err)
			}
		}
		mustBeWhole(t, s, 10)
		if p := s.problems(); len(p) != 1 || p[0].id != "s-3-20" || !errors.Is(p[0].err, errSnapshotFormat) {
			t.Errorf("%s: %v", name, p)
		}
		mustDo(t, errors.Join(take(s, 30), take(s, 40)))
		mustBeWhole(t, s, 40, 30)
		mustHoldOnly(t, s)
		if p := s.problems(); len(p) != 0 {
			t.Errorf("%s: still told: %v", name, p)
		}
	}
}

func flip(tb testing.TB, m *vfs.Mem, name string, at int) {
	tb.Helper()
	path := filepath.Join("snapshots", name)
	b, err := m.Bytes(path)
	mustDo(tb, err)
	b[at] ^= 1
	m.SetBytes(path, b)
}

func TestSnapshotsListCovered(t *testing.T) {
	s := openTestSnapshots(t, vfs.NewMem())
	mustDo(t, errors.Join(take(s, 10), take(s, 20)))
	s.covers = func(m *snapManifest) bool { return m.index == 10 }
	if got := indexesOf(t, s); !slices.Equal(got, []uint64{10}) {
		t.Errorf("%v", got)
	}
	if m, ok := s.newest(); !ok || m.index != 10 {
		t.Errorf("%v %v", m, ok)
	}
}
