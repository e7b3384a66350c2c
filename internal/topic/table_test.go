package topic

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestNewTableHoldsTheRoot(t *testing.T) {
	table := NewTable(0)
	id, ok := table.Lookup("")
	if !ok || id != Root || table.Nodes() != 1 || table.Name(Root) != "" || table.Partition(Root) != NoPartition {
		t.Errorf("root: %d %v, %d nodes, partition %d", id, ok, table.Nodes(), table.Partition(Root))
	}
	if table.MaxTopics() != DefaultMaxTopics || NewTable(1<<40).MaxTopics() != LimitMaxTopics {
		t.Error("limits are not clamped")
	}
}

func TestInternRefusesBadNames(t *testing.T) {
	table := NewTable(10)
	name := []byte("a//b")
	_, _, err := table.Intern(name)
	copy(name, "XXXX")
	var e *Error
	if !errors.As(err, &e) || e.Name != "a//b" {
		t.Errorf("got %v, want an *Error that keeps the name", err)
	}
	if _, _, err := table.Intern(nil); err == nil {
		t.Error("the empty name was taken")
	}
	if table.Nodes() != 1 || table.Topics() != 0 {
		t.Error("a refused name left nodes")
	}
}

func TestInternAtTheTopicLimit(t *testing.T) {
	table := NewTable(2)
	mustIntern(t, table, "a/b/c")
	mustIntern(t, table, "d")
	before := table.Digest()
	for _, name := range []string{"e", "a", "a/b", "d/x"} {
		_, created, err := table.Intern([]byte(name))
		if !errors.Is(err, ErrTooMany) || created {
			t.Errorf("Intern(%q) = %v, want ErrTooMany", name, err)
		}
	}
	if table.Digest() != before {
		t.Error("a refused topic changed the table")
	}
	if _, created, err := table.Intern([]byte("a/b/c")); created || err != nil {
		t.Errorf("an old topic at the limit: %v %v", created, err)
	}
}

// TestInternAtTheNodeLimit fills a table with deep topics that share nothing.
func TestInternAtTheNodeLimit(t *testing.T) {
	table := NewTable(1000)
	var err error
	made := 0
	for ; err == nil; made++ {
		_, _, err = table.Intern([]byte(fmt.Sprint(made) + strings.Repeat("/x", MaxSegments-1)))
	}
	if !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "nodes") {
		t.Fatalf("got %v, want ErrTooMany for nodes", err)
	}
	if nodes := table.Nodes(); nodes > 1000*nodesPerTopic+spareNodes || nodes < 1000*nodesPerTopic {
		t.Errorf("%d nodes", nodes)
	}
	mustIntern(t, table, "0/x")
}

// TestLongNames makes names cross the arena's chunks.
func TestLongNames(t *testing.T) {
	table := NewTable(3000)
	name := func(i int) string {
		s := fmt.Sprintf("%d/", i)
		return s + strings.Repeat("n", MaxBytes-len(s)-i%7)
	}
	for i := range 3000 {
		mustIntern(t, table, name(i))
	}
	for i := range 3000 {
		if id, ok := table.Lookup(name(i)); !ok || table.Name(id) != name(i) {
			t.Fatalf("topic %d: %v %q", i, ok, table.Name(id))
		}
	}
}

// TestNamesAtTheEndOfAChunk: a name fits exactly, or goes to the next chunk whole.
func TestNamesAtTheEndOfAChunk(t *testing.T) {
	for n := 1; n <= 40; n++ {
		table := NewTable(3000)
		table.names.end = arenaChunkBytes - 20
		table.names.dir[0].Store(new([arenaChunkBytes]byte))
		name := strings.Repeat("x", n)
		id := mustIntern(t, table, name)
		if after := mustIntern(t, table, "after"); table.Name(id) != name || table.Name(after) != "after" {
			t.Errorf("%d bytes: %q, then %q", n, table.Name(id), table.Name(after))
		}
		if moved := table.row(id).name >= arenaChunkBytes; moved != (n > 20) {
			t.Errorf("%d bytes with room for 20: moved %v", n, moved)
		}
	}
}

// TestArenaLimit: the refusal comes before any change.
func TestArenaLimit(t *testing.T) {
	table := NewTable(1000)
	table.names.end = uint64(len(table.names.dir))<<arenaChunkBits - 100
	mustIntern(t, table, strings.Repeat("x", 100))
	before := table.Digest()
	if _, _, err := table.Intern([]byte("y")); !errors.Is(err, ErrTooMany) || table.Digest() != before {
		t.Errorf("got %v, want ErrTooMany", err)
	}
}

