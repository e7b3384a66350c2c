package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/jepsen/history"
)

func execute(args ...string) (string, error) {
	var out strings.Builder
	cmd := root(&out, io.Discard)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestList(t *testing.T) {
	text, err := execute("list")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exactly-once", "cut-ring", "needs root and ext4", "mix"} {
		if !strings.Contains(text, name) {
			t.Errorf("%q is not listed:\n%s", name, text)
		}
	}
}

// TestCheck: a history that breaks a promise fails the command, one that breaks none does not.
func TestCheck(t *testing.T) {
	for _, seqs := range [][]uint64{{1, 2}, {2, 1}} {
		path := filepath.Join(t.TempDir(), "h")
		w, err := history.Create(path, history.Header{Workload: "w"})
		if err != nil {
			t.Fatal(err)
		}
		w.Write(&history.ReaderOpened{Reader: 1, Filters: []string{"**"}, Start: history.StartFirst})
		for _, seq := range seqs {
			id := w.NextID()
			w.Write(&history.Publish{Messages: []history.Sent{{ID: id, Topic: "t"}}, Outcome: history.OK, FirstSeq: seq})
			w.Write(&history.Delivery{Reader: 1, Seq: seq, Topic: "t", ID: id})
		}
		w.Write(&history.ReaderEnded{Reader: 1, Position: 2})
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text, err := execute("check", path)
		if good := seqs[0] < seqs[1]; good != (err == nil) || good == strings.Contains(text, "BROKEN") {
			t.Errorf("seqs %v: %v\n%s", seqs, err, text)
		}
	}
}

func TestUnknown(t *testing.T) {
	for _, args := range [][]string{
		{"run", "--binary", "/bin/true", "--workload", "nothing"}, {"run", "--binary", "/bin/true", "--nemesis", "nothing"},
		{"check", "/nothing"}, {"sum", "/nothing"}, {"bugs", "--nothing"}, {"bugs", "bug_nothing"}, {"guards", "bug_no_fsync"}, {"cases", "--binary", "/bin/true", "nothing"},
	} {
		if _, err := execute(args...); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
