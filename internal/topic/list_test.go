package topic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// slowList is List by its definition over the public methods.
func slowList(t *Table, o ListOptions) []Volume {
	filter, base := "**", 0
	if o.Filter != (Filter{}) {
		filter, base = o.Filter.String(), segments(o.Filter.Path())
	}
	depth := o.Depth
	if !strings.HasSuffix(filter, "**") {
		depth = 0
	}
	var rows []Volume
	for id := ID(1); id < ID(t.Nodes()); id++ {
		name := t.Name(id)
		if !slowMatch(filter, name) || depth == 0 && !t.IsTopic(id) || depth > 0 && segments(name) != base+depth {
			continue
		}
		v := Volume{ID: id, Topic: name, IsTopic: t.IsTopic(id)}
		for below := id; below < ID(t.Nodes()); below++ {
			if !slowMatch(name+"/**", t.Name(below)) {
				continue
			}
			if t.Parent(below) == id {
				v.Children++
			}
			if t.IsTopic(below) {
				v.Topics++
			}
			if depth > 0 || below == id {
				m, b, s := t.Stats(below)
				v.Messages, v.Bytes, v.LastSeq = v.Messages+m, v.Bytes+b, max(v.LastSeq, s)
			}
		}
		rows = append(rows, v)
	}
	slices.SortFunc(rows, func(a, b Volume) int {
		switch o.Sort {
		case SortBytes:
			return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.ID, b.ID))
		case SortMessages:
			return cmp.Or(cmp.Compare(b.Messages, a.Messages), cmp.Compare(a.ID, b.ID))
		case SortRecent:
			return cmp.Or(cmp.Compare(b.LastSeq, a.LastSeq), cmp.Compare(a.ID, b.ID))
		}
		return strings.Compare(a.Topic, b.Topic)
	})
	return rows
}

func slowPage(rows []Volume, offset, limit int) []Volume {
	rows = rows[min(max(offset, 0), len(rows)):]
	if limit > 0 {
		rows = rows[:min(limit, len(rows))]
	}
	return rows
}

func drawTable(t *rapid.T) *Table {
	table := NewTable(1000)
	for i, name := range rapid.SliceOfN(rapid.Custom(drawName), 0, 40).Draw(t, "names") {
		table.Add(mustIntern(t, table, name), rapid.Uint64Range(0, 3).Draw(t, "messages"), uint64(i%5), uint64(i+1))
	}
	return table
}

func drawOptions(t *rapid.T) ListOptions {
	o := ListOptions{
		Depth:  rapid.IntRange(0, 3).Draw(t, "depth"),
		Sort:   rapid.SampledFrom([]string{"", SortName, SortBytes, SortMessages, SortRecent, "rate"}).Draw(t, "sort"),
		Offset: rapid.IntRange(-1, 10).Draw(t, "offset"),
		Limit:  rapid.IntRange(-1, 10).Draw(t, "limit"),
	}
	if rapid.Bool().Draw(t, "filtered") {
		o.Filter = mustFilters(t, drawFilters(t)[0])[0]
	}
	return o
}

func TestListAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, o := drawTable(t), drawOptions(t)
		rows := slowList(table, o)
		want := fmt.Sprintf("%d %+v", len(rows), slowPage(rows, o.Offset, o.Limit))
		page, total := table.List(o)
		if got := fmt.Sprintf("%d %+v", total, page); got != want {
			t.Fatalf("List(%+v):\n got %s\nwant %s", o, got, want)
		}
		for way, walk := range map[string]func(*listing){
			"descend": (*listing).descend,
			"pass":    func(l *listing) { l.pass(int(l.nodes) - int(l.base)) },
		} {
			if got := listBy(table, o, table.Nodes(), walk); got != want {
				t.Fatalf("%s of %+v:\n got %s\nwant %s", way, o, got, want)
			}
		}
	})
}

// listBy is List with a given way through the tree, since small tables always choose the same.
func listBy(t *Table, o ListOptions, nodes int, walk func(*listing)) string {
	base, ok := t.Lookup(o.Filter.path)
	if !ok || int(base) >= nodes || o.Filter.path != "" && !o.Filter.subtree {
		page, total := t.List(o)
		return fmt.Sprintf("%d %+v", total, page)
	}
	l := newListing(t, base, uint32(nodes), o)
	if o.Depth > 0 {
		l.level = t.Depth(base) + o.Depth
	}
	walk(l)
	l.offerGroups()
	page := l.page()
	return fmt.Sprintf("%d %+v", l.picked.total, page)
}

// TestListIgnoresYoungerNodes: a list is of the nodes that existed when it began, whichever way it takes.
func TestListIgnoresYoungerNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, o := drawTable(t), drawOptions(t)
		nodes := rapid.IntRange(1, table.Nodes()).Draw(t, "nodes")
		down := listBy(table, o, nodes, (*listing).descend)
		across := listBy(table, o, nodes, func(l *listing) { l.pass(int(l.nodes) - int(l.base)) })
		if down != across {
			t.Fatalf("%+v of %d nodes:\ndescend %s\npass    %s", o, nodes, down, across)
		}
	})
}

// TestListSmallSubtreeOfLargeTable takes the way down the children, which the small tables above seldom do.
func TestListSmallSubtreeOfLargeTable(t *testing.T) {
	table := filledTable(t, realisticNames(20_000))
	f := mustFilters(t, "eu-west/orders-0/**")[0]
	for _, o := range []ListOptions{{Filter: f}, {Filter: f, Depth: 1}, {Filter: f, Depth: 2, Sort: SortBytes, Limit: 7}} {
		rows := slowList(table, o)
		want := fmt.Sprintf("%d %+v", len(rows), slowPage(rows, o.Offset, o.Limit))
		page, total := table.List(o)
		if got := fmt.Sprintf("%d %+v", total, page); got != want || total == 0 {
			t.Errorf("List(%+v):\n got %s\nwant %s", o, got, want)
		}
	}
}

func TestSelectorAgainstSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 6000).Draw(t, "n")
		spread := rapid.Uint64Range(1, 10_000).Draw(t, "spread")
		shape := rapid.SampledFrom([]string{"random", "rising", "falling", "pipe"}).Draw(t, "shape")
		seed := rapid.Uint64().Draw(t, "seed")
		s := newSelector(nil, rapid.IntRange(0, 7000).Draw(t, "offset"), rapid.IntRange(0, 3000).Draw(t, "limit"))
		items := make([]item, n)
		for i := range items {
			seed = seed*6364136223846793005 + 1442695040888963407
			key := map[string]uint64{
				"random": seed >> 33 % spread, "rising": uint64(i), "falling": uint64(n - i), "pipe": uint64(min(i, n-i)),
			}[shape]
			items[i] = item{key: key, id: ID(i)}
			s.offer(items[i])
		}
		slices.SortFunc(items, s.compare)
		want := items[min(s.offset, n):min(s.keep, n)]
		if got := s.finish(); !slices.Equal(got, want) || s.total != n {
			t.Fatalf("%s: page of %d items, want %d, total %d of %d", shape, len(got), len(want), s.total, n)
		}
	})
}