// TestIndexTellsEqualHashesApart puts entries with one hash side by side.
func TestIndexTellsEqualHashesApart(t *testing.T) {
	table := NewTable(100)
	names := make([]string, 50)
	x := index{seed: table.index.seed}
	const hash = ^uint64(0) // the last place of its shard, so that probing wraps around
	for i := range names {
		names[i] = fmt.Sprintf("t%d", i)
		x.put(hash, mustIntern(t, table, names[i]))
	}
	for n := range x.shards {
		table.index.shards[n].Store(x.shards[n].Load())
	}
	for _, name := range names {
		if id, ok := table.find(name, hash); !ok || table.Name(id) != name {
			t.Errorf("%q found as %d %v", name, id, ok)
		}
	}
	if _, ok := table.find("none", hash); ok {
		t.Error("found what is not there")
	}
}

// TestNoInternTakesMuchAtOnce bounds the memory, and so the time, of the growth that one Intern may cause.
func TestNoInternTakesMuchAtOnce(t *testing.T) {
	const limit = 2 * 256 << 10 // a chunk of rows and one of names; shards and partition chunks are smaller
	table := NewTable(0)
	worst := int64(0)
	for i, name := range realisticNames(300_000) {
		before := table.MemoryBytes()
		mustIntern(t, table, string(name))
		if grown := table.MemoryBytes() - before; i > 0 {
			worst = max(worst, grown)
		}
	}
	if worst > limit+64<<10 {
		t.Errorf("one Intern took %d bytes", worst)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	table := NewTable(0)
	name := []byte("app/codestore/commits")
	id := mustIntern(t, table, string(name))
	m := NewMatcher(table, mustFilters(t, "app/**", "b", "c", "d", "e/**", "f"))
	m.Match(id)
	for op, f := range map[string]func(){
		"LookupBytes": func() { table.LookupBytes(name) },
		"Name":        func() { table.Name(id) },
		"Intern":      func() { _, _, _ = table.Intern(name) },
		"Validate":    func() { _ = ValidateBytes(name) },
		"Add":         func() { table.Add(id, 1, 1, 1) },
		"Partition":   func() { table.Partition(id) },
		"Match":       func() { m.Match(id) },
		"Children": func() {
			for range table.Children(Root) {
				continue
			}
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", op, n)
		}
	}
}

func TestDigest(t *testing.T) {
	build := func(names ...string) *Table {
		table := NewTable(100)
		for _, name := range names {
			table.Add(mustIntern(t, table, name), 1, 2, 3)
		}
		return table
	}
	base := build("a/b/c", "x")
	if base.Digest() != build("a/b/c", "x").Digest() {
		t.Error("equal tables have different digests")
	}
	grown := build("a/b/c")
	grown.Digest() // the running hash of names goes on from here
	grown.Add(mustIntern(t, grown, "x"), 1, 2, 3)
	if grown.Digest() != base.Digest() {
		t.Error("an earlier digest changed a later one")
	}
	others := map[string]*Table{
		"order":     build("x", "a/b/c"),
		"topic":     build("a/b/c", "x", "a/b"),
		"name":      build("a/b/d", "x"),
		"promotion": NewTable(100),
		"messages":  build("a/b/c", "x"), "bytes": build("a/b/c", "x"), "last seq": build("a/b/c", "x"),
	}
	mustIntern(t, others["promotion"], "a/b/c") // same nodes, but no counts
	mustIntern(t, others["promotion"], "x")
	id, _ := base.Lookup("x")
	others["messages"].Add(id, 1, 0, 3)
	others["bytes"].Add(id, 0, 1, 3)
	others["last seq"].Add(id, 0, 0, 4)
	for what, other := range others {
		if got, want := other.Digest(), base.Digest(); bytes.Equal(got[:], want[:]) {
			t.Errorf("a difference in %s does not show", what)
		}
	}
}

// TestPartitionOfPromotedNode: a one-segment node gets its partition when it becomes a topic, and not before.
func TestPartitionOfPromotedNode(t *testing.T) {
	table := NewTable(100)
	leaf := mustIntern(t, table, "a/b/c")
	a, _ := table.Lookup("a")
	if table.Partition(a) != NoPartition || table.Partition(leaf) != 0 || table.Partitions() != 1 {
		t.Fatalf("before: partitions %d and %d of %d", table.Partition(a), table.Partition(leaf), table.Partitions())
	}
	if again := mustIntern(t, table, "a"); again != a || table.Partition(a) != 1 || table.PartitionNode(1) != a {
		t.Errorf("after: node %d, partition %d", again, table.Partition(a))
	}
	if b := mustIntern(t, table, "a/b"); table.Partition(b) != 0 || table.Partitions() != 2 {
		t.Errorf("a/b is in partition %d of %d", table.Partition(b), table.Partitions())
	}
}
