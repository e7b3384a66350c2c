package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/vfs"
)

// startCase is a log and a snapshot of another node that a node finds when it starts.
type startCase struct {
	name        string
	first, last uint64 // of the log; 0: empty
	term        uint64 // of its entries; the snapshot's is 3, its index 20
	overtaken   bool   // the identity says that the snapshot came from elsewhere
	hasLog      bool
	wiped       bool
	refused     string
}

var startCases = []startCase{
	{name: "no log yet"},
	{name: "log behind", first: 1, last: 19, term: 3, overtaken: true, hasLog: true, wiped: true},
	{name: "log far behind", first: 300, last: 900, term: 3, overtaken: true, hasLog: true, wiped: true},
	{name: "another end", first: 1, last: 25, term: 2, overtaken: true, hasLog: true, wiped: true},
	{name: "not behind", first: 1, last: 25, term: 3, overtaken: true, hasLog: true},
	{name: "right behind", first: 21, last: 25, term: 4, hasLog: true},
	{name: "own snapshot, log cut short", first: 1, last: 19, term: 3, hasLog: true, refused: "ends with entry 19"},
	{name: "own snapshot, another log", first: 1, last: 25, term: 2, hasLog: true, refused: "has another entry 20"},
	{name: "a gap", first: 22, last: 25, term: 3, hasLog: true, refused: "begins with entry 22"},
}

// startNode is as much of a node as decides from what it starts.
func startNode(t *testing.T, c startCase) (*Node, *raft.InmemStore) {
	t.Helper()
	dir := t.TempDir()
	f, err := openFolder(dir)
	mustDo(t, err)
	t.Cleanup(func() { mustDo(t, f.close()) })
	_, err = f.setCluster("c")
	mustDo(t, err)
	if c.hasLog {
		mustDo(t, f.setHasLog())
	}
	n := &Node{opts: Options{DataDir: dir}, log: hclog.NewNullLogger(), folder: f, snaps: openTestSnapshots(t, vfs.NewMem())}
	mustDo(t, take(n.snaps, 10))
	if c.overtaken {
		n.snaps.putting = f.setOvertaken
	}
	index := uint64(20)
	if c.first == 300 {
		index = 1000
	}
	mustDo(t, receive(n.snaps, index))
	logs := raft.NewInmemStore()
	for i := c.first; i <= c.last && c.last > 0; i++ {
		mustDo(t, logs.StoreLog(&raft.Log{Index: i, Term: c.term}))
	}
	return n, logs
}

func TestChooseStart(t *testing.T) {
	for _, c := range startCases {
		n, logs := startNode(t, c)
		_, err := n.chooseStart(logs)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		last, _ := logs.LastIndex()
		id := n.folder.identity()
		if err != nil || c.wiped != (last == 0 && c.last > 0) || id.HasLog != (c.hasLog && !c.wiped) {
			t.Errorf("%s: %v, the log ends with %d, %+v", c.name, err, last, id)
		}
		if (id.Overtaken != "") != c.wiped {
			t.Errorf("%s: overtaken by %q", c.name, id.Overtaken)
		}
		mustDo(t, n.folder.setHasLog())
		if id := n.folder.identity(); c.wiped && id.Overtaken != "" {
			t.Errorf("%s: entries came, and still overtaken by %q", c.name, id.Overtaken)
		}
	}
}

// cutStore fails after a number of deletions, as a crash would.
type cutStore struct {
	raft.LogStore
	left int
}

func (s *cutStore) DeleteRange(low, high uint64) error {
	if s.left--; s.left < 0 {
		return errPower
	}
	return s.LogStore.DeleteRange(low, high)
}

// TestWipeAfterCrash cuts the wiping of a log anywhere: the next start wipes the rest.
func TestWipeAfterCrash(t *testing.T) {
	for _, c := range startCases {
		for cut := 0; c.wiped; cut++ {
			n, logs := startNode(t, c)
			_, err := n.chooseStart(&cutStore{logs, cut})
			if err == nil {
				break
			}
			if !errors.Is(err, errPower) {
				t.Fatal(err)
			}
			_, err = n.chooseStart(logs)
			if last, _ := logs.LastIndex(); err != nil || last != 0 || n.folder.identity().HasLog {
				t.Errorf("%s cut at %d: %v, the log ends with %d", c.name, cut, err, last)
			}
		}
	}
}

// TestSnapshotLog: a wiped log answers for the entry that its snapshot ends with, and for no other.
func TestSnapshotLog(t *testing.T) {
	n, logs := startNode(t, startCases[0])
	wrapped, err := n.chooseStart(logs)
	mustDo(t, err)
	var l raft.Log
	if err := wrapped.GetLog(20, &l); err != nil || l.Index != 20 || l.Term != 3 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, i := range []uint64{0, 1, 19, 21} {
		if err := wrapped.GetLog(i, &l); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d: %v", i, err)
		}
	}
	mustDo(t, logs.StoreLog(&raft.Log{Index: 20, Term: 9}))
	if err := wrapped.GetLog(20, &l); err != nil || l.Term != 9 {
		t.Errorf("the log's own entry: %+v, %v", l, err)
	}
}

