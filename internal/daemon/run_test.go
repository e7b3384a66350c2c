package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/control"
)

func TestSamePort(t *testing.T) {
	for _, test := range [][3]string{
		{"127.0.0.1:0", "127.0.0.1:4790", "127.0.0.1:4790"}, {"0.0.0.0:0", "10.0.0.1:7", "0.0.0.0:7"}, {"[::]:0", "host:9", "[::]:9"}, {"127.0.0.1:1", "nonsense", "127.0.0.1:1"},
	} {
		if got := samePort(test[0], test[1]); got != test[2] {
			t.Errorf("%s with the port of %s: %s", test[0], test[1], got)
		}
	}
}

// TestRunEnds: at the end of ctx without an error, and with one when it cannot start.
func TestRunEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := Run(ctx, Options{Config: loadConfig(t)}, func(*Daemon) { cancel() }); err != nil {
		t.Errorf("told to stop: %v", err)
	}
	if err := Run(t.Context(), Options{Config: loadConfig(t, "listen.client=192.0.2.1:0")}, nil); err == nil {
		t.Error("an address of another machine")
	}
}

// historyKeys keep a log of hardly anything behind snapshots.
var historyKeys = []string{
	"history.window_bytes=16KiB", "log.keep_bytes=0", "log.snapshot_bytes=16KiB", "cluster.stabilization=50ms",
}

// TestRunOpensAFetchedSnapshot: a new node whose log the others have cut away comes up in one call of Run, with everything.
func TestRunOpensAFetchedSnapshot(t *testing.T) {
	gossip := freeAddrs(t, 1)[0]
	first := start(t, append(historyKeys, "listen.gossip="+gossip)...)
	waitReady(t, first)
	c, err := client.Connect(t.Context(), client.Options{Servers: []string{first.ClientAddr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctl, err := control.New([]string{first.HTTPAddr()})
	if err != nil {
		t.Fatal(err)
	}
	defer ctl.Close()
	for cut := false; !cut; {
		fill(t, c, 200)
		if err := ctl.Post(t.Context(), "/v1/snapshot", struct{}{}, nil); err != nil {
			t.Fatal(err)
		}
		var s cluster.Status
		if err := ctl.Get(t.Context(), "/v1/status", &s); err != nil {
			t.Fatal(err)
		}
		cut = s.LogFirstIndex > 1
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	times := 0
	err = Run(ctx, Options{Config: loadConfig(t, append(historyKeys, "cluster.join="+gossip, "cluster.bootstrap_expect=0")...)}, func(d *Daemon) {
		times++
		compareStreams(t, first.ClientAddr(), d.ClientAddr())
		cancel()
	})
	if err != nil || times != 1 {
		t.Errorf("ready %d times: %v", times, err)
	}
}

// fill publishes n messages that do not compress.
func fill(t *testing.T, c *client.Client, n int) {
	t.Helper()
	p, err := c.Producer(t.Context(), client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		payload := strings.Repeat(fmt.Sprintf("%x", time.Now().UnixNano()), 10)
		if err := p.Publish(t.Context(), fmt.Sprintf("app/t%d", i%9), []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// compareStreams reads everything from two nodes, each over a connection of its own.
func compareStreams(t *testing.T, one, other string) {
	t.Helper()
	a, b := wholeStream(t, one), wholeStream(t, other)
	if len(a) == 0 || strings.Join(a, "\n") != strings.Join(b, "\n") {
		t.Errorf("%d messages from the first node, %d from the new one, or they differ", len(a), len(b))
	}
}

func wholeStream(t *testing.T, addr string) (list []string) {
	t.Helper()
	c, err := client.Connect(t.Context(), client.Options{Servers: []string{addr}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := c.Subscribe(t.Context(), client.SubscribeOptions{Filters: []string{"**"}, From: client.First(), Node: addr})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for m, err := range sub.ToCaughtUp(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%d %s %s", m.Seq, m.Topic, m.Payload))
	}
	return list
}
