// Package config reads the one configuration of a node: a strict YAML file, overridden by the environment, overridden by
// flags.
//
// It promises that every key has a default, a line of documentation, an environment variable and a place in the JSON
// schema (all four come from the same struct, so they cannot disagree); that an unknown key, a wrong unit or a value out
// of range is an error that names the file, line and column or the variable; and that the origin of each value is known.
// It does not open files or sockets that the configuration names, and it knows nothing of the packages it configures.
package config

// Config is everything a node is told. A zero Config is not valid: start from Default or Load.
type Config struct {
	Node      Node      `key:"node" doc:"This node."`
	Cluster   Cluster   `key:"cluster" doc:"The cluster that this node forms or joins."`
	Listen    Listen    `key:"listen" doc:"Addresses to listen on, host:port; port 0 takes any free port."`
	Tip       Tip       `key:"tip" doc:"The recent stream, kept in memory."`
	History   History   `key:"history" doc:"The stream before the tip, on disk."`
	Retention Retention `key:"retention" doc:"How much of the stream is kept. Whole windows are dropped, oldest first, on all nodes alike, as soon as one limit allows it; what is not beyond a limit is always kept. Decided in the log: what counts is the leader's configuration."`
	Log       Log       `key:"log" doc:"The raft log, which is the write-ahead log."`
	Publish   Publish   `key:"publish" doc:"The way of a message from a publisher into the log."`
	Limits    Limits    `key:"limits" doc:"What one node accepts. At a limit it pushes back or refuses; it never drops."`
	Raft      Raft      `key:"raft" doc:"Raft's clocks."`
	HTTP      HTTP      `key:"http" doc:"The control plane."`
	Logging   Logging   `key:"logging" doc:"Log lines on standard error."`
}

// Node is the section "node".
type Node struct {
	Name     string `key:"name" doc:"A name for people; the id that the cluster uses is random and stored in the data folder. Empty: the host's name."`
	Data     string `key:"data" default:"cantus-data" doc:"The folder that holds everything this node stores. One running node per folder."`
	Replica  bool   `key:"replica" default:"false" doc:"A read replica: it follows and serves readers, and never votes."`
	OnDamage string `key:"on_damage" default:"rejoin" enum:"rejoin,refuse" doc:"What a node does whose log, vote, identity, snapshot or manifest of history is damaged. rejoin: if the other nodes can go on without it, it moves what is damaged aside, to damaged-<time> in the data folder, and comes back as a new node that catches up from them; a node without others refuses to start. refuse: it never starts then."`
}

// Cluster is the section "cluster".
type Cluster struct {
	Name             string   `key:"name" default:"cantus" doc:"Keeps clusters on one network apart; equal on all nodes."`
	BootstrapExpect  Count    `key:"bootstrap_expect" default:"1" doc:"How many new voters must see each other before they start a new cluster; equal on all of them. 0: only ever join. A read replica ignores it."`
	Join             []string `key:"join" doc:"Gossip addresses, host:port, of other nodes. Some may be down."`
	Advertise        string   `key:"advertise" doc:"The host that others reach this node under. Empty: the host listened on."`
	Stabilization    Duration `key:"stabilization" default:"10s" doc:"How long a joining node must be healthy before it may vote."`
	CleanupDeadAfter Duration `key:"cleanup_dead_after" default:"72h" doc:"A node dead for so long is removed, if a majority stays without it."`
	GossipKey        string   `key:"gossip_key" secret:"true" doc:"Encrypts gossip: 16, 24 or 32 bytes in base64, equal on all nodes. Empty: plain."`
}

// Listen is the section "listen".
type Listen struct {
	Client string `key:"client" default:"127.0.0.1:4790" doc:"Publishers and subscribers, and other nodes that forward."`
	HTTP   string `key:"http" default:"127.0.0.1:4791" doc:"Control plane, metrics, and data over HTTP."`
	Raft   string `key:"raft" default:"127.0.0.1:4792" doc:"Raft between the nodes."`
	Gossip string `key:"gossip" default:"127.0.0.1:4793" doc:"Membership, TCP and UDP."`
}

// Tip is the section "tip".
type Tip struct {
	Size  Size   `key:"size" default:"1GiB" doc:"Memory for the recent stream, taken once outside the Go heap."`
	Index string `key:"index" default:"on" enum:"on,off" doc:"off: every read is a linear pass over the tip. Only to compare."`
	Chunk Size   `key:"chunk" default:"16MiB" doc:"The piece in which the tip is recycled; size is rounded up to whole chunks, at least 4."`
}

