package cluster_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// rejoining is withSnapshots on nodes that step aside when their files are damaged.
func rejoining(i int, o *cluster.Options) {
	withSnapshots(i, o)
	o.OnDamage = cluster.OnDamageRejoin
}

// wantBack waits until a member has stepped aside, votes under a new id in the place of the old, has every message, and is known to have stepped aside.
func (h *chronicle) wantBack(m *clustertest.Member, old string) *cluster.AsideStatus {
	h.t.Helper()
	s := m.Status(testContext(h.t))
	if s.Aside == nil || m.NodeID() == old || s.Aside.Was != old && s.Aside.Part != "identity" {
		h.t.Fatalf("node %s, before %s, stepped aside: %+v", m.NodeID(), old, s.Aside)
	}
	cluster := h.c.Leader().ClusterID()
	h.c.Eventually(fmt.Sprintf("node %d to vote under its new id, and the leader to tell that it stepped aside", m.Index), func() bool {
		voters, self, told := 0, false, false
		for _, n := range h.c.Leader().Status(testContext(h.t)).Nodes {
			if n.Role == "leader" || n.Role == "follower" {
				voters++
				self = self || n.ID == m.NodeID()
			}
			told = told || n.ID == m.NodeID() && n.Aside != nil && n.Aside.Part == s.Aside.Part && n.Aside.Folder == s.Aside.Folder
		}
		return self && told && voters == len(h.c.Members)
	})
	if m.ClusterID() != cluster {
		h.t.Errorf("the node is of cluster %s, not %s", m.ClusterID(), cluster)
	}
	h.check(m, 5)
	return s.Aside
}

// wantPeers waits until a member has noted that it votes, beside so many others.
func wantPeers(c *clustertest.Cluster, m *clustertest.Member, n int) {
	c.T.Helper()
	c.Eventually(fmt.Sprintf("node %d to note that it votes beside %d others", m.Index, n), func() bool {
		var id struct {
			Votes bool
			Peers map[string]string
		}
		b, err := os.ReadFile(filepath.Join(m.Dir, "identity.json"))
		return err == nil && json.Unmarshal(b, &id) == nil && id.Votes && len(id.Peers) == n
	})
}

