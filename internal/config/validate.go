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
	if c.Node.Replica && c.Cluster.BootstrapExpect > 0 && len(c.Cluster.Join) == 0 {
		v.add("cluster.join", "a read replica joins a cluster: name at least one node")
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
	if c.Cluster.BootstrapExpect != 1 && len(c.Cluster.Join) == 0 {
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
	for _, l := range []struct{ path, addr string }{
		{"listen.client", c.Listen.Client}, {"listen.http", c.Listen.HTTP},
		{"listen.raft", c.Listen.Raft}, {"listen.gossip", c.Listen.Gossip},
	} {
		if !v.address(l.path, l.addr, true) {
			continue
		}
		if _, port, _ := net.SplitHostPort(l.addr); port != "0" {
			if other, taken := seen[l.addr]; taken {
				v.add(l.path, "is %s, as %s is: each needs a port of its own", l.addr, other)
			}
			seen[l.addr] = l.path
		}
	}
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
	if n := c.Publish.EntriesInflight; n < 1 || n > 256 {
		v.add("publish.entries_inflight", "is not between 1 and 256")
	}
	if n := c.Limits.Topics; n < 1 || n > 1<<30 {
		v.add("limits.topics", "is not between 1 and 2^30")
	}
	if n := c.Limits.Producers; n < 1 || n > 1<<30 {
		v.add("limits.producers", "is not between 1 and 2^30")
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
