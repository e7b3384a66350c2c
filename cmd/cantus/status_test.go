package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/output"
)

// TestStatusOfTheDisk: what people see of history, damage and catching up, in words.
func TestStatusOfTheDisk(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for name, test := range map[string]struct {
		status cluster.Status
		want   []string
	}{
		"none": {cluster.Status{}, []string{"none is kept"}},
		"idle": {cluster.Status{History: &cluster.HistoryStatus{FirstSeq: 1}}, []string{"seq none", "none yet"}},
		"busy": {cluster.Status{
			History:  &cluster.HistoryStatus{FirstSeq: 3, LastSeq: 9, Files: 2, Bytes: 2 << 20, PendingWindows: 4, PendingGenerations: 1, Damaged: []string{"w-1.cnts: bad"}},
			Snapshot: &cluster.SnapshotInfo{Seq: 8, StateBytes: 1 << 10, Time: now.Add(-3 * time.Hour)}, LogFirstIndex: 77,
		}, []string{"seq 3 to 9, 2MiB in 2 files", "4 windows and 1 generations", "w-1.cnts: bad", "seq 8, 3h ago, 1KiB", "index 77"}},
		"scrubbed": {cluster.Status{History: &cluster.HistoryStatus{ScrubbedBytes: 3 << 20, LastScrub: now.Add(-2 * time.Hour).UnixNano(), Repaired: 2}},
			[]string{"scrubbed here", "3MiB since the start", "all of it 2h ago", "2 damaged files"}},
		"catching up": {cluster.Status{CatchUp: &cluster.CatchUpStatus{Seq: 9, Files: 5, FilesDone: 2, Bytes: 10 << 20, BytesDone: 1 << 20}},
			[]string{"2 of 5 files", "1MiB of 10MiB"}},
	} {
		text := fmt.Sprint(diskFields(test.status, now))
		for _, want := range test.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %s lacks %q", name, text, want)
			}
		}
	}
}

// TestHealthText: how bad it is stands in one line, what is wrong below.
func TestHealthText(t *testing.T) {
	for want, s := range map[string]cluster.Status{
		"healthy":                  {State: cluster.StateHealthy, Healthy: true},
		"DEGRADED (the problems":   {State: cluster.StateDegraded, Problems: []string{"c has no vote"}},
		"DOWN (the problems":       {State: cluster.StateDown, Problems: []string{"no leader", "b"}},
		"NOT HEALTHY (the problem": {Problems: []string{"of an older"}},
	} {
		if got := healthText(s); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// longStatus is of a cluster in which much is wrong, as the nodes' longest texts have it.
func longStatus() cluster.Status {
	why := strings.Repeat("its files were damaged and wait for a leader ", 10)
	aside := cluster.AsideStatus{Was: "0123456789abcdef", At: time.Unix(1_000_000, 0), Part: "raft", Folder: "/var/lib/cantus/damaged-1", Reason: "log.db: page 7 is bad"}
	brief := aside
	brief.Reason = "log.db…"
	s := cluster.Status{
		ClusterID: "00112233445566778899aabbccddeeff", NodeID: "aaaaaaaa-0892-467d-85f9-4b8de750141a", State: cluster.StateDegraded, Leader: "aaaaaaaa-0892-467d-85f9-4b8de750141a", AppliedSeq: 123_456_789,
		Aside: &aside,
	}
	for i, id := range []string{"aaaaaaaa-0892-467d-85f9-4b8de750141a", "bbbbbbbb-0892-467d-85f9-4b8de750141a", "cccccccc-0892-467d-85f9-4b8de750141a"} {
		n := cluster.NodeStatus{ID: id, Name: fmt.Sprintf("node-%d", i), Role: cluster.RoleFollower, AppliedSeq: 123_456_789, ClientAddr: "10.10.10.10:4790", HTTPAddr: "10.10.10.10:4791", RaftAddr: "10.10.10.10:4792", Aside: &brief}
		if i > 0 {
			n.Problem = why
			s.Problems = append(s.Problems, nodeTitle(n)+": "+why)
		}
		s.Nodes = append(s.Nodes, n)
	}
	return s
}

// TestStatusFitsATerminal: no line is wider than the terminal, and every word of what is wrong is there, of all nodes.
func TestStatusFitsATerminal(t *testing.T) {
	s := longStatus()
	for _, width := range []int{80, 120} {
		var out bytes.Buffer
		a := &app{Writer: output.Writer{Out: &out, Width: width}}
		if err := a.printStatus(s); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("%d columns on a terminal of %d: %s", n, width, line)
			}
		}
		flat := strings.Join(strings.Fields(out.String()), " ")
		texts := append(asideTexts(s), s.Problems...)
		for _, n := range s.Nodes {
			texts = append(texts, n.ID, n.ClientAddr, n.HTTPAddr, n.RaftAddr)
		}
		for _, want := range texts {
			if !strings.Contains(flat, strings.Join(strings.Fields(want), " ")) {
				t.Errorf("a terminal of %d lacks %q:\n%s", width, want, out.String())
			}
		}
	}
}