// TestChooseStartDamaged: with the newest snapshot damaged the one before must reach the log.
func TestChooseStartDamaged(t *testing.T) {
	for _, c := range []struct {
		first, last uint64
		damaged     []uint64
		refused     string
		from        uint64
	}{
		{first: 1, last: 25, damaged: []uint64{20}, from: 10},
		{first: 11, last: 25, damaged: []uint64{20}, from: 10},
		{first: 12, last: 25, damaged: []uint64{20}, refused: "does not go on behind s-3-10"},
		{first: 0, last: 0, damaged: []uint64{20}, refused: "does not go on behind s-3-10"},
		{first: 1, last: 25, damaged: []uint64{10}, from: 20},
		{first: 12, last: 25, damaged: []uint64{10}, from: 20},
		{first: 1, last: 25, damaged: []uint64{10, 20}, from: 0},
		{first: 11, last: 25, damaged: []uint64{10, 20}, refused: "snapshot s-3-20 cannot be used"},
		{first: 0, last: 0, damaged: []uint64{10, 20}, refused: "snapshot s-3-20 cannot be used"},
	} {
		n, logs := startNode(t, startCase{first: c.first, last: c.last, term: 3, hasLog: c.last > 0})
		for _, i := range c.damaged {
			flip(t, n.snaps.fs.(*vfs.Mem), fmt.Sprintf("s-3-%d.state", i), 50)
		}
		_, err := n.chooseStart(logs)
		m, ok := n.snaps.newest()
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), howToMend) {
				t.Errorf("%+v: %v", c, err)
			}
		case err != nil || ok != (c.from > 0) || ok && m.index != c.from:
			t.Errorf("%+v: %v, from %+v", c, err, m)
		}
	}
}

// TestChooseStartForeign: a snapshot of another cluster is refused whatever the log is, as a mistake of people and not as damage that a node steps aside
// for, and nothing is deleted.
func TestChooseStartForeign(t *testing.T) {
	for _, c := range startCases {
		n, logs := startNode(t, c)
		id := n.folder.identity()
		id.ClusterID = "another"
		mustDo(t, n.folder.store(id))
		before, snaps := logged(t, logs), len(n.snaps.snapshots())
		_, err := n.chooseStart(logs)
		if err == nil || !strings.Contains(err.Error(), `of cluster "another", but its snapshot s-3-`) || !strings.Contains(err.Error(), `of cluster "c"`) || damageOf(err) != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if after := logged(t, logs); after != before || len(n.snaps.snapshots()) != snaps || n.folder.identity().HasLog != c.hasLog {
			t.Errorf("%s: the log was %v and is %v, %d snapshots of %d are left", c.name, before, after, len(n.snaps.snapshots()), snaps)
		}
	}
}

// logged is the first and the last entry of a log.
func logged(t *testing.T, logs raft.LogStore) [2]uint64 {
	t.Helper()
	first, last, err := logBounds(logs)
	mustDo(t, err)
	return [2]uint64{first, last}
}

func TestLogCacheKeepsEndWhenBeginningGoes(t *testing.T) {
	c := newLogCache(raft.NewInmemStore(), 1<<20)
	var logs []*raft.Log
	for i := range uint64(20) {
		logs = append(logs, &raft.Log{Index: i + 1, Data: []byte("0123456789")})
	}
	mustDo(t, c.StoreLogs(logs))
	mustDo(t, c.DeleteRange(1, 7))
	if c.mu.first != 8 || c.mu.next != 21 || c.mu.bytes != 130 {
		t.Errorf("%d to %d, %d bytes", c.mu.first, c.mu.next, c.mu.bytes)
	}
	var l raft.Log
	for i := range uint64(21) {
		if err := c.GetLog(i, &l); (i >= 8) != (err == nil) || err == nil && l.Index != i {
			t.Errorf("entry %d: %v, %+v", i, err, l)
		}
	}
	mustDo(t, c.DeleteRange(15, 20))
	mustDo(t, c.StoreLogs([]*raft.Log{{Index: 15, Term: 9}}))
	if err := c.GetLog(15, &l); err != nil || l.Term != 9 {
		t.Errorf("%+v, %v", l, err)
	}
	if err := c.GetLog(14, &l); err != nil || l.Index != 14 {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestLogSizes(t *testing.T) {
	var s logSizes
	if from := s.keepFrom(1); from != 0 {
		t.Errorf("of nothing, keep from %d", from)
	}
	store := func(from, to uint64) {
		for i := from; i <= to; i++ {
			s.stored([]*raft.Log{{Index: i, Data: make([]byte, 10)}})
		}
	}
	store(1000, 1999)
	for keep, want := range map[int64]uint64{1: 1984, 160: 1984, 161: 1920, 5000: 1472, 10_000: 960, 10_001: 0} {
		if from := s.keepFrom(keep); from != want {
			t.Errorf("to keep %d bytes, from %d, want %d", keep, from, want)
		}
	}
	s.deleted(1000, 1500)
	if known := s.known(); known < 10*499 || known > 10*(499+sizeBlock) {
		t.Errorf("%d bytes", known)
	}
	before := s.known()
	s.deleted(1600, 1999)
	store(1600, 1999)
	if known := s.known(); known < before || known > before+10*sizeBlock {
		t.Errorf("%d bytes, before the end was written again %d", known, before)
	}
	numbers := []uint64{}
	for _, b := range s.mu.blocks {
		numbers = append(numbers, b.number)
	}
	if !slices.IsSorted(numbers) || len(slices.Compact(numbers)) != len(numbers) {
		t.Errorf("%v", numbers)
	}
}
