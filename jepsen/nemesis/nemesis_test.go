package nemesis

import (
	"bytes"
	"maps"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/jepsen/network"
	"github.com/cantus-bus/cantus/jepsen/node"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

func nodes(n int) (list []*node.Node) {
	for i := range n {
		list = append(list, &node.Node{Index: i})
	}
	return list
}

// reach is how many nodes, itself included, a node reaches both ways.
func reach(n int, links []network.Link) (seen []int) {
	for i := range n {
		count := 0
		for j := range n {
			if !slices.Contains(links, network.Link{From: i, To: j}) && !slices.Contains(links, network.Link{From: j, To: i}) {
				count++
			}
		}
		seen = append(seen, count)
	}
	return seen
}

// TestRing: each node reaches a majority, none reaches all but where three cannot do otherwise.
func TestRing(t *testing.T) {
	for _, n := range []int{3, 5, 7} {
		got := reach(n, ring(nodes(n)))
		for i, count := range got {
			if 2*count <= n || n > 3 && count == n {
				t.Errorf("%d nodes: node %d reaches %d", n, i, count)
			}
		}
		if slices.Min(got) == n {
			t.Errorf("%d nodes: nothing is cut", n)
		}
	}
}

// TestBridge: one node reaches all, each other only its half and the bridge.
func TestBridge(t *testing.T) {
	if got := reach(5, bridge(nodes(5))); !slices.Equal(got, []int{5, 3, 3, 3, 3}) {
		t.Errorf("five nodes: %v", got)
	}
	if got := reach(3, bridge(nodes(3))); !slices.Equal(got, []int{3, 2, 2}) {
		t.Errorf("three nodes: %v", got)
	}
}

func TestParse(t *testing.T) {
	all := func(Need) bool { return true }
	none := func(n Need) bool { return n == NeedNothing }
	mix, err := Parse("kill,cut", none)
	if err != nil || len(mix) != 7 || mix[0].Name != "kill" {
		t.Errorf("kill,cut: %v, %v", Names(mix), err)
	}
	if mix, err = Parse("mix", all); err != nil || len(mix) != len(List()) {
		t.Errorf("mix of all: %v, %v", Names(mix), err)
	}
	mix, err = Parse("mix", none)
	if err != nil || slices.ContainsFunc(mix, func(f Fault) bool { return f.Need != NeedNothing }) {
		t.Errorf("mix of what needs nothing: %v, %v", Names(mix), err)
	}
	if _, err = Parse("power", none); err == nil || !strings.Contains(err.Error(), "ext4") {
		t.Errorf("power without disks: %v", err)
	}
	mix, err = Parse("power:all,kill", all)
	if err != nil || len(mix) != 2 || !slices.Equal(mix[0].aims, []aim{"all"}) || len(mix[1].aims) < 2 {
		t.Errorf("power:all,kill: %v, %v", mix, err)
	}
	for _, wrong := range []string{"power:nobody", "cut:leader", "mix:all", "power:"} {
		if _, err = Parse(wrong, all); err == nil {
			t.Errorf("%s was taken", wrong)
		}
	}
	if _, err = Parse("killl", all); err == nil {
		t.Error("a fault that is none")
	}
	for name, list := range groups {
		for _, member := range list {
			if _, err := Parse(member, all); err != nil {
				t.Errorf("group %s: %v", name, err)
			}
		}
	}
}

func TestFlip(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	before := []byte(strings.Repeat("abcdefgh", 100))
	for seed := range uint64(20) {
		if err := os.WriteFile(path, before, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := flip(rand.New(rand.NewPCG(seed, 0)), dir, path); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		if err != nil || len(after) != len(before) {
			t.Fatal(len(after), err)
		}
		changed := 0
		for i := range after {
			changed += bits.OnesCount8(after[i] ^ before[i])
		}
		if changed != 1 {
			t.Errorf("seed %d: %d bits changed", seed, changed)
		}
	}
}

// TestSpot: of a file that is mostly empty, what it holds is hit.
func TestSpot(t *testing.T) {
	const size, held = 1 << 20, 700 << 10
	file := make([]byte, size)
	file[held] = 1
	hits := 0
	for seed := range uint64(60) {
		at, err := spot(rand.New(rand.NewPCG(seed, 0)), bytes.NewReader(file), size)
		if err != nil || at < 0 || at >= size {
			t.Fatal(at, err)
		}
		if at/spotPage == held/spotPage {
			hits++
		}
	}
	if hits < 10 { // of about 40, each of which has 200 tries for one page of 256
		t.Errorf("hit %d times", hits)
	}
}

// TestTear: over many seeds a tail is cut, zeroed, and the file removed; always something is gone.
func TestTear(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	before := bytes.Repeat([]byte{7}, 1000)
	seen := map[string]bool{}
	for seed := range uint64(30) {
		if err := os.WriteFile(path, before, 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := tear(rand.New(rand.NewPCG(seed, 0)), dir, path); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(path)
		switch {
		case os.IsNotExist(err):
			seen["removed"] = true
		case err != nil:
			t.Fatal(err)
		case len(after) < len(before):
			seen["cut"] = true
		case bytes.Equal(after, before):
			t.Errorf("seed %d: nothing happened", seed)
		default:
			seen["zeroed"] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("seen only %v", seen)
	}
}

// TestVictim: files of one kind are one group, whatever their numbers, and one kind comes after the other.
func TestVictim(t *testing.T) {
	list := []string{"/d/LOCK", "/d/history/window-3.tmp", "/d/history/quarantine/window-1.1", "/d/damaged-20260102/raft/log.db", "/d/raft/log.db", "/d/history/window-1", "/d/history/window-22", "/d/history/MANIFEST", "/d/id"}
	a := &attack{n: New(Options{}), r: rand.New(rand.NewPCG(1, 1))}
	const rounds = 10
	hits := map[string]int{}
	for range 4 * rounds {
		hits[kindOf("/d", a.victim("/d", list))]++
	}
	want := map[string]int{"raft/log.db": rounds, "history/window-": rounds, "history/MANIFEST": rounds, "id": rounds}
	if !maps.Equal(hits, want) {
		t.Errorf("%v, want %v", hits, want)
	}
	if got := a.victim("/d", list[:4]); got != "" {
		t.Errorf("chose %q", got)
	}
}

// TestTurns: each fault comes as often as it should, those that were not possible sooner than others again, and none more often.
func TestTurns(t *testing.T) {
	const each = 3
	mix := []Fault{{Name: "a", aims: []aim{leader, follower}}, {Name: "b"}, {Name: "seldom"}, {Name: "c"}}
	n := New(Options{Mix: mix, Each: each})
	r := rand.New(rand.NewPCG(1, 1))
	for f, ok := n.choose(r); ok; f, ok = n.choose(r) {
		if f.Name == "a" && f.aims[0] != []aim{leader, follower}[n.Tried()["a"]%2^1] {
			t.Errorf("try %d of a hits %v", n.Tried()["a"], f.aims)
		}
		if f.Name != "seldom" || n.Tried()[f.Name]%4 == 0 {
			n.count(f.Name, leader)
		}
		if n.Tried()["seldom"] > 4*each {
			t.Fatal("no end")
		}
	}
	for _, f := range mix {
		if got := n.Counts()[f.Name+" leader"]; got != each {
			t.Errorf("%s: %d times", f.Name, got)
		}
	}
	if got := n.Tried(); got["a"] != each || got["seldom"] != 4*each {
		t.Errorf("tried %v", got)
	}
	if missing := n.Missing(); len(missing) > 0 {
		t.Errorf("missing %v", missing)
	}
	n = New(Options{Mix: mix, Each: 1})
	n.count("b", all)
	if got := n.Missing(); !slices.Equal(got, []string{"a", "seldom", "c"}) {
		t.Errorf("missing %v", got)
	}
	if _, ok := New(Options{}).choose(r); ok {
		t.Error("chose one of none")
	}
}

// TestSteps: there is a fault for each point of the broker.
func TestSteps(t *testing.T) {
	var names []string
	for _, p := range faults.Points() {
		names = append(names, StepName(p))
	}
	if got := stepNames(); !slices.Equal(got, names) {
		t.Errorf("%v, want %v", got, names)
	}
}
