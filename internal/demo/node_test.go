package demo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/config"
)

// TestNodesAreLaidOutToFindEachOther: their configurations are valid, differ where they must, and name all of them.
func TestNodesAreLaidOutToFindEachOther(t *testing.T) {
	ns, err := newNodes("cantus", t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range ns.list {
		if err := n.writeConfig(); err != nil {
			t.Fatal(err)
		}
		l, err := config.LoadFile(n.configPath(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := l.Config
		if c.Node.Name != n.name || c.Cluster.BootstrapExpect != 3 || len(c.Cluster.Join) != 3 || c.Tip.Size != tipSize {
			t.Errorf("node %s: %+v", n.name, c)
		}
		if !strings.Contains(strings.Join(c.Cluster.Join, " "), c.Listen.Gossip) || !strings.HasPrefix(c.Node.Data, n.dir) {
			t.Errorf("node %s: gossip %s, join %v, data %s", n.name, c.Listen.Gossip, c.Cluster.Join, c.Node.Data)
		}
	}
}

func TestStartOfABinaryThatIsNone(t *testing.T) {
	ns, err := newNodes(filepath.Join(t.TempDir(), "none"), t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.start(t.Context()); err == nil || !strings.Contains(err.Error(), "start node a") {
		t.Errorf("started nothing: %v", err)
	}
	ns.kill()
}

// TestNodeThatEndsAtOnce: the error shows the end of its log.
func TestNodeThatEndsAtOnce(t *testing.T) {
	script := filepath.Join(t.TempDir(), "cantus")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho cannot go on >&2\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ns, err := newNodes(script, t.TempDir(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := ns.start(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot go on") {
		t.Errorf("error %v", err)
	}
	ns.kill()
}

func TestFolder(t *testing.T) {
	dir, remove, err := folder("")
	if err != nil {
		t.Fatal(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", dir, err)
	}
	kept := filepath.Join(t.TempDir(), "new")
	if dir, remove, err = folder(kept); err != nil || dir != kept || remove() != nil {
		t.Errorf("folder %s, %v", dir, err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}
