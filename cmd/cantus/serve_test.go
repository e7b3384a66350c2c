package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/dataset"
	"github.com/cantus-bus/cantus/internal/load"
	"github.com/cantus-bus/cantus/transport/http"
)

func TestServePubSub(t *testing.T) {
	s := startServer(t, "--dev")
	ack := decode[published](t, must(t, cantus(t, s.env, "pub", "app/x", "hello", "--header", "a=b", "--json")))
	if at, err := time.Parse(time.RFC3339Nano, ack.Time); ack.Seq != 1 || err != nil || time.Since(at) > time.Hour {
		t.Errorf("ack %+v, %v", ack, err)
	}
	lines := strings.NewReader("one\ntwo\n\nfour")
	r := must(t, cantusWith(t, t.Context(), lines, s.env, "pub", "app/y", "-"))
	if want := "seq 5 at "; strings.Count(r.out, "\n") != 4 || !strings.Contains(r.out, want) {
		t.Errorf("four lines printed %q", r.out)
	}
	must(t, cantus(t, s.env, "pub", "bin", "\xff\x00"))
	r = must(t, cantus(t, s.env, "sub", "**", "--from", "first", "--to", "caught-up", "--json"))
	var got []received
	for line := range strings.Lines(r.out) {
		var m received
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		got = append(got, m)
	}
	if len(got) != 6 || got[0].Headers["a"] != "b" || *got[0].Payload != "hello" || *got[3].Payload != "" || got[4].Topic != "app/y" || got[5].Base64 != "/wA=" {
		t.Errorf("read %s", r.out)
	}
	r = must(t, cantus(t, s.env, "sub", "app/**", "--from", "2", "--count", "2", "--raw"))
	if r.out != "one\ntwo\n" {
		t.Errorf("raw: %q", r.out)
	}
	r = must(t, cantus(t, s.env, "sub", "app/x", "--from", "-1h", "--count", "1"))
	if !strings.HasPrefix(r.out, "1  ") || !strings.HasSuffix(r.out, "app/x  a=b hello\n") {
		t.Errorf("for people: %q", r.out)
	}
	for _, bad := range []string{"a//b", "a/*/b", strings.Repeat("x", 600), ""} {
		if r := cantus(t, s.env, "pub", bad, "x"); r.code != 1 {
			t.Errorf("pub to %.20q: exit code %d: %s", bad, r.code, r.err)
		}
	}
	if r := cantus(t, s.env, "sub", "app/x", "--from", "first", "--count", "1", "--at", "nowhere"); r.code != 1 || !strings.Contains(r.err, "nowhere") || r.out != "" {
		t.Errorf("a node that is none: exit code %d: %s%s", r.code, r.out, r.err)
	}
	at := strings.TrimPrefix(s.env[0], "CANTUS_SERVER=")
	must(t, cantus(t, s.env, "sub", "app/x", "--from", "first", "--count", "1", "--at", at))
	if r := cantus(t, s.env, "sub", "a/*/b"); r.code != 1 || !strings.Contains(r.err, "filter") {
		t.Errorf("bad filter: exit code %d: %s", r.code, r.err)
	}
}

// TestSubForEver: reading until told to stop is no failure, and the summary comes.
func TestSubForEver(t *testing.T) {
	s := startServer(t, "--dev")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan result, 1)
	go func() {
		ended <- cantusWith(t, ctx, nil, s.env, "sub", "a/**", "--from", "first", "--stats", "--json")
	}()
	must(t, cantus(t, s.env, "pub", "a/b", "x"))
	// The reader gets the message sooner or later; it is told to stop once another reader has had it.
	must(t, cantus(t, s.env, "sub", "a/**", "--from", "first", "--count", "1"))
	cancel()
	r := must(t, <-ended)
	if got := decode[load.ReadResult](t, r); got.Messages > 1 || got.FromHistory != 0 {
		t.Errorf("summary %+v", got)
	}
}