// TestStatusTellsOfAllThatSteppedAside: also of those that are not asked; the node that is asked gives its reason whole.
func TestStatusTellsOfAllThatSteppedAside(t *testing.T) {
	texts := asideTexts(longStatus())
	if len(texts) != 3 || !strings.Contains(texts[0], "page 7 is bad") || !strings.Contains(texts[2], "node cccccccc-0892-467d-85f9-4b8de750141a (node-2): its files were damaged (raft) and lie in /var/lib/cantus/damaged-1 since 1970-01-12") {
		t.Errorf("%q", texts)
	}
	if texts := asideTexts(cluster.Status{Nodes: []cluster.NodeStatus{{ID: "a"}}}); texts != nil {
		t.Errorf("nobody stepped aside: %q", texts)
	}
}

func TestNodeProblems(t *testing.T) {
	nodes := []cluster.NodeStatus{{ID: "a", Healthy: true}, {ID: "b", Name: "x", Role: cluster.RoleFollower, Problem: "does not answer"}, {ID: "c", Role: cluster.RoleLeft}}
	if got := fmt.Sprint(nodeProblems(nodes)); got != "[node b (x): does not answer]" {
		t.Error(got)
	}
	for i, want := range []string{"ok", "bad", "no member"} {
		if got := nodeHealth(nodes[i]); got != want {
			t.Errorf("%s: %q, want %q", nodes[i].ID, got, want)
		}
	}
}

func TestLeaderText(t *testing.T) {
	s := cluster.Status{Leader: "b", Term: 3, Nodes: []cluster.NodeStatus{{ID: "a", Name: "x"}, {ID: "b", Name: "y"}, {ID: "c"}}}
	for leader, want := range map[string]string{"b": "y (b), term 3", "c": "c, term 3", "": "none, term 3"} {
		if s.Leader = leader; leaderText(s) != want {
			t.Errorf("%q, want %q", leaderText(s), want)
		}
	}
}

// TestStatusInWords: numbers that are not known, or are none, are not shown as numbers.
func TestStatusInWords(t *testing.T) {
	for n, want := range map[int]string{0: "no node", 1: "1 node,", 2: "2 nodes,"} {
		if got := toleranceText(n); !strings.HasPrefix(got, want) {
			t.Errorf("%d: %q", n, got)
		}
	}
	for want, s := range map[string]cluster.Status{
		"the next has seq 1":                     {FirstSeq: 1},
		"no message is kept; the next has seq 8": {FirstSeq: 8, AppliedSeq: 7},
		"seq 7 to 7, 1 messages":                 {FirstSeq: 7, AppliedSeq: 7},
	} {
		if got := streamText(s); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	var out bytes.Buffer
	a := &app{Writer: output.Writer{Out: &out}}
	a.printNodes([]cluster.NodeStatus{{ID: "1", Name: "b", Role: cluster.RoleFollower, LastContactMS: -1, Problem: "does not answer"}, {ID: "2", Name: "a", Role: cluster.RoleLeader, AppliedSeq: 5, AppliedIndex: 9}})
	if lines := strings.Split(out.String(), "\n"); !strings.Contains(lines[1], " a ") || !strings.Contains(lines[1], " 5 ") || strings.Count(lines[2], "unknown") != 3 {
		t.Errorf("nodes:\n%s", out.String())
	}
}
