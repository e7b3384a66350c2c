package topic

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestReadersBesideTheWriter checks, while topics are made, that whatever a count covers is complete and can be found.
// The race detector watches the rest.
func TestReadersBesideTheWriter(t *testing.T) {
	const topics = 20_000
	table := NewTable(2 * topics)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for _, read := range []func(*testing.T, *Table) bool{readNodes, readPartitions(topics), readSubtree(), readLists} {
		readers.Go(func() {
			for ok := true; ok; {
				select {
				case <-done:
					read(t, table)
					return
				default:
					ok = read(t, table)
				}
			}
		})
	}
	for i := range topics {
		table.Add(mustIntern(t, table, concurrentName(i)), 1, 10, uint64(i+1))
		if i%7 == 0 {
			mustIntern(t, table, PartitionOf(concurrentName(i)))
		}
	}
	close(done)
	readers.Wait()
}

// concurrentName i is the first topic of partition i.
func concurrentName(i int) string { return fmt.Sprintf("group-%d/p%d/leaf", i%10, i) }

func readNodes(t *testing.T, table *Table) bool {
	n := table.Nodes()
	for id := ID(n - 1); id >= ID(max(1, n-50)); id-- { // the youngest first: its Intern may be under way
		name := table.Name(id)
		if found, ok := table.Lookup(name); !ok || found != id || Validate(name) != nil {
			t.Errorf("node %d %q is found as %d %v", id, name, found, ok)
			return false
		}
		parent := table.Parent(id)
		if parent >= id || table.Depth(parent)+1 != table.Depth(id) {
			t.Errorf("node %d has parent %d", id, parent)
			return false
		}
		if c := ID(table.row(parent).first.Load()); c < id {
			t.Errorf("node %d is not among the children of %d", id, parent)
			return false
		}
	}
	return true
}

func readPartitions(topics int) func(*testing.T, *Table) bool {
	return func(t *testing.T, table *Table) bool {
		last := table.Partitions() - 1
		if last < 0 {
			return true
		}
		want := strings.TrimSuffix(concurrentName(last), "/leaf")
		id, ok := table.Lookup(want)
		if !ok || table.Partition(id) != PartitionID(last) || table.PartitionNode(PartitionID(last)) != id {
			t.Errorf("partition %d: %q is node %d %v", last, want, id, ok)
			return false
		}
		return last < topics
	}
}

// readSubtree follows one group as a subscription does, and never misses or repeats a partition.
func readSubtree() func(*testing.T, *Table) bool {
	var m *Matcher
	var parts []PartitionID
	from := 0
	return func(t *testing.T, table *Table) bool {
		if m == nil {
			m = NewMatcher(table, mustFilters(t, "group-3/**"))
		}
		parts, from = m.Partitions(parts, from)
		want := 0
		if from > 3 {
			want = (from-4)/10 + 1
		}
		if len(parts) != want {
			t.Errorf("%d partitions of the first %d, want %d", len(parts), from, want)
			return false
		}
		n := table.Nodes()
		for id := ID(max(1, n-50)); id < ID(n); id++ {
			if m.Match(id) != strings.HasPrefix(table.Name(id)+"/", "group-3/") {
				t.Errorf("Match(%q) = %v", table.Name(id), m.Match(id))
				return false
			}
		}
		return true
	}
}

func readLists(t *testing.T, table *Table) bool {
	before := table.Topics()
	page, total := table.List(ListOptions{Sort: SortRecent, Limit: 5})
	after := table.Topics()
	if total < before || total > after+1 || len(page) != min(5, total) {
		t.Errorf("%d topics in a list, %d before and %d after", total, before, after)
		return false
	}
	for i := 1; i < len(page); i++ {
		if page[i-1].LastSeq < page[i].LastSeq {
			t.Errorf("rows %d and %d are out of order", i-1, i)
			return false
		}
	}
	_, groups := table.List(ListOptions{Depth: 1})
	return groups <= 10
}