// spoilFileBy changes a node's file in its place, for bolt maps it; nil from the spoiling: the file is removed.
func spoilFileBy(t *testing.T, path string, spoil func(b []byte) []byte) {
	t.Helper()
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bad := spoil(bytes.Clone(good))
	if bad == nil {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = f.Truncate(int64(len(bad)))
	}
	for i := range bad {
		if err == nil && bad[i] != good[i] {
			_, err = f.WriteAt(bad[i:i+1], int64(i))
		}
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// used is what of a file is in use: bolt's are longer.
func used(b []byte) []byte { return bytes.TrimRight(b, "\x00") }

func flipMiddle(b []byte) []byte { b[len(used(b))/2] ^= 16; return b }

func cutHalf(b []byte) []byte { return b[:len(used(b))/2] }

// flipMeta flips a bit of the page that says what bolt committed last: the one before would be taken, without the last commit.
func flipMeta(b []byte) []byte {
	newest := 0
	if le := binary.LittleEndian; le.Uint64(b[os.Getpagesize()+64:]) > le.Uint64(b[64:]) {
		newest = os.Getpagesize()
	}
	b[newest+50] ^= 1
	return b
}

// flipEntry flips a bit in the last entry of a log.
func flipEntry(b []byte) []byte {
	f, err := os.CreateTemp("", "log")
	if err == nil {
		defer os.Remove(f.Name())
		_, err = f.Write(b)
	}
	var last []byte
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		var db *bbolt.DB
		if db, err = bbolt.Open(f.Name(), 0o600, &bbolt.Options{ReadOnly: true}); err == nil {
			err = db.View(func(tx *bbolt.Tx) error {
				_, v := tx.Bucket([]byte("logs")).Cursor().Last()
				last = bytes.Clone(v)
				return nil
			})
			_ = db.Close()
		}
	}
	if err != nil {
		panic(err)
	}
	for at := 0; ; { // also in pages that are not in use any more
		i := bytes.Index(b[at:], last)
		if i < 0 {
			return b
		}
		b[at+i+len(last)/2] ^= 8
		at += i + len(last)
	}
}

func remove([]byte) []byte { return nil }

// TestDamagedNodeComesBack: one bit of each kind of file that a node needs to start, flipped on one of three, stopped or running, with and
// without the others' logs reaching back. Nothing that was acknowledged is lost; the node does not lead again with the damage, but steps
// aside and ends as a voter with every message, equal to the others by digest and by the hashes of its files, of which it has
// fetched none that it had.
func TestDamagedNodeComesBack(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: rejoining})
	h := newChronicle(t, c, 31)
	h.publish(40)
	for _, test := range []struct {
		file    string // a pattern
		spoil   func([]byte) []byte
		part    string
		names   string // the file, in the reason
		running bool   // and it leads then
		behind  bool
	}{
		{file: "raft/log.db", spoil: flipEntry, part: "raft", running: true},
		{file: "raft/stable.db", spoil: flipMeta, part: "raft", names: "stable.db"},
		{file: "identity.json", spoil: flipMiddle, part: "identity", names: "identity.json", behind: true},
		{file: "history/MANIFEST", spoil: flipMiddle, part: "history manifest", names: "MANIFEST", behind: true},
		{file: "snapshots/*.state", spoil: flipMiddle, part: "snapshot", names: "its state file"},
	} {
		if testing.Short() && !test.running && test.part != "history manifest" {
			continue // each costs seconds of waiting
		}
		m := c.Followers()[0]
		if test.running {
			m = c.Leader()
		}
		for range 3 {
			h.publish(10)
			h.snapshot(m)
		}
		old := m.NodeID()
		wantPeers(c, m, 2)
		t.Logf("%s of node %d", test.file, m.Index)
		if test.running {
			h.spoilRunning(m, test.file, test.spoil)
		} else {
			c.Close(m)
			h.spoil(m, test.file, test.spoil)
		}
		if test.behind {
			h.leaveBehind()
		}
		before := historyOf(t, m.Dir)
		c.Restart(m)
		if a := h.wantBack(m, old); a.Part != test.part || strings.Contains(a.Reason, "running") != test.running {
			t.Errorf("%s: %s", test.file, a)
		} else if !test.running && !strings.Contains(a.Reason, test.names) {
			t.Errorf("%s: the reason does not name the file: %s", test.file, a)
		}
		h.wantEqualFiles()
		if test.behind {
			wantKept(t, before, historyOf(t, m.Dir))
		}
	}
}

// spoilRunning flips a bit of the last entry of a leader that runs. It goes on, and what is acknowledged lies on a majority, until it reads the
// entry: then it leads no more, and the next start knows, even if it does not read the entry.
func (h *chronicle) spoilRunning(m *clustertest.Member, file string, spoil func([]byte) []byte) {
	h.t.Helper()
	last := cluster.LastIndex(m.Node)
	h.spoil(m, file, spoil)
	h.publish(10)
	if err := cluster.ReadLog(m.Node, last); err == nil {
		h.t.Fatal("the damaged entry is read")
	}
	<-m.Failed()
	if !errors.Is(m.Err(), cluster.ErrDamaged) {
		h.t.Errorf("it failed of %v", m.Err())
	}
	h.c.Crash(m)
	h.publish(10)
}

func (h *chronicle) spoil(m *clustertest.Member, pattern string, spoil func([]byte) []byte) {
	h.t.Helper()
	paths, err := filepath.Glob(filepath.Join(m.Dir, pattern))
	if err != nil || len(paths) == 0 {
		h.t.Fatalf("no %s: %v", pattern, err)
	}
	for _, path := range paths {
		spoilFileBy(h.t, path, spoil)
	}
}

