package daemon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport"
	"github.com/cantus-bus/cantus/transport/http"
)

var codecs = map[string]record.Codec{"none": record.CodecNone, "s2": record.CodecS2, "lz4": record.CodecLZ4, "zstd": record.CodecZstd}

func clusterOptions(c *config.Config, o Options, registry prometheus.Registerer) cluster.Options {
	opts := cluster.Options{
		DataDir:          c.Node.Data,
		Name:             nodeName(c),
		Version:          o.Version,
		ClusterName:      c.Cluster.Name,
		BootstrapExpect:  int(c.Cluster.BootstrapExpect),
		Join:             c.Cluster.Join,
		Replica:          c.Node.Replica,
		RaftListen:       c.Listen.Raft,
		GossipListen:     c.Listen.Gossip,
		Advertise:        c.Cluster.Advertise,
		GossipKey:        gossipKey(c),
		Stream:           streamOptions(c),
		History:          historyPolicy(c),
		OnDamage:         c.Node.OnDamage,
		LogStore:         c.Log.Store,
		Codec:            codecs[c.Log.Codec],
		Uncompressed:     c.Log.Codec == "none",
		MaxInflight:      int(c.Publish.MaxInflight),
		EntriesInflight:  int(c.Publish.EntriesInflight),
		MinFreeBytes:     int64(c.Log.MinFree),
		SnapshotBytes:    max(int64(c.Log.SnapshotBytes), 1), // 0, to cluster, is the default
		LogKeepBytes:     max(int64(c.Log.KeepBytes), 1),
		PublishWait:      c.Publish.Wait.Std(),
		HeartbeatTimeout: c.Raft.HeartbeatTimeout.Std(),
		ElectionTimeout:  c.Raft.ElectionTimeout.Std(),
		LeaseTimeout:     c.Raft.LeaseTimeout.Std(),
		CommitTimeout:    c.Raft.CommitTimeout.Std(),
		StallLimit:       c.Raft.StallLimit.Std(),
		Stabilization:    c.Cluster.Stabilization.Std(),
		CleanupDeadAfter: c.Cluster.CleanupDeadAfter.Std(),
		Logger:           o.Logger.Named("cluster"),
		Registry:         registry,
	}
	if opts.MinFreeBytes == 0 {
		opts.MinFreeBytes = -1 // the configuration says "never refuse", which cluster spells so
	}
	if c.Node.Replica {
		opts.BootstrapExpect = 0
	}
	return opts
}

func historyPolicy(c *config.Config) cluster.HistoryPolicy {
	p := cluster.HistoryPolicy{
		WindowBytes:        uint64(c.History.WindowBytes),
		WindowAge:          c.History.WindowAge.Std(),
		PlanWindows:        int(c.History.PlanWindows),
		StoresPerPartition: int(c.History.StoresPerPartition),
	}
	p.RetainAge, p.RetainBytes, p.RetainCount = fsm.Unlimited, fsm.Unlimited, fsm.Unlimited // the configuration says 0
	if r := &c.Retention; r.Age > 0 {
		p.RetainAge = r.Age.Std()
	}
	if r := &c.Retention; r.Bytes > 0 {
		p.RetainBytes = uint64(r.Bytes)
	}
	if r := &c.Retention; r.Count > 0 {
		p.RetainCount = uint64(r.Count)
	}
	if p.PlanWindows == 0 {
		p.PlanWindows = -1 // the configuration says "only when asked to", which cluster spells so
	}
	return p
}

func streamOptions(c *config.Config) cluster.StreamOptions {
	return cluster.StreamOptions{
		Tip: tipstore.Options{
			SizeBytes:  int64(c.Tip.Size),
			ChunkBytes: int(c.Tip.Chunk),
			IndexOff:   c.Tip.Index == "off",
		},
		MaxTopics:    int(c.Limits.Topics),
		MaxProducers: int(c.Limits.Producers),
		History: &cluster.HistoryOptions{
			RewriteRate: int64(c.History.RewriteRate), ScrubInterval: c.History.ScrubInterval.Std(), ScrubRate: int64(c.History.ScrubRate),
		},
	}
}

func transportOptions(c *config.Config, node *cluster.Node, logger hclog.Logger, registry prometheus.Registerer) transport.Options {
	return transport.Options{
		Broker:           node,
		Logger:           logger.Named("transport"),
		Registry:         registry,
		MaxConnections:   int(c.Limits.Connections),
		MaxInflight:      int(c.Limits.ConnectionInflight),
		MaxSubscriptions: int(c.Limits.Subscriptions),
	}
}

func httpOptions(o Options, node *cluster.Node, registry prometheus.Gatherer) http.Options {
	return http.Options{
		Node:             node,
		Logger:           o.Logger.Named("http"),
		Gatherer:         registry,
		Config:           o.Config.Entries(),
		Pprof:            o.Config.Config.HTTP.Pprof,
		MaxSubscriptions: int(o.Config.Config.Limits.EventStreams),
	}
}

// nodeName is for people: what was configured, else the host's name, else nothing.
func nodeName(c *config.Config) string {
	if c.Node.Name != "" {
		return c.Node.Name
	}
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// gossipKey decodes what validation has already decoded once.
func gossipKey(c *config.Config) []byte {
	key, err := base64.StdEncoding.DecodeString(c.Cluster.GossipKey)
	if err != nil || len(key) == 0 {
		return nil
	}
	return key
}

// reachable is the address that others dial for a bound listener, on the host that the node advertises: they reach none of its listeners
// otherwise. Else it is on the host listened on, unless that stands for all addresses.
func reachable(c *config.Config, bound net.Addr) string {
	host, port, err := net.SplitHostPort(bound.String())
	if err != nil {
		return bound.String()
	}
	if c.Cluster.Advertise != "" {
		host = c.Cluster.Advertise
	} else if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host, _, _ = net.SplitHostPort(c.Listen.Raft)
	}
	return net.JoinHostPort(host, port)
}

func listen(key, addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, bindError(key, addr, err)
	}
	return l, nil
}

// bindError says which key to change when an address cannot be listened on.
func bindError(key, addr string, err error) error {
	env := config.EnvPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
	if inUse(err) {
		return fmt.Errorf("%s: port in use: %s: stop the process that has it, or choose another with %s (port 0: any free): %w", key, addr, env, err)
	}
	return fmt.Errorf("%s: cannot listen on %s: choose another address with %s: %w", key, addr, env, err)
}

// inUse also reads the text, because memberlist does not wrap what the system said.
func inUse(err error) bool {
	return errors.Is(err, syscall.EADDRINUSE) || strings.Contains(err.Error(), syscall.EADDRINUSE.Error())
}

// explainBind finds the key behind a failure of cluster.Open to bind one of its addresses.
func explainBind(c *config.Config, err error) error {
	if !inUse(err) {
		return err
	}
	for key, addr := range map[string]string{"listen.raft": c.Listen.Raft, "listen.gossip": c.Listen.Gossip} {
		if strings.Contains(err.Error(), addr) {
			return bindError(key, addr, err)
		}
	}
	return err
}
