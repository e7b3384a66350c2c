package cluster

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/subtree/plan"
)

// historyDir is the folder in the data folder that holds history.
const historyDir = "history"

// Log stores that Options.LogStore names.
const (
	LogStoreBolt   = "bolt"
	LogStoreMemory = "memory"
)

// Defaults of Options.
const (
	DefaultMaxInflight      = 64 << 20
	DefaultEntriesInflight  = 16
	DefaultMinFreeBytes     = 256 << 20
	DefaultPublishWait      = 3 * time.Second
	DefaultHeartbeatTimeout = time.Second
	DefaultElectionTimeout  = time.Second
	DefaultLeaseTimeout     = time.Second
	DefaultCommitTimeout    = 5 * time.Millisecond
	DefaultStallLimit       = 30 * time.Second
	DefaultStabilization    = 10 * time.Second
	DefaultCleanupDeadAfter = 72 * time.Hour
	DefaultExpireInterval   = time.Hour
	DefaultRetainInterval   = time.Minute

	DefaultSnapshotBytes = 256 << 20
	DefaultLogKeepBytes  = 512 << 20

	DefaultPlanWindows        = 8
	DefaultStoresPerPartition = plan.DefaultBudget
)

// Options of a node. The zero value of each field means its default, where one is named.
type Options struct {
	DataDir         string
	Name            string   // for people, default the node id; the node id is random and stored
	Version         string   // of the binary, for people
	ClusterName     string   // gossip label: keeps clusters apart
	BootstrapExpect int      // voters that start a new cluster together; 1: starts alone; 0: waits to be added
	Join            []string // gossip addresses of other nodes
	Replica         bool     // stays a non-voter

	RaftListen, GossipListen string // host:port, port 0 = any free; default 127.0.0.1:0
	Advertise                string // host that others dial, default the listen host
	ClientAddr, HTTPAddr     string // advertised addresses of the other listeners; see Node.SetAddrs
	GossipKey                []byte // 16, 24 or 32 bytes: gossip is encrypted; nil: it is not

	Stream StreamOptions

	// History is what this node asks for while it leads: what is decided there holds on all nodes. Whether a node keeps history
	// itself is Stream.History.
	History HistoryPolicy

	// A snapshot is taken when a window is sealed and SnapshotBytes of entries were applied since the last one. The log behind the last
	// two is cut as far as LogKeepBytes of entries stay, for nodes that were away for a while. Without history neither happens.
	SnapshotBytes, LogKeepBytes int64

	// OnDamage is what a node does whose files are damaged, if the others can go on without it: OnDamageRejoin (default), it moves them
	// aside and comes back under a new id; OnDamageRefuse, it does not start.
	OnDamage string

	LogStore        string        // LogStoreBolt (default) or LogStoreMemory (tests: loses votes and log at Close)
	Codec           record.Codec  // of entries; the zero value means S2
	Uncompressed    bool          // entries are not compressed, whatever Codec says
	MaxInflight     int           // bytes queued and proposed on this node, default 64 MiB
	EntriesInflight int           // entries in raft at once, default 16
	MinFreeBytes    int64         // publishes are refused while the log's disk has less, default 256 MiB; negative: never
	PublishWait     time.Duration // how long a publish waits for a leader before Unavailable, default 3 s

	// Raft's timers; defaults 1 s, 1 s, 1 s, 5 ms. Lease <= heartbeat <= election. Heartbeats pass through the
	// follower's main loop and so wait for its disk: do not set them below a disk's worst stall.
	HeartbeatTimeout, ElectionTimeout, LeaseTimeout, CommitTimeout time.Duration

	StallLimit       time.Duration // a store call longer than this fails the node, default 30 s
	Stabilization    time.Duration // how long a joining node must be healthy before it votes, default 10 s
	CleanupDeadAfter time.Duration // a server dead for so long is removed if a quorum stays, default 72 h
	ExpireInterval   time.Duration // how often the leader expires producers, default 1 h
	RetainInterval   time.Duration // how often the leader looks at least whether something is beyond retention, default 1 min

	Logger   hclog.Logger          // nil: silent
	Registry prometheus.Registerer // nil: no metrics

	// FreeBytes reports the free bytes of the disk that holds a folder. nil: statfs. Tests override it.
	FreeBytes func(dir string) (int64, error)

	wrapStores  func(stores) stores                    // tests put faults between raft and its stores
	network     *network                               // nil: the system's
	clock       func() time.Time                       // of the stamps of entries; nil: the machine's
	catchUpStep func(ctx context.Context, step string) // tests look and stop there
}

