package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/demo"
)

// demoEnv makes child processes behave as cantus and keeps what demo makes in a folder of the test's own.
func demoEnv(t *testing.T) (tmp string) {
	t.Helper()
	tmp = t.TempDir()
	t.Setenv(asCommand, "1")
	t.Setenv("TMPDIR", tmp)
	return tmp
}

func TestDemo(t *testing.T) {
	tmp := demoEnv(t)
	t.Setenv("CANTUS_LISTEN_CLIENT", "127.0.0.1:1") // must not reach the nodes
	r := cantus(t, nil, "demo", "--for", "6s", "--json")
	got := decode[demo.Result](t, must(t, r))
	if got.Nodes != 3 || got.Faults.Any() || got.Acked == 0 || got.Acked != got.Published || got.FailoverMS <= 0 || !got.ReplicasEqual {
		t.Errorf("%+v", got)
	}
	if got.SubsetMessages == 0 || got.FullMessages != 3*got.Acked {
		t.Errorf("read %d of parts, %d of everything; published %d", got.SubsetMessages, got.FullMessages, got.Acked)
	}
	if got.FromHistory == 0 || got.HistoryFiles == 0 || got.HistoryBytes == 0 || got.Windows == 0 || got.Stores == 0 {
		t.Errorf("nothing of it is history: %+v", got)
	}
	if !strings.Contains(r.err, "killing the leader") {
		t.Errorf("the story lacks its climax:\n%s", r.err)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDemoOfOneNodeKeepsItsFolder(t *testing.T) {
	demoEnv(t)
	dir := filepath.Join(t.TempDir(), "kept")
	r := must(t, cantus(t, nil, "demo", "--for", "1s", "--nodes", "1", "--data", dir))
	if !strings.Contains(r.out, "lost              0\n") {
		t.Errorf("for people:\n%s", r.out)
	}
	if _, err := os.Stat(filepath.Join(dir, "a", "node.yaml")); err != nil {
		t.Error(err)
	}
	if r := cantus(t, nil, "demo", "--for", "1s", "--nodes", "1", "--data", dir); r.code != 1 || !strings.Contains(r.err, "not empty") {
		t.Errorf("a used folder: exit code %d, %s", r.code, r.err)
	}
}

// TestDemoInterrupted: after Ctrl-C no process and no folder is left.
func TestDemoInterrupted(t *testing.T) {
	tmp := demoEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() { ended <- cantusWith(t, ctx, nil, nil, "demo", "--for", "10m") }()
	var pids []string
	for deadline := time.Now().Add(30 * time.Second); len(pids) < 3 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		pids = childrenIn(tmp)
	}
	cancel()
	r := <-ended
	if r.code != 1 || !strings.Contains(r.err, "interrupted") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if len(pids) < 3 {
		t.Skip("this system does not show the processes of others")
	}
	if left := childrenIn(tmp); len(left) != 0 {
		t.Errorf("processes %v are still running", left)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// childrenIn lists the processes whose command line names dir, where the system has /proc.
func childrenIn(dir string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), dir) {
			pids = append(pids, filepath.Base(filepath.Dir(f)))
		}
	}
	return pids
}
