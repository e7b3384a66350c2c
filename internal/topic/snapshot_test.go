package topic

import (
	"bufio"
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func encode(t fataler, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	if err := errors.Join(s.Encode(w), w.Flush()); err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b.Bytes()
}

func restore(data []byte, limit int) (*Table, error) {
	t := NewTable(limit)
	return t, t.Restore(bufio.NewReader(bytes.NewReader(data)))
}

// TestSnapshot grows a table at random, takes a snapshot somewhere, goes on, and holds what is restored against the table of that
// moment, and its further growth against the table's.
func TestSnapshot(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) string {
			name := drawName(r)
			if rapid.IntRange(0, 3).Draw(r, "short") == 0 {
				name = name[:min(len(name), 1+rapid.IntRange(0, 3).Draw(r, "cut"))] // a prefix that may become a topic late
			}
			return name
		}), 0, 60).Draw(r, "names")
		at := rapid.IntRange(0, len(steps)).Draw(r, "at")
		step := func(table *Table, i int) {
			if id, _, err := table.Intern([]byte(steps[i])); err == nil && i%3 != 0 {
				table.Add(id, uint64(i)*1e9, uint64(i), uint64(i)+1)
			}
		}
		table := NewTable(100)
		for i := range at {
			step(table, i)
		}
		if rapid.Bool().Draw(r, "digest before") {
			table.Digest()
		}
		want, s := table.Digest(), table.Capture()
		for i := at; i < len(steps); i++ {
			step(table, i)
		}
		if s.Digest() != want {
			r.Fatal("the snapshot's digest is not the table's")
		}
		data := encode(r, s)
		again, err := restore(data, rapid.SampledFrom([]int{1, 100}).Draw(r, "limit"))
		if err != nil {
			r.Fatal(err)
		}
		if again.Digest() != want {
			r.Fatal("the restored table's digest differs")
		}
		if !bytes.Equal(encode(r, again.Capture()), data) {
			r.Fatal("the restored table's snapshot differs")
		}
		again.SetMaxTopics(100)
		for i := at; i < len(steps); i++ {
			step(again, i)
		}
		sameTables(r, again, table)
	})
}

// sameTables compares all that the digest leaves out, too.
func sameTables(r *rapid.T, a, b *Table) {
	if a.Digest() != b.Digest() || a.Topics() != b.Topics() || a.Partitions() != b.Partitions() {
		r.Fatal("the tables differ after they went on")
	}
	for id := range ID(a.Nodes()) {
		if a.Parent(id) != b.Parent(id) || a.Depth(id) != b.Depth(id) || a.TopicsBelow(id) != b.TopicsBelow(id) ||
			!slices.Equal(slices.Collect(a.Children(id)), slices.Collect(b.Children(id))) {
			r.Fatalf("node %d differs", id)
		}
		if found, ok := a.Lookup(b.Name(id)); !ok || found != id {
			r.Fatalf("node %d is not found by its name", id)
		}
	}
	for p := range PartitionID(a.Partitions()) {
		if a.PartitionNode(p) != b.PartitionNode(p) {
			r.Fatalf("partition %d differs", p)
		}
	}
}

// TestRestoreRefuses takes snapshots that break one rule each.
func TestRestoreRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
	}{
		{"nothing", nil},
		{"no root", []byte{0, 0, 0, 0}},
		{"cut short", []byte{2, 1, 1, 0, 1, 1}},
		{"a parent after its child", []byte{2, 1, 1, 0, 2, 1, 'a', 1, 0, 0}},
		{"a node its own parent", []byte{2, 1, 1, 0, 0, 1, 'a', 1, 0, 0}},
		{"an invalid name", []byte{2, 1, 1, 0, 1, 1, '*', 1, 0, 0}},
		{"a name twice", []byte{3, 2, 2, 0, 1, 1, 'a', 1, 0, 0, 2, 1, 'a', 1, 0, 0}},
		{"more nodes than announced", []byte{2, 1, 1, 0, 1, 3, 'a', '/', 'b', 0, 1, 0, 0}},
		{"more topics than announced", []byte{2, 0, 1, 0, 1, 1, 'a', 1, 0, 0}},
		{"fewer partitions than announced", []byte{2, 1, 2, 0, 1, 1, 'a', 1, 0, 0}},
		{"a chain without a topic", []byte{2, 1, 1, 0, 1, 1, 'a', 0}},
		{"a late partition that never comes", []byte{3, 1, 1, 1, 9, 1, 1, 3, 'a', '/', 'b', 0, 1, 0, 0}},
		{"a late partition of no prefix", []byte{2, 1, 1, 1, 1, 1, 1, 1, 'a', 1, 0, 0}},
		{"a prefix that is a topic without a partition", []byte{3, 2, 1, 0, 1, 3, 'a', '/', 'b', 1, 0, 0, 1, 0, 0}},
		{"a number of 65 bits", bytes.Repeat([]byte{0xff}, 20)},
	} {
		if _, err := restore(c.data, 0); !errors.Is(err, ErrBadSnapshot) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	used := NewTable(0)
	mustIntern(t, used, "a")
	if err := used.Restore(bufio.NewReader(bytes.NewReader(nil))); err == nil {
		t.Error("a table that is in use was restored")
	}
}

// FuzzRestore: anything is refused, or gives a table whose snapshot restores to the same.
func FuzzRestore(f *testing.F) {
	table := NewTable(0)
	for i, name := range []string{"a/b/c", "a", "x/y", "x/z", "one", "a/b"} {
		id, _, err := table.Intern([]byte(name))
		if err != nil {
			f.Fatal(err)
		}
		table.Add(id, 300, 1<<40, uint64(i))
	}
	f.Add(encode(f, table.Capture()))
	f.Add([]byte{1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		table, err := restore(data, 0)
		if err != nil {
			if !errors.Is(err, ErrBadSnapshot) {
				t.Fatal(err)
			}
			return
		}
		again, err := restore(encode(t, table.Capture()), 0)
		if err != nil || again.Digest() != table.Digest() {
			t.Fatalf("what was restored does not restore: %v", err)
		}
	})
}

// BenchmarkSnapshot measures the three steps at a million topics.
func BenchmarkSnapshot(b *testing.B) {
	table := filledTable(b, realisticNames(million))
	table.Digest()
	b.Run("capture", func(b *testing.B) {
		for b.Loop() {
			table.Capture()
		}
	})
	s := table.Capture()
	data := encode(b, s)
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			w := bufio.NewWriter(discard{})
			if err := s.Encode(w); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data))/million, "B/topic")
	})
	b.Run("restore", func(b *testing.B) {
		for b.Loop() {
			if _, err := restore(data, 0); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("first-digest", func(b *testing.B) {
		var spent time.Duration
		for b.Loop() {
			again, err := restore(data, 0)
			if err != nil {
				b.Fatal(err)
			}
			start := time.Now()
			again.Digest()
			spent += time.Since(start)
		}
		b.ReportMetric(float64(spent.Milliseconds())/float64(b.N), "ms/digest")
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
