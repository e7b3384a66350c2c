package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/load"
	"github.com/cantus-bus/cantus/transport/http"
)

// withHistory are flags of serve for a node that seals often and keeps little in memory.
var withHistory = []string{"--dev", "--set", "history.window_bytes=64KiB", "--set", "tip.chunk=2MiB", "--set", "tip.size=8MiB"}

// everything reads the whole stream as text.
func everything(t *testing.T, s *server) string {
	t.Helper()
	return must(t, cantus(t, s.env, "sub", "**", "--from", "first", "--to", "caught-up", "--json")).out
}

// TestBackupAndRestore: what is read from a restored node is what was read from the one that the backup was made of, times and all.
func TestBackupAndRestore(t *testing.T) {
	path, _ := smallStream(t, 3_000)
	s := startServer(t, withHistory...)
	dir, data := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "data")
	must(t, cantus(t, s.env, "replay", path, "--payload", "random"))
	first := decode[map[string]any](t, must(t, cantus(t, s.env, "backup", dir, "--json")))
	if first["seq"] != 3000.0 || first["history_files"] == 0.0 || first["fetched_bytes"] != first["bytes"] || first["dir"] != dir {
		t.Errorf("first: %v", first)
	}
	must(t, cantus(t, s.env, "replay", path))
	r := must(t, cantus(t, s.env, "backup", dir))
	if !strings.Contains(r.out, "seq 1 to 6000") {
		t.Errorf("for people: %s", r.out)
	}
	want := everything(t, s)
	if r := s.stop(); r.code != 0 {
		t.Fatalf("stop: %+v", r)
	}
	if r := must(t, cantus(t, nobody, "backup", "--check", dir)); !strings.Contains(r.out, "whole backup") {
		t.Errorf("check: %s", r.out)
	}
	restored := decode[cluster.RestoreResult](t, must(t, cantus(t, nobody, "restore", dir, "--data", data, "--json")))
	if restored.Seq != 6000 || restored.ClusterID == restored.FromID || restored.Files == 0 {
		t.Errorf("restored: %+v", restored)
	}
	again := startServer(t, append([]string{"--data", data}, withHistory...)...)
	if got := everything(t, again); got != want {
		t.Errorf("read %d bytes from the restored node, %d from the first", len(got), len(want))
	}
	status := decode[cluster.Status](t, must(t, cantus(t, again.env, "status", "--json")))
	if status.ClusterID != restored.ClusterID || status.NodeID != restored.NodeID || status.AppliedSeq != 6000 {
		t.Errorf("status %+v", status)
	}
	must(t, cantus(t, again.env, "pub", "a/b", "after"))
	if v := decode[http.Verification](t, must(t, cantus(t, again.env, "verify", "--json"))); !v.Equal || v.Seq != 6001 {
		t.Errorf("verify %+v", v)
	}
}

func TestBackupFailures(t *testing.T) {
	s := startServer(t, withHistory...)
	must(t, cantus(t, s.env, "pub", "a/b", "x"))
	dir, data := t.TempDir(), t.TempDir()
	must(t, cantus(t, s.env, "backup", dir))
	if err := os.WriteFile(filepath.Join(data, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		env, args []string
		code      int
		say       string
	}{
		{nobody, []string{"backup", dir}, 1, "is the node up?"},
		{nobody, []string{"backup"}, 2, ""},
		{nobody, []string{"backup", "--check", t.TempDir()}, 1, "never finished"},
		{nobody, []string{"restore", dir}, 2, "--data"},
		{nobody, []string{"restore", dir, "--data", data}, 1, "not empty"},
		{nobody, []string{"restore", t.TempDir(), "--data", filepath.Join(data, "d")}, 1, "never finished"},
		{nobody, []string{"snapshot"}, 1, "is the node up?"},
	} {
		if r := cantus(t, test.env, test.args...); r.code != test.code || !strings.Contains(r.err, test.say) || r.out != "" {
			t.Errorf("%v: exit code %d: %s%s", test.args, r.code, r.out, r.err)
		}
	}
	other := startServer(t, withHistory...)
	must(t, cantus(t, other.env, "pub", "a/b", "x"))
	if r := cantus(t, other.env, "backup", dir); r.code != 1 || !strings.Contains(r.err, "name another folder") || strings.Contains(r.err, "goes on from there") {
		t.Errorf("another cluster into the same folder: %d %s", r.code, r.err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "files", "*"))
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, spoiled := range files { // the snapshot's manifest, its state, and what there is of history
		spoilByte(t, spoiled)
		if r := cantus(t, nobody, "backup", "--check", dir); r.code != 1 || !strings.Contains(r.err, spoiled) || !strings.Contains(r.err, "fetches anew") {
			t.Errorf("a damaged backup: %d %s", r.code, r.err)
		}
		spoilByte(t, spoiled)
	}
	if err := os.Truncate(files[0], 3); err != nil {
		t.Fatal(err)
	}
	if r := cantus(t, nobody, "backup", "--check", dir); r.code != 1 || !strings.Contains(r.err, "not whole") {
		t.Errorf("a damaged backup: %d %s", r.code, r.err)
	}
	must(t, cantus(t, s.env, "backup", dir))
	must(t, cantus(t, nobody, "backup", "--check", dir))
}

// spoilByte changes a byte in a file's middle; twice, the file is as it was.
func spoilByte(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshot(t *testing.T) {
	path, _ := smallStream(t, 3_000)
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, append([]string{"--data", dir}, withHistory...)...)
	must(t, cantus(t, s.env, "replay", path, "--payload", "random"))
	info := decode[cluster.SnapshotInfo](t, must(t, cantus(t, s.env, "snapshot", "--json")))
	if info.ID == "" || info.Seq != 3000 || info.FirstSeq != 1 || info.HistoryFiles == 0 || info.StateBytes == 0 {
		t.Errorf("%+v", info)
	}
	all := decode[struct{ Nodes []nodeSnapshot }](t, must(t, cantus(t, s.env, "snapshot", "--all", "--json")))
	if len(all.Nodes) != 1 || all.Nodes[0].SnapshotInfo == nil || all.Nodes[0].Seq != 3000 || all.Nodes[0].NodeID == "" {
		t.Errorf("%+v", all)
	}
	r := must(t, cantus(t, s.env, "status"))
	for _, want := range []string{"history here", "snapshot here  seq 3000, ", "s ago"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("status lacks %q:\n%s", want, r.out)
		}
	}
	want := everything(t, s)
	s.stop()
	s = startServer(t, append([]string{"--data", dir}, withHistory...)...)
	if got := everything(t, s); got != want {
		t.Errorf("read %d bytes after the restart, %d before", len(got), len(want))
	}
	stats := decode[load.ReadResult](t, must(t, cantus(t, s.env, "sub", "**", "--from", "first", "--to", "caught-up", "--stats", "--json")))
	if stats.Messages != 3000 {
		t.Errorf("%+v", stats)
	}
}