// historyOf are a node's files of history by name.
func historyOf(t *testing.T, dir string) map[string]os.FileInfo {
	t.Helper()
	files := map[string]os.FileInfo{}
	paths, err := filepath.Glob(filepath.Join(dir, "history", "*.cnts"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no history in %s: %v", dir, err)
	}
	for _, path := range paths {
		if files[filepath.Base(path)], err = os.Stat(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// wantKept: the files that were there are the same, not others with the same bytes.
func wantKept(t *testing.T, before, after map[string]os.FileInfo) {
	t.Helper()
	for name, was := range before {
		if is := after[name]; is != nil && !os.SameFile(was, is) {
			t.Errorf("%s was fetched or written again", name)
		}
	}
}

// TestSpoiledFilesOfAVoter: each kind of file that a voter of three needs to start, spoiled in each way. It starts with all of its log under
// its id, or without it under another one and says so, with what was damaged beside; it does not refuse.
func TestSpoiledFilesOfAVoter(t *testing.T) {
	if testing.Short() {
		t.Skip("opens a node for each of 50 spoilings")
	}
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: rejoining})
	h := newChronicle(t, c, 34)
	h.publish(30)
	m := c.Followers()[0]
	h.snapshot(m)
	h.publish(10)
	wantPeers(c, m, 2)
	old := m.NodeID()
	c.Close(m)
	last, asides := c.Leader().Status(testContext(t)).CommitIndex, 0
	c.Stop()
	for _, file := range []string{"identity.json", "raft/log.db", "raft/stable.db", "history/MANIFEST"} {
		good, err := os.ReadFile(filepath.Join(m.Dir, file))
		if err != nil {
			t.Fatal(err)
		}
		list := spoilings(len(used(good)))
		list["removed"] = remove
		maps.DeleteFunc(list, func(name string, _ func([]byte) []byte) bool {
			return strings.Contains(name, "of byte") && rand.IntN(10) > 0
		})
		for name, spoil := range list {
			o := clustertest.Defaults(t.TempDir())
			rejoining(0, &o)
			o.Join, o.HeartbeatTimeout, o.ElectionTimeout = []string{"127.0.0.1:1"}, 0, 0
			if err := os.CopyFS(o.DataDir, os.DirFS(m.Dir)); err != nil {
				t.Fatal(err)
			}
			spoilFileBy(t, filepath.Join(o.DataDir, file), spoil)
			n, err := cluster.Open(o)
			if err != nil {
				t.Errorf("%s, %s: %v", file, name, err)
				continue
			}
			s := n.Status(testContext(t))
			switch at := cluster.LastIndex(n); {
			case s.Aside == nil && (at+1 < last || s.NodeID != old):
				t.Errorf("%s, %s: the node came up with entry %d, it had up to %d", file, name, at, last)
			case s.Aside == nil:
			case at != 0 || n.Ready() == nil || !strings.Contains(n.Ready().Error(), "waits"):
				t.Errorf("%s, %s: stepped aside with entry %d: %v", file, name, at, n.Ready())
			default:
				asides++
			}
			if err := n.Crash(); err != nil {
				t.Error(err)
			}
		}
	}
	if asides < 25 {
		t.Errorf("only %d of the spoilings were noticed", asides)
	}
}

// TestAllDamaged: with no node left that knows anything, nothing is made anew: each says what it waits for.
func TestAllDamaged(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: func(i int, o *cluster.Options) { rejoining(i, o); o.BootstrapExpect = 3 }})
	h := newChronicle(t, c, 32)
	h.publish(20)
	for _, m := range c.Members {
		c.Close(m)
		spoilFileBy(t, filepath.Join(m.Dir, "identity.json"), flipMiddle)
	}
	for _, m := range c.Members {
		c.Restart(m)
	}
	c.Eventually("the nodes to see each other", func() bool {
		for _, m := range c.Members {
			if len(m.Status(testContext(t)).Nodes) < 3 {
				return false
			}
		}
		return true
	})
	for _, m := range c.Members {
		cluster.Housekeep(m.Node, 20)
		s := m.Status(testContext(t))
		if m.Stream().Machine().LastSeq() != 0 || s.Leader != "" || s.CommitIndex != 0 {
			t.Fatalf("a new cluster was made: %+v", s)
		}
		if err := m.Ready(); err == nil || !strings.Contains(err.Error(), "never starts a cluster") {
			t.Errorf("node %d does not say what it waits for: %v", m.Index, err)
		}
		if s.Aside == nil {
			t.Errorf("%+v", s)
		}
		log, err := os.ReadFile(filepath.Join(s.Aside.Folder, "raft", "log.db"))
		if err != nil || len(log) == 0 {
			t.Errorf("the log is not kept: %v", err)
		}
	}
}

