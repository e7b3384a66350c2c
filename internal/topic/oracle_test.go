package topic

import (
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// slowValid is the definition of a topic, word by word.
func slowValid(name string) bool {
	segs := strings.Split(name, "/")
	if len(segs) > 32 || len(name) > 512 || !utf8.ValidString(name) {
		return false
	}
	for _, s := range segs {
		if s == "" || s == "*" || s == "**" {
			return false
		}
	}
	for _, r := range name {
		if unicode.Is(unicode.Cc, r) {
			return false
		}
	}
	return true
}

// slowMatch is the definition of a filter over lists of segments.
func slowMatch(filter, name string) bool {
	f, n := strings.Split(filter, "/"), strings.Split(name, "/")
	if f[len(f)-1] != "**" {
		return filter == name
	}
	f = f[:len(f)-1]
	if len(n) < len(f) {
		return false
	}
	for i := range f {
		if f[i] != n[i] {
			return false
		}
	}
	return true
}

func slowMatchAny(filters []string, name string) bool {
	for _, f := range filters {
		if slowMatch(f, name) {
			return true
		}
	}
	return false
}

func slowPartition(name string) string {
	segs := strings.Split(name, "/")
	return strings.Join(segs[:min(2, len(segs))], "/")
}

// drawName makes names that often share prefixes, and whose segments sort around the slash.
func drawName(t *rapid.T) string {
	segs := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "a-b", "ab", "a.", "b c", "é"}), 1, 5).Draw(t, "segments")
	return strings.Join(segs, "/")
}

func drawFilters(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		switch rapid.IntRange(0, 19).Draw(t, "kind") {
		case 0:
			return "**"
		case 1, 2, 3, 4, 5, 6, 7, 8, 9:
			return drawName(t) + "/**"
		}
		return drawName(t)
	}), 1, 12).Draw(t, "filters")
}

func mustFilters(t fataler, list ...string) Filters {
	t.Helper()
	fs, err := ParseFilters(list)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return fs
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

func mustIntern(t fataler, table *Table, name string) ID {
	t.Helper()
	id, _, err := table.Intern([]byte(name))
	if err != nil {
		t.Fatalf("%v", err)
	}
	return id
}

// model is the table as plain maps and slices.
type model struct {
	nodes  []string // by id
	ids    map[string]ID
	topics map[string]bool
	parts  []string
	counts map[string][3]uint64
}

func newModel() *model {
	return &model{
		nodes: []string{""}, ids: map[string]ID{"": 0}, topics: map[string]bool{}, counts: map[string][3]uint64{},
	}
}

func (m *model) addPart(p string) {
	for _, have := range m.parts {
		if have == p {
			return
		}
	}
	m.parts = append(m.parts, p)
}

func (m *model) intern(name string) (ID, bool) {
	segs := strings.Split(name, "/")
	for i := range segs {
		prefix := strings.Join(segs[:i+1], "/")
		if _, ok := m.ids[prefix]; !ok {
			m.ids[prefix] = ID(len(m.nodes))
			m.nodes = append(m.nodes, prefix)
		}
	}
	created := !m.topics[name]
	m.topics[name] = true
	m.addPart(slowPartition(name))
	return m.ids[name], created
}

func (m *model) partition(node string) PartitionID {
	for i, p := range m.parts {
		if node != "" && slowPartition(node) == p && (strings.Contains(node, "/") || m.topics[node]) {
			return PartitionID(i)
		}
	}
	return NoPartition
}

func (m *model) parent(node string) string {
	if i := strings.LastIndexByte(node, '/'); i >= 0 {
		return node[:i]
	}
	return ""
}

func (m *model) children(node string) (out []ID) {
	for id := len(m.nodes) - 1; id > 0; id-- {
		if m.parent(m.nodes[id]) == node {
			out = append(out, ID(id))
		}
	}
	return out
}

func (m *model) topicsBelow(node string) (n int) {
	for name := range m.topics {
		if node == "" || slowMatch(node+"/**", name) {
			n++
		}
	}
	return n
}

// check compares every method of the table with the model.
func (m *model) check(t *rapid.T, table *Table) {
	if table.Nodes() != len(m.nodes) || table.Topics() != len(m.topics) || table.Partitions() != len(m.parts) {
		t.Fatalf("counts %d %d %d, want %d %d %d", table.Nodes(), table.Topics(), table.Partitions(),
			len(m.nodes), len(m.topics), len(m.parts))
	}
	for p, path := range m.parts {
		if got := table.Name(table.PartitionNode(PartitionID(p))); got != path {
			t.Fatalf("partition %d is %q, want %q", p, got, path)
		}
	}
	for i, path := range m.nodes {
		m.checkNode(t, table, ID(i), path)
	}
}

func (m *model) checkNode(t *rapid.T, table *Table, id ID, path string) {
	type facts struct {
		found              bool
		id, parent         ID
		name               string
		topic              bool
		depth, below       int
		partition          PartitionID
		children           string
		messages, bytes, s uint64
	}
	var got facts
	got.id, got.found = table.LookupBytes([]byte(path))
	got.name, got.topic, got.depth = table.Name(id), table.IsTopic(id), table.Depth(id)
	got.parent, got.partition, got.below = table.Parent(id), table.Partition(id), table.TopicsBelow(id)
	got.messages, got.bytes, got.s = table.Stats(id)
	var children []ID
	for c := range table.Children(id) {
		children = append(children, c)
	}
	got.children = fmt.Sprint(children)
	c := m.counts[path]
	want := facts{
		true, id, m.ids[m.parent(path)], path, m.topics[path], len(strings.FieldsFunc(path, func(r rune) bool { return r == '/' })),
		m.topicsBelow(path), m.partition(path), fmt.Sprint(m.children(path)), c[0], c[1], c[2],
	}
	if got != want {
		t.Fatalf("node %d:\n got %+v\nwant %+v", id, got, want)
	}
}

func TestTableAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, m := NewTable(1000), newModel()
		for i, name := range rapid.SliceOfN(rapid.Custom(drawName), 0, 40).Draw(t, "names") {
			id, created, err := table.Intern([]byte(name))
			wantID, wantCreated := m.intern(name)
			if err != nil || id != wantID || created != wantCreated {
				t.Fatalf("Intern(%q) = %d %v %v, want %d %v", name, id, created, err, wantID, wantCreated)
			}
			table.Add(id, 1, uint64(i), uint64(i+1))
			c := m.counts[name]
			m.counts[name] = [3]uint64{c[0] + 1, c[1] + uint64(i), uint64(i + 1)}
		}
		m.check(t, table)
	})
}

func TestFiltersAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := drawFilters(t)
		fs := mustFilters(t, list...)
		for _, name := range rapid.SliceOfN(rapid.Custom(drawName), 1, 20).Draw(t, "names") {
			matches := 0
			for _, f := range fs {
				if f.Match(name) {
					matches++
				}
			}
			want := slowMatchAny(list, name)
			if got := fs.Match(name); got != want || matches > 1 || (matches == 1) != want {
				t.Fatalf("%q: match %v by %d members of %q, want %v", name, got, matches, fs.Strings(), want)
			}
		}
		again := mustFilters(t, fs.Strings()...)
		if fmt.Sprint(again) != fmt.Sprint(fs) {
			t.Fatalf("normalised twice: %v, once: %v", again, fs)
		}
	})
}

// slowCoverage says from the definition what a matcher takes of a partition: it tries the partition's possible topics
// as far as the filters can tell them apart.
func slowCoverage(filters []string, partition string) Coverage {
	probes := []string{partition}
	if strings.Contains(partition, "/") {
		probes = append(probes, partition+"/never seen")
		for _, f := range filters {
			path := strings.TrimSuffix(f, "/**")
			if strings.HasPrefix(path, partition+"/") {
				probes = append(probes, path)
			}
		}
	}
	hits := 0
	for _, p := range probes {
		if slowMatchAny(filters, p) {
			hits++
		}
	}
	switch hits {
	case 0:
		return CoverNone
	case len(probes):
		return CoverAll
	}
	return CoverSome
}

// TestMatcherAgainstDefinition asks matchers made before, between and after the topics that they are asked about.
func TestMatcherAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := NewTable(1000)
		list := drawFilters(t)
		m := NewMatcher(table, mustFilters(t, list...))
		seen := 0
		var parts []PartitionID
		for range rapid.IntRange(1, 6).Draw(t, "rounds") {
			for _, name := range rapid.SliceOfN(rapid.Custom(drawName), 0, 15).Draw(t, "names") {
				mustIntern(t, table, name)
			}
			for _, id := range rapid.SliceOfN(rapid.IntRange(1, 100), 0, 20).Draw(t, "ids") {
				if id < table.Nodes() {
					checkMatch(t, m, list, ID(id))
				}
			}
			parts, seen = m.Partitions(parts, seen)
		}
		checkMatcher(t, m, list, parts)
		fresh := NewMatcher(table, mustFilters(t, list...))
		atOnce, _ := fresh.Partitions(nil, 0)
		checkMatcher(t, fresh, list, atOnce)
	})
}

func checkMatch(t *rapid.T, m *Matcher, list []string, id ID) {
	name := m.table.Name(id)
	if got, want := m.Match(id), slowMatchAny(list, name); got != want {
		t.Fatalf("Match(%q) = %v, filters %q", name, got, list)
	}
}

func checkMatcher(t *rapid.T, m *Matcher, list []string, parts []PartitionID) {
	for id := 1; id < m.table.Nodes(); id++ {
		checkMatch(t, m, list, ID(id))
		checkMatch(t, m, list, ID(id))
	}
	var want []PartitionID
	for p := range PartitionID(m.table.Partitions()) {
		path := m.table.Name(m.table.PartitionNode(p))
		c := slowCoverage(list, path)
		if got := m.Coverage(p); got != c {
			t.Fatalf("Coverage(%q) = %v, want %v, filters %q", path, got, c, list)
		}
		if c != CoverNone {
			want = append(want, p)
		}
	}
	if fmt.Sprint(parts) != fmt.Sprint(want) {
		t.Fatalf("partitions %v, want %v, filters %q", parts, want, list)
	}
}