// HistoryPolicy is how a leader cuts and splits history, and what it keeps.
type HistoryPolicy struct {
	// A window is sealed at WindowBytes of records, WindowCount messages or WindowAge, whichever comes first; 0 leaves what is in
	// force, which is 64 MiB, 1 Mi messages and 10 minutes in the beginning.
	WindowBytes, WindowCount uint64
	WindowAge                time.Duration
	// Whole windows are dropped, oldest first, when their newest message is older than RetainAge by the log's own time, or as long as those
	// behind them hold RetainBytes of records or RetainCount messages. 0 leaves what is in force, fsm.Unlimited is no limit.
	RetainAge                time.Duration
	RetainBytes, RetainCount uint64
	// PlanWindows is how many windows sealed since the last plan make the next. 0: DefaultPlanWindows; negative: the leader plans
	// only when asked to.
	PlanWindows int
	// StoresPerPartition is how many stores each partition brings to the budget that all share. 0: DefaultStoresPerPartition.
	StoresPerPartition int
	// MinStoreBytes is a volume that is never split further. 0: DefaultMinStoreBytes.
	MinStoreBytes uint64
}

func setDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// withDefaults fills what was left out.
func (o Options) withDefaults() Options {
	setDefault(&o.RaftListen, "127.0.0.1:0")
	setDefault(&o.GossipListen, "127.0.0.1:0")
	setDefault(&o.LogStore, LogStoreBolt)
	setDefault(&o.OnDamage, OnDamageRejoin)
	setDefault(&o.Codec, record.CodecS2)
	setDefault(&o.MaxInflight, DefaultMaxInflight)
	setDefault(&o.EntriesInflight, DefaultEntriesInflight)
	setDefault(&o.MinFreeBytes, DefaultMinFreeBytes)
	setDefault(&o.PublishWait, DefaultPublishWait)
	setDefault(&o.HeartbeatTimeout, DefaultHeartbeatTimeout)
	setDefault(&o.ElectionTimeout, max(DefaultElectionTimeout, o.HeartbeatTimeout))
	setDefault(&o.LeaseTimeout, min(DefaultLeaseTimeout, o.HeartbeatTimeout))
	setDefault(&o.CommitTimeout, DefaultCommitTimeout)
	setDefault(&o.StallLimit, DefaultStallLimit)
	setDefault(&o.Stabilization, DefaultStabilization)
	setDefault(&o.CleanupDeadAfter, DefaultCleanupDeadAfter)
	setDefault(&o.ExpireInterval, DefaultExpireInterval)
	setDefault(&o.RetainInterval, DefaultRetainInterval)
	setDefault(&o.SnapshotBytes, DefaultSnapshotBytes)
	setDefault(&o.LogKeepBytes, DefaultLogKeepBytes)
	setDefault(&o.Version, "dev")
	setDefault(&o.History.PlanWindows, DefaultPlanWindows)
	setDefault(&o.History.StoresPerPartition, DefaultStoresPerPartition)
	setDefault(&o.History.MinStoreBytes, DefaultMinStoreBytes)
	if o.Uncompressed {
		o.Codec = record.CodecNone
	}
	if o.Logger == nil {
		o.Logger = hclog.NewNullLogger()
	}
	if o.FreeBytes == nil {
		o.FreeBytes = freeBytes
	}
	if o.network == nil {
		o.network = sockets()
	}
	if o.clock == nil {
		o.clock = faults.Now
	}
	if o.Stream.History != nil {
		h := *o.Stream.History
		setDefault(&h.Dir, filepath.Join(o.DataDir, historyDir))
		if h.Logger == nil {
			h.Logger = o.Logger.Named("history")
		}
		o.Stream.History = &h
	}
	return o
}