// TestTwoOfThreeDamaged: what only they had might have been acknowledged, so the third does not go on alone; each says what it waits for.
// With one of them back as it was, all is back, and the other is taken in.
func TestTwoOfThreeDamaged(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 3, clustertest.Options{Configure: rejoining})
	h := newChronicle(t, c, 35)
	h.publish(20)
	copyOf := t.TempDir()
	for _, m := range c.Members {
		wantPeers(c, m, 2)
	}
	for _, m := range c.Members {
		c.Crash(m)
	}
	a, b, whole := c.Members[0], c.Members[1], c.Members[2]
	if err := os.CopyFS(copyOf, os.DirFS(a.Dir)); err != nil {
		t.Fatal(err)
	}
	h.spoil(a, "raft/log.db", flipEntry)
	h.spoil(b, "raft/stable.db", flipMeta)
	for _, m := range c.Members {
		c.Restart(m)
	}
	c.Eventually("the nodes to see each other", func() bool { return len(whole.Status(testContext(t)).Nodes) == 5 })
	for _, m := range []*clustertest.Member{a, b} {
		if err := m.Ready(); err == nil || !strings.Contains(err.Error(), "majority of the voters from before") {
			t.Errorf("node %d does not say what it waits for: %v", m.Index, err)
		}
	}
	if s := whole.Status(testContext(t)); s.Leader != "" || !strings.Contains(strings.Join(s.Problems, "; "), "no quorum") {
		t.Errorf("%+v", s)
	}
	c.Close(a)
	if err := errors.Join(os.RemoveAll(a.Dir), os.CopyFS(a.Dir, os.DirFS(copyOf))); err != nil {
		t.Fatal(err)
	}
	c.Restart(a)
	c.Eventually("the other to be taken in", func() bool { return votes(roleOf(t, c.Leader(), b)) })
	for _, m := range c.Members {
		h.check(m, 5)
	}
	h.publish(10)
	h.wantEqualFiles()
}

// TestDamageIsRefused: by a node that is told to, by one without others, by one of two, and where it is not damage.
func TestDamageIsRefused(t *testing.T) {
	t.Parallel()
	c := clustertest.Start(t, 1, clustertest.Options{Configure: rejoining})
	newChronicle(t, c, 33).publish(10)
	m := c.Members[0]
	wantPeers(c, m, 0)
	c.Close(m)
	for name, test := range map[string]struct {
		file  string
		spoil func([]byte) []byte
		o     func(o *cluster.Options)
		want  string
	}{
		"alone":          {"raft/log.db", cutHalf, func(o *cluster.Options) { o.Join = []string{"127.0.0.1:1"} }, "empty the folder"},
		"alone, no join": {"identity.json", cutHalf, func(o *cluster.Options) {}, "empty the folder"},
		"joins itself": {"identity.json", cutHalf, func(o *cluster.Options) {
			o.GossipListen, o.Join = "127.0.0.1:4793", []string{"127.0.0.1:4793"}
		}, "empty the folder"},
		"told to": {"identity.json", cutHalf, func(o *cluster.Options) {
			o.Join, o.OnDamage = []string{"127.0.0.1:1"}, cluster.OnDamageRefuse
		}, "empty the folder"},
		"newer": {"identity.json", func([]byte) []byte { return []byte(`{"format":2,"node_id":"new"}`) }, func(o *cluster.Options) {
			o.Join = []string{"127.0.0.1:1"}
		}, "newer version"},
		"foreign": {"identity.json", func(b []byte) []byte {
			return []byte(`{"format":1,"node_id":"5d4a3c61-6b0f-4f0e-9a53-0d0f4c9f7a11"}`)
		}, func(o *cluster.Options) { o.Join = []string{"127.0.0.1:1"} }, "no cluster id"},
		"not readable": {"raft/log.db", remove, func(o *cluster.Options) {
			o.Join = []string{"127.0.0.1:1"}
			if err := os.Mkdir(filepath.Join(o.DataDir, "raft", "log.db"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "is a directory"},
	} {
		o := clustertest.Defaults(t.TempDir())
		rejoining(0, &o)
		if err := os.CopyFS(o.DataDir, os.DirFS(m.Dir)); err != nil {
			t.Fatal(err)
		}
		spoilFileBy(t, filepath.Join(o.DataDir, test.file), test.spoil)
		test.o(&o)
		n, err := cluster.Open(o)
		if err == nil {
			err = errors.Join(errors.New("the node came up"), n.Close())
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if left, _ := filepath.Glob(filepath.Join(o.DataDir, "damaged-*")); len(left) > 0 {
			t.Errorf("%s: %v was made", name, left)
		}
	}
}
