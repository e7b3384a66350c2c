package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/internal/leak"
	"github.com/cantus-bus/cantus/internal/loopback"
)

var nullLogger = hclog.NewNullLogger()

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// freeAddrs are n addresses for nodes that name each other or come back on their ports.
func freeAddrs(t *testing.T, n int) []string {
	t.Helper()
	addrs, err := loopback.Addrs(n)
	if err != nil {
		t.Fatal(err)
	}
	return addrs
}

// loadConfig is a quick node on free ports of loopback, with these lines on top.
func loadConfig(t *testing.T, set ...string) *config.Loaded {
	t.Helper()
	var flags []config.Flag
	addrs := freeAddrs(t, 4)
	for _, s := range append([]string{
		"node.data=" + t.TempDir(), "tip.size=64MiB", "listen.client=" + addrs[0], "listen.http=" + addrs[1],
		"listen.raft=" + addrs[2], "listen.gossip=" + addrs[3], "raft.heartbeat_timeout=300ms", "raft.election_timeout=300ms",
		"raft.lease_timeout=300ms",
	}, set...) {
		path, value, _ := strings.Cut(s, "=")
		flags = append(flags, config.Flag{Name: "--set", Path: path, Value: value})
	}
	l, err := config.Load(config.Inputs{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func start(t *testing.T, set ...string) *Daemon {
	t.Helper()
	d, err := Start(Options{Config: loadConfig(t, set...), Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, d) })
	return d
}

func shutdown(t *testing.T, d *Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := d.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

func waitReady(t *testing.T, d *Daemon) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := d.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestThreeNodes: daemons that find each other by gossip take a publish at any of them and serve it at all.
func TestThreeNodes(t *testing.T) {
	join := freeAddrs(t, 3)
	var nodes []*Daemon
	for _, gossip := range join {
		nodes = append(nodes, start(t, "listen.gossip="+gossip, "cluster.bootstrap_expect=3", "cluster.join="+strings.Join(join, ",")))
	}
	for _, d := range nodes {
		waitReady(t, d)
	}
	for i, d := range nodes {
		publishAndRead(t, d, fmt.Sprintf("app/node%d", i))
	}
}

func publishAndRead(t *testing.T, d *Daemon, topic string) {
	t.Helper()
	c, err := client.Connect(t.Context(), client.Options{Servers: []string{d.ClientAddr()}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(t.Context(), client.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ack, err := p.PublishSync(t.Context(), topic, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	sub, err := c.Subscribe(t.Context(), client.SubscribeOptions{Filters: []string{topic}, MinSeq: ack.Seq, MinSeqWait: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	for m, err := range sub.ToCaughtUp(t.Context()) {
		if err != nil || m.Seq != ack.Seq {
			t.Errorf("read %d, %v; published %d", m.Seq, err, ack.Seq)
		}
		return
	}
	t.Errorf("nothing read at %s", topic)
}

func TestPortInUseLeavesNothing(t *testing.T) {
	first := start(t)
	waitReady(t, first)
	for _, key := range []string{"listen.client", "listen.http"} {
		_, err := Start(Options{Config: loadConfig(t, key+"="+first.ClientAddr())})
		if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if _, err := Start(Options{Config: loadConfig(t, "listen.client=192.0.2.1:0")}); err == nil || !strings.Contains(err.Error(), "CANTUS_LISTEN_CLIENT") {
		t.Errorf("an address of another machine: %v", err)
	}
}

// TestNotReady: a node that waits for others says so when the wait is cut short.
func TestNotReady(t *testing.T) {
	d := start(t, "cluster.bootstrap_expect=3", "cluster.join=127.0.0.1:1")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.WaitReady(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ready alone: %v", err)
	}
}

func TestReachable(t *testing.T) {
	for _, test := range []struct{ bound, advertise, raft, want string }{
		{"10.0.0.1:4790", "", "10.0.0.1:1", "10.0.0.1:4790"},
		{"0.0.0.0:4790", "", "10.0.0.2:1", "10.0.0.2:4790"},
		{"[::]:4790", "host.example", "0.0.0.0:1", "host.example:4790"},
		{"10.0.0.1:4790", "host.example", "10.0.0.1:1", "host.example:4790"},
	} {
		addr, err := net.ResolveTCPAddr("tcp", test.bound)
		if err != nil {
			t.Fatal(err)
		}
		c := &config.Config{Cluster: config.Cluster{Advertise: test.advertise}, Listen: config.Listen{Raft: test.raft}}
		if got := reachable(c, addr); got != test.want {
			t.Errorf("bound %s, advertise %q: %s, want %s", test.bound, test.advertise, got, test.want)
		}
	}
}

// TestEveryKeyHasAnEffect: a key that reaches no option is a promise that nobody keeps.
func TestEveryKeyHasAnEffect(t *testing.T) {
	different := map[string]string{
		"node.name": "x", "node.data": "/x", "node.replica": "true", "node.on_damage": "refuse", "cluster.name": "x", "cluster.bootstrap_expect": "3",
		"cluster.join": "x:1", "cluster.advertise": "x", "cluster.stabilization": "1s", "cluster.cleanup_dead_after": "1h",
		"cluster.gossip_key": "MDEyMzQ1Njc4OWFiY2RlZg==", "listen.raft": "127.0.0.1:7", "listen.gossip": "127.0.0.1:8",
		"tip.size": "65MiB", "tip.index": "off", "tip.chunk": "8MiB", "log.codec": "zstd", "log.min_free": "1GiB",
		"log.snapshot_bytes": "1MiB", "log.keep_bytes": "2MiB",
		"publish.max_inflight": "3MiB", "publish.entries_inflight": "3", "publish.wait": "1s", "limits.topics": "5", "limits.producers": "6",
		"limits.connections": "7", "limits.connection_inflight": "2MiB", "limits.subscriptions": "8", "limits.event_streams": "9",
		"raft.heartbeat_timeout": "700ms", "raft.election_timeout": "2s", "raft.lease_timeout": "200ms", "raft.commit_timeout": "7ms",
		"raft.stall_limit": "9s", "http.pprof": "true", "history.window_bytes": "1MiB", "history.window_age": "1m",
		"history.plan_windows": "0", "history.stores_per_partition": "9", "history.rewrite_rate": "0",
		"history.scrub_interval": "1h", "history.scrub_rate": "0",
		"retention.age": "1h", "retention.bytes": "1GiB", "retention.count": "1M",
	}
	elsewhere := map[string]bool{ // used by listen, by the command, or with one allowed value
		"listen.client": true, "listen.http": true, "logging.level": true, "logging.json": true, "log.store": true,
	}
	options := func(set ...string) string {
		o := Options{Config: loadConfig(t, append([]string{"node.data=/d", "cluster.join=y:1", "raft.election_timeout=5s"}, set...)...)}
		http := httpOptions(Options{Config: o.Config, Logger: nullLogger}, nil, nil)
		http.Config = nil // holds every key by itself
		cl, history := clusterOptions(&o.Config.Config, Options{Logger: nullLogger}, nil), "none"
		if h := cl.Stream.History; h != nil {
			history, cl.Stream.History = fmt.Sprintf("%+v", *h), nil // a pointer would print as its address
		}
		return fmt.Sprintf("%+v %+v %+v %+v", cl, history, transportOptions(&o.Config.Config, nil, nullLogger, nil), http)
	}
	plain := options()
	for _, key := range config.Keys() {
		if elsewhere[key.Path] {
			continue
		}
		value, ok := different[key.Path]
		if !ok {
			t.Errorf("%s: give it another value here", key.Path)
			continue
		}
		if options(key.Path+"="+value) == plain {
			t.Errorf("%s=%s changes no option", key.Path, value)
		}
	}
}

// A removed node sends its clients to the others and takes no more: it would keep them waiting for ever.
func TestRemovedNodeTurnsClientsAway(t *testing.T) {
	join := freeAddrs(t, 3)
	var nodes []*Daemon
	var servers []string
	for _, gossip := range join {
		d := start(t, "listen.gossip="+gossip, "cluster.bootstrap_expect=3", "cluster.join="+strings.Join(join, ","))
		nodes, servers = append(nodes, d), append(servers, d.ClientAddr())
	}
	for _, d := range nodes {
		waitReady(t, d)
	}
	gone := nodes[0]
	c, err := client.Connect(t.Context(), client.Options{Servers: servers[:1]})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sub, err := c.Subscribe(t.Context(), client.SubscribeOptions{Filters: []string{"**"}, From: client.First(), Node: gone.NodeID()})
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for err = errors.New("not tried"); err != nil && ctx.Err() == nil; {
		for _, d := range nodes { // whoever leads
			if err = d.instance().node.RemoveNode(ctx, gone.NodeID()); err == nil {
				break
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	publishAndRead(t, nodes[1], "app/after")
	for m, err := range sub.Messages(ctx) {
		if err != nil || m.Topic != "app/after" {
			t.Errorf("the reader of the removed node got %v, %v", m, err)
		}
		break
	}
	for err = nil; err == nil && ctx.Err() == nil; {
		var nc net.Conn
		if nc, err = net.Dial("tcp", gone.ClientAddr()); err == nil {
			nc.Close()
			time.Sleep(10 * time.Millisecond)
		}
	}
	if err == nil {
		t.Error("the removed node still takes clients")
	}
}
