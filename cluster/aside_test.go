package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// asideRig is a data folder in memory on which a node steps aside.
type asideRig struct {
	*stepping
	mem    *vfs.Mem
	before identity
	files  map[string]string // all that is in the folder at first, but the identity
}

func newAsideRig(t *testing.T) *asideRig {
	t.Helper()
	r := &asideRig{mem: vfs.NewMem(), before: identity{Format: identityFormat, NodeID: "5d4a3c61-6b0f-4f0e-9a53-0d0f4c9f7a11", ClusterID: "c", HasLog: true, Removed: []string{"gone"}}}
	r.files = map[string]string{
		"raft/log.db": "the log", "raft/stable.db": "the vote", "snapshots/s-1-9.snap": "a manifest", "snapshots/s-1-9.state": "a state",
		"history/MANIFEST": "spoiled", "history/w-1.cnts": "a window", "history/g-1.cnts": "a generation",
	}
	for _, dir := range []string{"d/raft", "d/snapshots", "d/history"} {
		if err := r.mem.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range r.files {
		r.mem.SetBytes(filepath.Join("d", name), []byte(content))
	}
	b, err := r.before.encode()
	if err != nil {
		t.Fatal(err)
	}
	r.mem.SetBytes("d/identity.json", b)
	r.use(r.mem)
	return r
}

func (r *asideRig) use(mem *vfs.Mem) {
	r.mem = mem
	r.stepping = &stepping{fs: mem, dir: "d", historyFS: mem, historyDir: "d/history", log: hclog.NewNullLogger()}
}

// at is a file's content, "" if it is not there.
func (r *asideRig) at(name string) string {
	b, err := r.mem.Bytes(filepath.Join("d", name))
	if errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return string(b)
}

// places are where a file may be found after stepping aside to a folder.
func places(name, content, folder, history string) string {
	sum := sha256.Sum256([]byte(content))
	switch {
	case !strings.HasPrefix(name, historyDir), history == historyMoved:
		return filepath.Join(folder, name)
	case history == historyKept:
		return name
	case strings.HasSuffix(name, "MANIFEST"):
		return filepath.Join(folder, name)
	}
	return filepath.Join(historyDir, "incoming", hex.EncodeToString(sum[:])+".cnts")
}

// wantDone: the identity is the new one, and everything lies where it should.
func (r *asideRig) wantDone(t *testing.T, next identity, all bool) {
	t.Helper()
	if _, begun, err := r.pending(); begun || err != nil {
		t.Fatalf("it is not finished: %v", err)
	}
	id, err := parseIdentity("identity.json", []byte(r.at(identityFile)))
	if err != nil || id.NodeID != next.NodeID || id.Aside == nil || id.ClusterID != next.ClusterID || id.HasLog {
		t.Fatalf("the identity is %+v, %v", id, err)
	}
	for name, content := range r.files {
		place := places(name, content, next.Aside.Folder, next.Aside.History)
		if place != name && r.at(name) != "" {
			t.Fatalf("%s is still there", name)
		}
		if got := r.at(place); all && got != content {
			t.Fatalf("%s is not at %s: %q", name, place, got)
		}
	}
}

// TestStepAside: what moves where, by what was damaged.
func TestStepAside(t *testing.T) {
	for _, test := range []struct {
		part    damagedPart
		lost    bool // the identity
		history string
	}{
		{partRaft, false, historyKept}, {partSnapshot, false, historyKept}, {partManifest, false, historyLoose}, {partIdentity, true, historyMoved},
	} {
		r := newAsideRig(t)
		before := r.before
		if test.lost {
			before = identity{}
		}
		next := r.next(before, &damage{test.part, errors.New("spoiled")}, time.Now())
		if next.Aside.History != test.history || next.NodeID == r.before.NodeID || next.HasLog || !slices.Equal(next.Removed, before.Removed) {
			t.Errorf("%s: %+v %+v", test.part, next, next.Aside)
		}
		if err := errors.Join(r.begin(next), r.finish(next)); err != nil {
			t.Fatal(err)
		}
		r.wantDone(t, next, true)
		if was := r.at(filepath.Join(next.Aside.Folder, identityFile)); !strings.Contains(was, r.before.NodeID) {
			t.Errorf("%s: the old identity is not kept: %q", test.part, was)
		}
	}
}

// TestStepAsideAfterPowerCuts: whatever step the power is cut at, the folder is as it was, or it is the new node's and the next start
// goes on with the move: there is no moment at which the old id stands beside a part of its state.
func TestStepAsideAfterPowerCuts(t *testing.T) {
	cut := errors.New("power cut")
	began := map[bool]int{}
	for _, part := range []damagedPart{partRaft, partManifest, partIdentity} {
		for step, done := 0, false; !done; step++ {
			for seed := range int64(4) {
				r := newAsideRig(t)
				next := r.next(r.before, &damage{part, errors.New("spoiled")}, time.Now())
				if part == partIdentity {
					next.Aside.History = historyMoved
				}
				left := step
				r.mem.SetHook(func(vfs.Op, string) error {
					if left--; left < 0 {
						return cut
					}
					return nil
				})
				err := r.begin(next)
				if err == nil {
					err = r.finish(next)
				}
				if done = err == nil; !done && !errors.Is(err, cut) {
					t.Fatal(err)
				}
				var rnd *rand.Rand // nil: exactly what was synced is there
				if seed > 0 {
					rnd = rand.New(rand.NewSource(seed))
				}
				r.use(r.mem.Crash(rnd))
				began[r.goOn(t, next, fmt.Sprintf("%s, step %d, seed %d", part, step, seed), rnd == nil)]++
			}
		}
	}
	if began[true] < 50 || began[false] < 5 {
		t.Errorf("%v", began)
	}
}

// goOn is what a start does after a power cut. exact: only what was synced is there, so nothing is lost.
func (r *asideRig) goOn(t *testing.T, next identity, at string, exact bool) (begun bool) {
	t.Helper()
	id, begun, err := r.pending()
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if begun {
		if id.NodeID != next.NodeID {
			t.Fatalf("%s: goes on as %s", at, id.NodeID)
		}
		if err := r.finish(id); err != nil {
			t.Fatalf("%s: %v", at, err)
		}
		r.wantDone(t, next, exact)
		return true
	}
	id, err = parseIdentity("identity.json", []byte(r.at(identityFile)))
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if id.NodeID == next.NodeID {
		r.wantDone(t, next, exact)
		return true
	}
	for name, content := range r.files {
		if r.at(name) != content {
			t.Fatalf("%s: the old id is in force and %s is gone", at, name)
		}
	}
	return false
}

// TestStepAsideUnreadable: a new identity that is spoiled before the move is over is not taken for none: that would be the old one's
// return.
func TestStepAsideUnreadable(t *testing.T) {
	r := newAsideRig(t)
	next := r.next(r.before, &damage{partRaft, errors.New("spoiled")}, time.Now())
	if err := r.begin(next); err != nil {
		t.Fatal(err)
	}
	b := bytes.Replace([]byte(r.at(nextFile)), []byte("node_id"), []byte("node_ie"), 1)
	r.mem.SetBytes("d/"+nextFile, b)
	if _, _, err := r.pending(); damageOf(err) == nil {
		t.Fatalf("taken as %v", err)
	}
}

// TestMayStepAside is the table at mayStepAside.
func TestMayStepAside(t *testing.T) {
	spoiled := damaged(partRaft, errors.New("spoiled"))
	two, one := map[string]string{"a": "", "b": ""}, map[string]string{"a": ""}
	for name, test := range map[string]struct {
		join []string
		id   identity
		err  error
		want bool
	}{
		"voter of three":            {nil, identity{Votes: true, Peers: two}, spoiled, true},
		"voter of two":              {[]string{"x:1"}, identity{Votes: true, Peers: one}, spoiled, false},
		"alone":                     {[]string{"x:1"}, identity{Votes: true}, spoiled, false},
		"replica":                   {nil, identity{Peers: one}, spoiled, true},
		"nothing known, joins":      {[]string{"self:7", "x:1"}, identity{}, spoiled, true},
		"nothing known, joins self": {[]string{"127.0.0.1:7", "self:7"}, identity{}, spoiled, false},
		"nothing known":             {nil, identity{}, spoiled, false},
		"not damage":                {nil, identity{Votes: true, Peers: two}, errors.New("disk full"), false},
		"newer":                     {nil, identity{Votes: true, Peers: two}, damaged(partSnapshot, fmt.Errorf("%w", errNewerVersion)), false},
		"not allowed":               {nil, identity{Votes: true, Peers: two}, damaged(partRaft, &fs.PathError{Err: fs.ErrPermission}), false},
		"missing":                   {nil, identity{Votes: true, Peers: two}, damaged(partRaft, &fs.PathError{Err: fs.ErrNotExist}), true},
	} {
		o := Options{DataDir: "d", GossipListen: "127.0.0.1:7", Advertise: "self", Join: test.join}.withDefaults()
		if got := mayStepAside(&o, &test.id, test.err); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
		if o.OnDamage = OnDamageRefuse; mayStepAside(&o, &test.id, test.err) {
			t.Errorf("%s: does what it was told not to do", name)
		}
	}
}