func TestControlCommands(t *testing.T) {
	s := startServer(t, "--dev")
	must(t, cantus(t, s.env, "pub", "app/x", "hello"))
	status := decode[cluster.Status](t, must(t, cantus(t, s.env, "status", "--json")))
	if !status.Healthy || status.Leader != status.NodeID || len(status.Nodes) != 1 || status.AppliedSeq != 1 || status.CommitIndex == 0 {
		t.Errorf("status %+v", status)
	}
	if r := must(t, cantus(t, s.env, "status")); !strings.Contains(r.out, status.Leader) || !strings.Contains(r.out, "healthy") {
		t.Errorf("status for people: %s", r.out)
	}
	if r := must(t, cantus(t, s.env, "node", "list")); !strings.Contains(r.out, "leader") {
		t.Errorf("node list: %s", r.out)
	}
	page := decode[http.TopicPage](t, must(t, cantus(t, s.env, "topics", "app/**", "--json")))
	if len(page.Topics) != 1 || page.Topics[0].Messages != 1 || page.Topics[0].Bytes != 5 {
		t.Errorf("topics %+v", page)
	}
	if r := cantus(t, s.env, "topics", "--sort", "age"); r.code != 2 || !strings.Contains(r.err, "sort") {
		t.Errorf("bad sort: %d %s", r.code, r.err)
	}
	v := decode[http.Verification](t, must(t, cantus(t, s.env, "verify", "--json")))
	if !v.Equal || v.Seq != 1 || len(v.Nodes) != 1 {
		t.Errorf("verify %+v", v)
	}
	if r := cantus(t, s.env, "node", "remove", "nobody"); r.code != 1 || r.err == "" {
		t.Errorf("remove nobody: %d %s", r.code, r.err)
	}
	if r := cantus(t, s.env, "leader", "transfer"); r.code != 1 || r.err == "" {
		t.Errorf("transfer to nobody: %d %s", r.code, r.err)
	}
}