// History is the section "history". Windows and plans are decided in the log: what counts is the leader's configuration.
type History struct {
	WindowBytes        Size     `key:"window_bytes" default:"64MiB" doc:"Messages, in bytes, after which a window of the stream is sealed and archived."`
	WindowAge          Duration `key:"window_age" default:"10m" doc:"Age of a window's first message after which it is sealed, with the next entry of the log."`
	PlanWindows        Count    `key:"plan_windows" default:"8" doc:"Windows after which the leader plans their split into stores. 0: only when asked to."`
	StoresPerPartition Count    `key:"stores_per_partition" default:"16" doc:"Stores that each partition brings to the budget of a plan; all share it."`
	RewriteRate        Size     `key:"rewrite_rate" default:"64MiB" doc:"Bytes a second that rewriting into stores reads at most. 0: no limit."`
	ScrubInterval      Duration `key:"scrub_interval" default:"24h" doc:"Time between two scrubs, which read all files and check every byte; what is damaged is fetched from other nodes. 0s: none."`
	ScrubRate          Size     `key:"scrub_rate" default:"16MiB" doc:"Bytes a second that scrubbing reads at most. 0: no scrubs."`
}

// Retention is the section "retention".
type Retention struct {
	Age   Duration `key:"age" default:"0s" doc:"A window may go when its newest message is this much older than the newest entry of the log. 0s: never."`
	Bytes Size     `key:"bytes" default:"0B" doc:"A window may go when those behind it hold so many bytes of messages. 0B: never."`
	Count Count    `key:"count" default:"0" doc:"A window may go when those behind it hold so many messages. 0: never."`
}

// Log is the section "log".
type Log struct {
	Store         string `key:"store" default:"bolt" enum:"bolt" doc:"Where entries are kept."`
	Codec         string `key:"codec" default:"s2" enum:"s2,lz4,zstd,none" doc:"Compression of entries, where it saves at least an eighth."`
	MinFree       Size   `key:"min_free" default:"256MiB" doc:"Publishes are refused while the disk of the data folder has less free space."`
	SnapshotBytes Size   `key:"snapshot_bytes" default:"256MiB" doc:"Bytes of entries after which a node takes a snapshot, at the end of a window, so that it starts from there."`
	KeepBytes     Size   `key:"keep_bytes" default:"512MiB" doc:"Bytes of entries that stay behind snapshots, for nodes that were away for a while; one that was away for longer fetches files."`
}

// Publish is the section "publish".
type Publish struct {
	MaxInflight     Size     `key:"max_inflight" default:"64MiB" doc:"Bytes queued and proposed at once; publishers wait at the limit."`
	EntriesInflight Count    `key:"entries_inflight" default:"16" doc:"Log entries proposed and not yet committed."`
	Wait            Duration `key:"wait" default:"3s" doc:"How long a publish may wait for a leader or for room before it is refused as not executed."`
}

// Limits is the section "limits".
type Limits struct {
	Topics             Count `key:"topics" default:"4M" doc:"Distinct topics in the stream, 16M at most; the leader's value holds for all nodes. One more is refused."`
	Producers          Count `key:"producers" default:"1M" doc:"Remembered idempotent producers; the leader's value holds for all nodes. One more is refused."`
	Connections        Count `key:"connections" default:"10k" doc:"Client connections at once. One more is refused."`
	ConnectionInflight Size  `key:"connection_inflight" default:"8MiB" doc:"Bytes of publishes of one connection that wait for their acks. At the limit it is not read from."`
	Subscriptions      Count `key:"subscriptions" default:"1024" doc:"Subscriptions on one connection. One more is refused."`
	EventStreams       Count `key:"event_streams" default:"1024" doc:"Subscriptions over HTTP at once. One more is refused."`
}

// Raft is the section "raft".
type Raft struct {
	HeartbeatTimeout Duration `key:"heartbeat_timeout" default:"1s" doc:"A follower that hears nothing for this long starts an election."`
	ElectionTimeout  Duration `key:"election_timeout" default:"1s" doc:"A candidate without a majority starts anew after this."`
	LeaseTimeout     Duration `key:"lease_timeout" default:"1s" doc:"A leader that reaches no majority for this long steps down."`
	CommitTimeout    Duration `key:"commit_timeout" default:"5ms" doc:"How late an idle follower may learn of a commit."`
	StallLimit       Duration `key:"stall_limit" default:"30s" doc:"A call of the log store that takes longer makes the node exit, for a supervisor to restart it."`
}

// HTTP is the section "http".
type HTTP struct {
	Pprof bool `key:"pprof" default:"false" doc:"Serve Go profiles under /debug/pprof."`
}

// Logging is the section "logging".
type Logging struct {
	Level string `key:"level" default:"info" enum:"trace,debug,info,warn,error" doc:"The least level that is written."`
	JSON  bool   `key:"json" default:"false" doc:"One JSON object per line."`
}
