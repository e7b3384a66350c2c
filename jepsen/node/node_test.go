package node

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/network"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// notebook is a Recorder that remembers.
type notebook struct {
	mu     sync.Mutex
	events []history.Event
}

func (n *notebook) Now() time.Duration { return 0 }

func (n *notebook) Write(e history.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = append(n.events, e)
}

// quorums are the answers to "does the cluster owe service", in their order.
func (n *notebook) quorums() (list []bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if q, ok := e.(*history.Quorum); ok {
			list = append(list, q.Up)
		}
	}
	return list
}

// states are a node's, as recorded.
func (n *notebook) states(name string) (list []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if c, ok := e.(*history.NodeChanged); ok && c.Node == name {
			s := string(c.State)
			if c.ByItself {
				s += "!"
			}
			list = append(list, s)
		}
	}
	return list
}

// cluster is of processes that are a script in place of the broker.
func cluster(t *testing.T, nodes int, script string) (*Cluster, *notebook) {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(dir, "broker")
	if err := os.WriteFile(binary, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	net, err := network.NewProxy(1)
	if err != nil {
		t.Fatal(err)
	}
	book := &notebook{}
	c, err := NewCluster(Options{Binary: binary, Dir: dir, Nodes: nodes, Network: net, Record: book})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c, book
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

const ready = `echo "ready: node id-$CANTUS_NODE_NAME, client x"; `

// TestLife: a process is started, paused, killed; one that ends by itself comes back, and that is told apart.
func TestLife(t *testing.T) {
	c, book := cluster(t, 1, ready+`if [ -e "$CANTUS_NODE_DATA/die" ]; then rm "$CANTUS_NODE_DATA/die"; echo "panic: dying" >&2; exit 3; fi; exec sleep 100`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := c.Nodes[0]
	if n.ID() != "id-n1" {
		t.Errorf("id %q", n.ID())
	}
	n.Pause()
	n.Resume()
	n.Kill()
	if n.PID() != 0 {
		t.Error("killed, and has a process")
	}
	if err := os.WriteFile(filepath.Join(n.Disk.Path(), "die"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := n.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, "back after it died", func() bool {
		s := book.states("n1")
		return slices.Contains(s, "down!") && s[len(s)-1] == "up"
	})
	if got := n.Exits(); len(got) != 1 || !strings.Contains(got[0], "panic: dying") {
		t.Errorf("exits: %q", got)
	}
	if got := n.Panics(); len(got) != 1 {
		t.Errorf("panics: %q", got)
	}
	n.Kill()
	want := []string{"starting", "up", "paused", "up", "down", "starting", "up", "down!", "starting", "up", "down"}
	if got := book.states("n1"); !slices.Equal(got, want) {
		t.Errorf("states %v, want %v", got, want)
	}
}

// TestQuorum: service is owed while a majority is up and each of it reaches each other.
func TestQuorum(t *testing.T) {
	c, book := cluster(t, 3, ready+"exec sleep 100")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	expect := func(step string, want ...bool) {
		t.Helper()
		if got := book.quorums(); !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", step, got, want)
		}
	}
	expect("start", true)
	c.Nodes[0].Pause()
	expect("one paused", true)
	if err := c.Cut(network.Link{From: 1, To: 2}); err != nil {
		t.Fatal(err)
	}
	expect("the other two cut, one way", true, false)
	c.Nodes[0].Resume()
	expect("the third with either", true, false, true)
	c.Nodes[0].SetSick(true)
	expect("its disk is broken", true, false, true, false)
	if err := c.Heal(); err != nil {
		t.Fatal(err)
	}
	expect("healed", true, false, true, false, true)
	if err := c.Nodes[1].Wipe(); err != nil { // up as the script is, under a new id it would not vote yet
		t.Fatal(err)
	}
	c.Nodes[1].set(history.NodeUp, "", false)
	expect("one is a stranger, one sick", true, false, true, false, true, false)
	c.Nodes[1].setOutside(false)
	expect("the stranger votes", true, false, true, false, true, false, true)
	c.SetVoters(c.Nodes[:1])
	expect("alone and sick", true, false, true, false, true, false, true, false)
}

// TestStopAt: the node is told where to stop, by a file that a test build reads, and tells that it has by another.
func TestStopAt(t *testing.T) {
	c, _ := cluster(t, 1, ready+`while ! grep -q "^stop seal 2$" "$CANTUS_FAULTS"; do sleep 0.01; done; echo seal >"$CANTUS_FAULTS.stopped"; exec sleep 100`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := c.Nodes[0]
	if err := os.WriteFile(n.FaultsPath(), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	if n.Stopped() {
		t.Fatal("it has stopped and was not told to")
	}
	if err := n.StopAt(faults.Seal, 2); err != nil {
		t.Fatal(err)
	}
	wait(t, "stopped", n.Stopped)
	if err := n.StopAt(faults.Sealed, 0); err != nil || n.Stopped() {
		t.Errorf("told again, it has stopped before that: %v", err)
	}
	if err := n.NoStop(); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(n.FaultsPath()); err != nil || len(b) > 0 {
		t.Errorf("taken back: %q, %v", b, err)
	}
}

func TestClaims(t *testing.T) {
	var n Node
	if !n.TryClaim() || n.TryClaim() {
		t.Error("claimed twice")
	}
	if n.Release(); !n.TryClaim() {
		t.Error("not released")
	}
	var c Cluster
	release, ok := c.TryOperate()
	if _, again := c.TryOperate(); !ok || again {
		t.Error("two operations at once")
	}
	release()
	if _, ok := c.TryOperate(); !ok {
		t.Error("not released")
	}
}
