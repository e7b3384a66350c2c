package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// TestReaderOfADamagedNodeMissesNothing: files of history are damaged under a client that reads them: it gets everything, in order, from
// other nodes if it must, and the node mends itself.
func TestReaderOfADamagedNodeMissesNothing(t *testing.T) {
	nodes, _ := threeDaemons(t, "tip.size=4MiB", "tip.chunk=2MiB", "history.plan_windows=0", "history.scrub_interval=1s")
	c, err := client.Connect(t.Context(), client.Options{Servers: []string{nodes[0].ClientAddr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(t.Context(), client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const messages = 600 // of 20 KiB: half of them leave the ring of 8 MiB
	for i := range messages {
		if err := p.Publish(t.Context(), fmt.Sprintf("app/x%d", i%7), []byte(strings.Repeat("x", 20<<10))); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := nodes[2]
	node := d.instance().node
	deadline := time.Now().Add(30 * time.Second)
	for len(node.Stream().HistoryFiles()) < 20 {
		if time.Now().After(deadline) {
			t.Fatal("history is not written")
		}
		time.Sleep(5 * time.Millisecond)
	}
	whole := map[string][]byte{}
	for _, f := range node.Stream().HistoryFiles()[2:6] {
		path := filepath.Join(d.o.Config.Config.Node.Data, "history", f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[path] = bytes.Clone(b)
		b[len(b)/4] ^= 4 // in a block
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	seqs := readAllAt(t, d, messages)
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			t.Fatalf("message %d came where %d was to come", seq, i+1)
		}
	}
	if len(seqs) != messages {
		t.Errorf("%d messages of %d came", len(seqs), messages)
	}
	for path, want := range whole {
		for b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want); b, err = os.ReadFile(path) {
			if time.Now().After(deadline) {
				t.Fatalf("%s is not repaired (%v): %+v", path, err, d.instance().node.Stream().HistoryStatus())
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}