// validate checks what can be checked without touching disk or network. Call it after withDefaults.
func (o Options) validate() error {
	if o.DataDir == "" {
		return fmt.Errorf("cluster: options: DataDir is empty: name the data folder")
	}
	if o.LogStore != LogStoreBolt && o.LogStore != LogStoreMemory {
		return fmt.Errorf("cluster: options: LogStore %q is unknown: use %q or %q", o.LogStore, LogStoreBolt, LogStoreMemory)
	}
	if o.OnDamage != OnDamageRejoin && o.OnDamage != OnDamageRefuse {
		return fmt.Errorf("cluster: options: OnDamage %q is unknown: use %q or %q", o.OnDamage, OnDamageRejoin, OnDamageRefuse)
	}
	if o.BootstrapExpect < 0 {
		return fmt.Errorf("cluster: options: BootstrapExpect %d is negative", o.BootstrapExpect)
	}
	if o.Replica && o.BootstrapExpect > 0 {
		return fmt.Errorf("cluster: options: a replica never votes, so it cannot start a cluster: set BootstrapExpect to 0")
	}
	if n := len(o.GossipKey); n != 0 && n != 16 && n != 24 && n != 32 {
		return fmt.Errorf("cluster: options: GossipKey has %d bytes: 16, 24 or 32 are allowed", n)
	}
	if o.MaxInflight < record.MaxBatchBytes {
		return fmt.Errorf("cluster: options: MaxInflight %d is less than one batch (%d)", o.MaxInflight, record.MaxBatchBytes)
	}
	if o.EntriesInflight < 1 || o.EntriesInflight > maxAppendEntries {
		return fmt.Errorf("cluster: options: EntriesInflight %d is outside 1..%d", o.EntriesInflight, maxAppendEntries)
	}
	if n := o.History.StoresPerPartition; n < 1 || n > plan.MaxStores {
		return fmt.Errorf("cluster: options: History.StoresPerPartition %d is outside 1..%d", n, plan.MaxStores)
	}
	if o.SnapshotBytes < 0 || o.LogKeepBytes < 0 {
		return fmt.Errorf("cluster: options: SnapshotBytes %d or LogKeepBytes %d is negative", o.SnapshotBytes, o.LogKeepBytes)
	}
	if o.History.WindowAge < 0 {
		return fmt.Errorf("cluster: options: History.WindowAge %v is negative", o.History.WindowAge)
	}
	if o.History.RetainAge < 0 {
		return fmt.Errorf("cluster: options: History.RetainAge %v is negative", o.History.RetainAge)
	}
	for name, addr := range map[string]string{"RaftListen": o.RaftListen, "GossipListen": o.GossipListen} {
		if err := o.validateListen(name, addr); err != nil {
			return err
		}
	}
	return nil
}

// validateListen refuses an address that others could not dial.
func (o Options) validateListen(name, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("cluster: options: %s %q: %w", name, addr, err)
	}
	ip := net.ParseIP(host)
	if o.Advertise == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("cluster: options: %s %q listens on all addresses, so others cannot know which to dial: set Advertise", name, addr)
	}
	return nil
}

// advertised is the address that others dial for a bound listener.
func (o Options) advertised(bound net.Addr) string {
	_, port, err := net.SplitHostPort(bound.String())
	if err != nil || o.Advertise == "" {
		return bound.String()
	}
	return net.JoinHostPort(o.Advertise, port)
}
