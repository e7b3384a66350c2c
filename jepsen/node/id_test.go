package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// TestSteppedAside: a node that comes back under another id is no part of a majority until it votes. That somebody had damaged it, or
// emptied its disk, explains it; else it is noted.
func TestSteppedAside(t *testing.T) {
	c, book := cluster(t, 2, `echo "ready: node $(cat "$CANTUS_NODE_DATA/../id"), client x"; exec sleep 100`)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	n := c.Nodes[1]
	identify := func(n *Node, id string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(n.Disk.Path(), "../id"), []byte(id), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	identify(c.Nodes[0], "z")
	identify(n, "a")
	if err := c.Start(ctx); err != nil {
		t.Fatal(err)
	}
	again := func(id string, strays int, quorums ...bool) {
		t.Helper()
		n.Kill()
		identify(n, id)
		if err := errors.Join(n.Start(), n.WaitReady(ctx)); err != nil {
			t.Fatal(err)
		}
		if got := book.quorums(); n.ID() != id || len(n.Strays()) != strays || !slices.Equal(got, quorums) {
			t.Errorf("id %s, strays %q, quorums %v, want %s, %d, %v", n.ID(), n.Strays(), got, id, strays, quorums)
		}
	}
	again("a", 0, true, false, true)
	n.SetDamaged()
	again("b", 0, true, false, true, false)
	n.setOutside(false)
	n.Kill()
	if err := n.Wipe(); err != nil {
		t.Fatal(err)
	}
	again("c", 0, true, false, true, false, true, false)
	n.setOutside(false)
	again("d", 1, true, false, true, false, true, false, true, false)
	if n.Asides() != 2 {
		t.Errorf("stepped aside %d times", n.Asides())
	}
	n.learn("old", 1) // of a process that is gone
	if n.ID() != "d" {
		t.Error("a process that is gone gave the id")
	}
}

// TestStrangers: a member that is no node is one, but while a node starts nobody knows.
func TestStrangers(t *testing.T) {
	a, b := &Node{state: history.NodeUp, id: "a"}, &Node{state: history.NodeDown, id: "b"}
	c := &Cluster{Nodes: []*Node{a, b}}
	roles := map[string]string{"a": "leader", "b": "follower", "x": "follower"}
	if got := c.strangers(roles); !slices.Equal(got, []string{"x"}) {
		t.Errorf("strangers %q", got)
	}
	b.state = history.NodeStarting
	if got := c.strangers(roles); len(got) > 0 {
		t.Errorf("strangers %q while a node starts", got)
	}
}
