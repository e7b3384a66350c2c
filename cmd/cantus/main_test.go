package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// asCommand in the environment makes the test binary behave as cantus itself, so that demo can start it as a node.
const asCommand = "TEST_BINARY_AS_CANTUS"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	os.Exit(m.Run())
}

// result of one command line.
type result struct {
	code     int
	out, err string
}

// cantus runs a command line in this process, with no environment but env and no contexts but those env names.
func cantus(t *testing.T, env []string, args ...string) result {
	t.Helper()
	return cantusWith(t, t.Context(), nil, env, args...)
}

func cantusWith(t *testing.T, ctx context.Context, in io.Reader, env []string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	base := []string{"CANTUS_CONTEXTS=" + filepath.Join(t.TempDir(), "contexts.yaml")}
	code := run(ctx, args, streams{in, &out, &errs, append(base, env...)})
	return result{code, out.String(), errs.String()}
}

// must fails the test unless the command line succeeded.
func must(t *testing.T, r result) result {
	t.Helper()
	if r.code != 0 {
		t.Fatalf("exit code %d\nout: %s\nerr: %s", r.code, r.out, r.err)
	}
	return r
}

// decode reads the whole output as one JSON object.
func decode[T any](t *testing.T, r result) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(r.out), &v); err != nil {
		t.Fatalf("not one JSON value: %v\nout: %s\nerr: %s", err, r.out, r.err)
	}
	return v
}

// server is a node that serve runs in this process.
type server struct {
	env  []string // for commands that talk to it
	stop func() result
}

// startServer runs serve with all ports free, waits for the ready line, and stops at the test's end.
func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out, w := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	env := []string{
		"CANTUS_LISTEN_CLIENT=127.0.0.1:0", "CANTUS_LISTEN_HTTP=127.0.0.1:0", "CANTUS_LISTEN_RAFT=127.0.0.1:0",
		"CANTUS_LISTEN_GOSSIP=127.0.0.1:0", "CANTUS_TIP_SIZE=64MiB", "CANTUS_CONTEXTS=" + filepath.Join(t.TempDir(), "none"),
	}
	go func() {
		ended <- run(ctx, append([]string{"serve"}, args...), streams{strings.NewReader(""), w, &errs, env})
		w.Close()
	}()
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v, exit code %d\n%s", err, <-ended, errs.String())
	}
	fields := strings.Fields(line)
	if len(fields) != 7 || fields[0] != "ready:" {
		t.Fatalf("ready line %q", line)
	}
	s := &server{env: []string{"CANTUS_SERVER=" + strings.TrimSuffix(fields[4], ","), "CANTUS_HTTP=" + fields[6]}}
	stopped := false
	s.stop = func() result {
		stopped = true
		cancel()
		rest, _ := io.ReadAll(lines)
		select {
		case code := <-ended:
			return result{code, string(rest), errs.String()}
		case <-time.After(30 * time.Second):
			t.Fatal("serve does not stop")
			return result{}
		}
	}
	t.Cleanup(func() {
		if !stopped {
			s.stop()
		}
	})
	return s
}