// smallStream is a cut of the built-in sample with small payloads.
func smallStream(t *testing.T, rows int) (path string, list []dataset.Row) {
	t.Helper()
	sample, err := dataset.OpenSample()
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	fmt.Fprint(z, "unix_seconds\ttopic\tbytes\n")
	for range rows {
		row, err := sample.Next()
		if err != nil {
			t.Fatal(err)
		}
		row.Topic, row.Bytes = bytes.Clone(row.Topic), row.Bytes%512
		list = append(list, row)
		fmt.Fprintf(z, "%d\t%s\t%d\n", row.Seconds, row.Topic, row.Bytes)
	}
	z.Close()
	path = filepath.Join(t.TempDir(), "stream.tsv.gz")
	if err := os.WriteFile(path, zipped.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, list
}

// TestReplayCountsAsTheFile: what every kind of filter reads is what the file holds, by the obvious count.
func TestReplayCountsAsTheFile(t *testing.T) {
	const rows = 12_000
	path, list := smallStream(t, rows)
	for _, producers := range []string{"1", "3"} {
		s := startServer(t, "--dev")
		r := decode[load.Result](t, must(t, cantus(t, s.env, "replay", path, "--producers", producers, "--json")))
		if r.Published != rows || r.Acked != rows || r.Refused != 0 || r.FirstSeq != 1 || r.LastSeq != rows {
			t.Errorf("%s producers: %+v", producers, r)
		}
		for _, filters := range [][]string{
			{"**"}, {"ansible/**"}, {"ansible/lib/**"}, {"etcd/server/**"}, {"rqlite/**", "etcd/**"}, {"prometheus/**"},
			{"ansible/CHANGELOG.md"}, {"ansible/**", "ansible/lib/**", "ansible/lib/ansible/runner/__init__.py"},
			{"nobody/**"}, {"ansible"}, {"**", "etcd/README.md"},
		} {
			args := append([]string{"sub", "--from", "first", "--to", "caught-up", "--stats", "--json"}, filters...)
			got := decode[load.ReadResult](t, must(t, cantus(t, s.env, args...)))
			if want := dataset.CountMatches(list, filters); got.Messages != want.Messages || got.Bytes != want.Bytes || got.FromTip != want.Messages {
				t.Errorf("%s producers, %q: %+v, want %+v", producers, filters, got, want)
			}
		}
	}
}

// TestReplayOrderAndPayloads: with one producer seq is the row number, and payloads are made from it.
func TestReplayOrderAndPayloads(t *testing.T) {
	path, list := smallStream(t, 500)
	s := startServer(t, "--dev")
	must(t, cantus(t, s.env, "replay", path, "--payload", "random", "--speed", "1000000000x"))
	r := must(t, cantus(t, s.env, "sub", "**", "--from", "first", "--to", "caught-up", "--json"))
	n := 0
	for line := range strings.Lines(r.out) {
		var m struct {
			Seq    uint64
			Topic  string
			Base64 []byte `json:"payload_base64"`
			Text   string `json:"payload"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		row := list[n]
		n++
		if m.Text != "" {
			m.Base64 = []byte(m.Text)
		}
		if m.Seq != row.Number || m.Topic != string(row.Topic) || !bytes.Equal(m.Base64, dataset.Random.AppendPayload(nil, row.Number, row.Bytes)) {
			t.Fatalf("row %d: seq %d, topic %s, %d bytes", row.Number, m.Seq, m.Topic, len(m.Base64))
		}
	}
	if n != len(list) {
		t.Errorf("%d messages of %d rows", n, len(list))
	}
}

func TestReplayOfABadFile(t *testing.T) {
	s := startServer(t, "--dev")
	path := filepath.Join(t.TempDir(), "f.tsv")
	if err := os.WriteFile(path, []byte("unix_seconds\ttopic\tbytes\n1\ta\t1\n2\ta//b\t1\n3\ta\t1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := cantus(t, s.env, "replay", path, "--json")
	if got := decode[load.Result](t, r); r.code != 1 || got.Acked != 2 || got.Refused != 1 || !strings.Contains(r.err, "row 2") {
		t.Errorf("a bad topic: exit code %d, %+v, %s", r.code, got, r.err)
	}
	if err := os.WriteFile(path, []byte("unix_seconds\ttopic\tbytes\n1\ta\tx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := cantus(t, s.env, "replay", path); r.code != 1 || !strings.Contains(r.err, path+":2: bytes") {
		t.Errorf("a bad line: exit code %d, %s", r.code, r.err)
	}
}

func TestBenchPublish(t *testing.T) {
	s := startServer(t, "--dev")
	for _, extra := range [][]string{nil, {"--inflight", "1", "--msgs", "50"}, {"--payload", "random", "--rate", "20000"}, {"--size", "20"}} {
		args := append([]string{"bench", "publish", "--json", "--clients", "3", "--msgs", "1000", "--topics", "7"}, extra...)
		r := decode[benchResult](t, must(t, cantus(t, s.env, args...)))
		if r.Errors != 0 || r.Acked != r.Published || r.PerSecond <= 0 || r.MBPerS <= 0 || r.P50MS <= 0 || r.P50MS > r.P999MS {
			t.Errorf("%v: %+v", extra, r)
		}
	}
	r := must(t, cantus(t, s.env, "sub", "bench/p0/t3", "--from", "first", "--count", "1", "--raw"))
	var event struct{ Type, Player string }
	if err := json.Unmarshal([]byte(r.out), &event); err != nil || event.Type == "" || len(r.out) != 129 {
		t.Errorf("event %q: %v", r.out, err)
	}
}

func TestServeKeepsItsData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := startServer(t, "--dev", "--data", dir)
	must(t, cantus(t, s.env, "pub", "a/b", "kept"))
	if r := s.stop(); r.code != 0 || r.out != "" {
		t.Errorf("stop: exit code %d, more output %q, %s", r.code, r.out, r.err)
	}
	s = startServer(t, "--dev", "--data", dir)
	r := must(t, cantus(t, s.env, "sub", "a/b", "--from", "first", "--to", "caught-up", "--raw"))
	if r.out != "kept\n" {
		t.Errorf("after a restart: %q", r.out)
	}
	second := cantus(t, []string{"CANTUS_LISTEN_CLIENT=127.0.0.1:0", "CANTUS_LISTEN_HTTP=127.0.0.1:0", "CANTUS_LISTEN_RAFT=127.0.0.1:0",
		"CANTUS_LISTEN_GOSSIP=127.0.0.1:0"}, "serve", "--dev", "--data", dir)
	if second.code != 1 || !strings.Contains(second.err, dir) {
		t.Errorf("a folder in use: exit code %d, %s", second.code, second.err)
	}
}

func TestServeLeavesNoTemporaryFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	s := startServer(t, "--dev")
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) != 1 {
		t.Errorf("while running: %v, %v", entries, err)
	}
	s.stop()
	if entries, err := os.ReadDir(tmp); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestPortInUse: the message names the key and its variable, for each of the four listeners.
func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, key := range []string{"CLIENT", "HTTP", "RAFT", "GOSSIP"} {
		env := []string{}
		for _, other := range []string{"CLIENT", "HTTP", "RAFT", "GOSSIP"} {
			addr := "127.0.0.1:0"
			if other == key {
				addr = taken.Addr().String()
			}
			env = append(env, "CANTUS_LISTEN_"+other+"="+addr)
		}
		r := cantus(t, env, "serve", "--dev")
		if r.code != 1 || !strings.Contains(r.err, "in use") || !strings.Contains(r.err, "CANTUS_LISTEN_"+key) {
			t.Errorf("%s: exit code %d: %s", key, r.code, r.err)
		}
	}
}
