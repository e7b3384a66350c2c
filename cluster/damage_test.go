package cluster_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
)

// TestDamagedFolderIsRefused: a node that came back without its log or its vote, under its id, could make a majority that
// lost what was acknowledged. Errors, not panics, say what to do.
func TestDamagedFolderIsRefused(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{})
	m := c.Members[0]
	for range 50 {
		mustPublish(t, m, "a/b", strings.Repeat("payload ", 1000))
	}
	c.Close(m)
	for name, damage := range map[string]func(dir string) error{
		"log deleted":    func(dir string) error { return os.Remove(filepath.Join(dir, "log.db")) },
		"log emptied":    func(dir string) error { return os.Truncate(filepath.Join(dir, "log.db"), 0) },
		"log cut short":  func(dir string) error { return os.Truncate(filepath.Join(dir, "log.db"), 12<<10) },
		"vote deleted":   func(dir string) error { return os.Remove(filepath.Join(dir, "stable.db")) },
		"vote emptied":   func(dir string) error { return os.Truncate(filepath.Join(dir, "stable.db"), 0) },
		"both deleted":   func(dir string) error { return os.RemoveAll(dir) },
		"log is garbage": func(dir string) error { return os.WriteFile(filepath.Join(dir, "log.db"), make([]byte, 64<<10), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			o := clustertest.Defaults(t.TempDir())
			if err := os.CopyFS(o.DataDir, os.DirFS(m.Dir)); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(o.DataDir, "raft")); err != nil {
				t.Fatal(err)
			}
			n, err := cluster.Open(o)
			if err == nil {
				n.Close()
				t.Fatal("the node came up")
			}
			if !strings.Contains(err.Error(), "empty the folder") {
				t.Errorf("the error does not say what to do: %v", err)
			}
		})
	}
	c.Restart(m) // unharmed, it comes up
	if err := m.WaitSeq(testContext(t), 50); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedManifestOfHistory: which files are in force cannot be made out without it, so the node does not start, and says what to do.
func TestDamagedManifestOfHistory(t *testing.T) {
	c := clustertest.Start(t, 1, clustertest.Options{Configure: withSnapshots})
	h := newChronicle(t, c, 33)
	m := c.Leader()
	h.publish(40)
	h.snapshot(m)
	c.Close(m)
	for name, damage := range map[string]func(path string) error{
		"deleted": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 30) },
		"garbage": func(path string) error { return os.WriteFile(path, make([]byte, 500), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			o := clustertest.Defaults(t.TempDir())
			withSnapshots(0, &o)
			if err := os.CopyFS(o.DataDir, os.DirFS(m.Dir)); err != nil {
				t.Fatal(err)
			}
			if err := damage(filepath.Join(o.DataDir, "history", "MANIFEST")); err != nil {
				t.Fatal(err)
			}
			n, err := cluster.Open(o)
			if err == nil {
				n.Close()
				t.Fatal("the node came up")
			}
			for _, want := range []string{"MANIFEST", "empty the folder"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %q: %v", want, err)
				}
			}
		})
	}
}
