package config

import (
	"encoding/base64"
	"fmt"
	"net"
	"strconv"
	"time"
)

// problem is one broken rule.
type problem struct{ path, text string }

// problems checks the rules that go beyond one value's syntax: each has one message.
func (c *Config) problems() []problem {
	v := &validator{}
	v.node(c)
	v.cluster(c)
	v.listen(c)
	v.sizes(c)
	v.raft(c)
	return v.list
}

type validator struct{ list []problem }

func (v *validator) add(path, format string, args ...any) {
	v.list = append(v.list, problem{path, fmt.Sprintf(format, args...)})
}

func (v *validator) node(c *Config) {
	if c.Node.Data == "" {
		v.add("node.data", "names no folder")
	}
}

func (v *validator) cluster(c *Config) {
	if c.Cluster.Name == "" {
		v.add("cluster.name", "is empty: nodes of different clusters could not be told apart")
	}
	const most = 9
	if n := c.Cluster.BootstrapExpect; n > most {
		v.add("cluster.bootstrap_expect", "is %d: a cluster starts with at most %d voters", n, most)
	}
	switch alone := len(c.Cluster.Join) == 0; {
	case alone && c.Node.Replica:
		v.add("cluster.join", "is empty: a read replica joins a cluster: name at least one node")
	case alone && c.Cluster.BootstrapExpect != 1:
		v.add("cluster.join", "is empty: with bootstrap_expect other than 1, name at least one other node")
	}
	for _, addr := range c.Cluster.Join {
		v.address("cluster.join", addr, false)
	}
	if key := c.Cluster.GossipKey; key != "" {
		b, err := base64.StdEncoding.DecodeString(key)
		if err != nil || (len(b) != 16 && len(b) != 24 && len(b) != 32) {
			v.add("cluster.gossip_key", "is not 16, 24 or 32 bytes in base64: make one with \"openssl rand -base64 32\"")
		}
	}
}

func (v *validator) listen(c *Config) {
	seen := map[string]string{}
	for _, l := range []struct {
		path, addr string
		peers      bool // dialled by other nodes only
	}{
		{"listen.client", c.Listen.Client, false}, {"listen.http", c.Listen.HTTP, false},
		{"listen.raft", c.Listen.Raft, true}, {"listen.gossip", c.Listen.Gossip, true},
	} {
		if !v.address(l.path, l.addr, true) {
			continue
		}
		host, port, _ := net.SplitHostPort(l.addr)
		if l.peers && c.Cluster.Advertise == "" && everyAddress(host) {
			v.add(l.path, "%q listens on all addresses, so others cannot know which to dial: set cluster.advertise", l.addr)
		}
		if port != "0" {
			if other, taken := seen[l.addr]; taken {
				v.add(l.path, "is %s, as %s is: each needs a port of its own", l.addr, other)
			}
			seen[l.addr] = l.path
		}
	}
}

// everyAddress says whether a listen host stands for all addresses of the machine.
func everyAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// address checks host:port. Port 0 is for listeners only.
func (v *validator) address(path, addr string, zero bool) bool {
	host, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || (!zero && (n == 0 || host == "")) {
		v.add(path, "%q is not host:port, as in 127.0.0.1:4790", addr)
		return false
	}
	return true
}

func (v *validator) sizes(c *Config) {
	const (
		leastTip   = 4 << 20
		leastChunk = 2 << 20 // the largest batch must fit into a chunk
		mostChunk  = 1 << 30
	)
	if c.Tip.Size < leastTip {
		v.add("tip.size", "is below 4MiB")
	}
	if c.Tip.Chunk < leastChunk || c.Tip.Chunk > mostChunk {
		v.add("tip.chunk", "is not between 2MiB and 1GiB")
	}
	if c.Publish.MaxInflight < 2<<20 {
		v.add("publish.max_inflight", "is below 2MiB: the largest message must fit")
	}
	if n := c.Publish.EntriesInflight; n < 1 || n > 64 {
		v.add("publish.entries_inflight", "is not between 1 and 64")
	}
	v.history(c.History)
	if age := c.Retention.Age.Std(); age != 0 && age < time.Second {
		v.add("retention.age", "is below 1s, and not 0s, which is no limit")
	}
	v.limits(c.Limits)
}

func (v *validator) history(h History) {
	if h.WindowBytes < 4<<10 || h.WindowBytes > 4<<30 {
		v.add("history.window_bytes", "is not between 4KiB and 4GiB")
	}
	if h.WindowAge.Std() < time.Second {
		v.add("history.window_age", "is below 1s")
	}
	if h.PlanWindows > 1<<20 {
		v.add("history.plan_windows", "is above 1048576")
	}
	if h.StoresPerPartition < 1 || h.StoresPerPartition > 1024 {
		v.add("history.stores_per_partition", "is not between 1 and 1024")
	}
}

func (v *validator) limits(l Limits) {
	for _, limit := range []struct {
		path  string
		value Count
		most  int64
	}{
		{"limits.topics", l.Topics, 16_000_000}, {"limits.producers", l.Producers, 1 << 30},
		{"limits.connections", l.Connections, 1 << 20}, {"limits.subscriptions", l.Subscriptions, 1 << 20},
		{"limits.event_streams", l.EventStreams, 1 << 20},
	} {
		if limit.value < 1 || int64(limit.value) > limit.most {
			v.add(limit.path, "is not between 1 and %d", limit.most)
		}
	}
	if l.ConnectionInflight < 1<<20 || l.ConnectionInflight > 1<<30 {
		v.add("limits.connection_inflight", "is not between 1MiB and 1GiB")
	}
}

func (v *validator) raft(c *Config) {
	r := c.Raft
	for _, t := range []struct {
		path  string
		value Duration
		least time.Duration
	}{
		{"raft.heartbeat_timeout", r.HeartbeatTimeout, 50 * time.Millisecond},
		{"raft.election_timeout", r.ElectionTimeout, 50 * time.Millisecond},
		{"raft.lease_timeout", r.LeaseTimeout, 50 * time.Millisecond},
		{"raft.commit_timeout", r.CommitTimeout, time.Millisecond},
		{"raft.stall_limit", r.StallLimit, time.Second},
	} {
		if t.value.Std() < t.least {
			v.add(t.path, "is below %s", t.least)
		}
	}
	if r.LeaseTimeout > r.HeartbeatTimeout {
		v.add("raft.lease_timeout", "is above raft.heartbeat_timeout: an old leader could outlive the election of a new one")
	}
	if r.ElectionTimeout < r.HeartbeatTimeout {
		v.add("raft.election_timeout", "is below raft.heartbeat_timeout")
	}
}
