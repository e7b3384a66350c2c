package daemon

import (
	"context"
	"fmt"
	nethttp "net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// threeDaemons are three voters with history in small windows, and with these lines on top. The cleanup shuts down those in nodes, also what the test puts there.
func threeDaemons(t *testing.T, set ...string) (nodes []*Daemon, restart func(i int) *Daemon) {
	t.Helper()
	join := freeAddrs(t, 3)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	run := func(i int) *Daemon {
		d, err := Start(Options{Version: "test", Config: loadConfig(t, append([]string{"node.data=" + dirs[i], "listen.gossip=" + join[i], "cluster.bootstrap_expect=3",
			"cluster.join=" + strings.Join(join, ","), "history.window_bytes=64KiB", "log.snapshot_bytes=1GiB", "log.keep_bytes=1B"}, set...)...)})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	nodes = make([]*Daemon, 3)
	for i := range nodes {
		nodes[i] = run(i)
		t.Cleanup(func() { shutdown(t, nodes[i]) })
	}
	for _, d := range nodes {
		waitReady(t, d)
	}
	return nodes, run
}

// TestNodeIsOpenedAgainInTheSameProcess: a daemon whose node has fetched a snapshot goes on, on the same ports, and whoever watches it
// sees a process that lives.
func TestNodeIsOpenedAgainInTheSameProcess(t *testing.T) {
	nodes, restart := threeDaemons(t)
	fill := func(n int) (last uint64) {
		c, err := client.Connect(t.Context(), client.Options{Servers: []string{nodes[0].ClientAddr()}})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p, err := c.Producer(t.Context(), client.ProducerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range n {
			ack, err := p.PublishSync(t.Context(), fmt.Sprintf("app/x%d", i%7), []byte(strings.Repeat("x", 20<<10)))
			if err != nil {
				t.Fatal(err)
			}
			last = ack.Seq
		}
		return last
	}
	fill(5)
	at := nodes[2].instance().node.Status(t.Context()).CommitIndex
	shutdown(t, nodes[2])
	for cut, deadline := false, time.Now().Add(30*time.Second); !cut; {
		if time.Now().After(deadline) {
			t.Fatal("the logs are not cut")
		}
		fill(20)
		cut = true
		for _, d := range nodes[:2] {
			n := d.instance().node
			if _, err := n.TakeSnapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
			cut = cut && n.Status(t.Context()).LogFirstIndex > at+1
		}
	}
	last := fill(1)

	nodes[2] = restart(2)
	d := nodes[2]
	first, watch := d.instance(), watchLive(t, d.HTTPAddr())
	deadline := time.Now().Add(30 * time.Second)
	for d.instance() == first && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	waitReady(t, d)
	watch()
	select {
	case <-d.Failed():
		t.Fatal(d.Err())
	default:
	}
	if d.instance() == first {
		t.Fatal("it was not opened again: the test shows nothing")
	}
	if was, is := first.node.RaftAddr(), d.instance().node.RaftAddr(); was != is {
		t.Errorf("raft's port changed from %s to %s", was, is)
	}
	seqs := readAllAt(t, d, last)
	if uint64(len(seqs)) != last || !slices.IsSorted(seqs) {
		t.Errorf("%d messages read, %d were published", len(seqs), last)
	}
}

// watchLive asks whether the process lives until the returned function is called, and fails the test when it does not say so twice in a
// row: a server that is shut down drops the connections that it had accepted just before.
func watchLive(t *testing.T, addr string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		hc := nethttp.Client{Transport: &nethttp.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
		for dropped := false; ctx.Err() == nil; {
			resp, err := hc.Get("http://" + addr + livePath)
			if err != nil && dropped {
				t.Errorf("the process seems dead: %v", err)
				return
			}
			if dropped = err != nil; dropped {
				continue
			}
			if resp.Body.Close(); resp.StatusCode != nethttp.StatusOK {
				t.Errorf("the process seems dead: %s", resp.Status)
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func readAllAt(t *testing.T, d *Daemon, last uint64) (seqs []uint64) {
	t.Helper()
	c, err := client.Connect(t.Context(), client.Options{Servers: []string{d.ClientAddr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := c.Subscribe(t.Context(), client.SubscribeOptions{Filters: []string{"**"}, From: client.First(), MinSeq: last, MinSeqWait: 30 * time.Second, Node: d.NodeID()})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for m, err := range sub.ToCaughtUp(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		seqs = append(seqs, m.Seq)
	}
	return seqs
}
