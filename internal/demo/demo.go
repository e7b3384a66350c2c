package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/config"
	"github.com/cantus-bus/cantus/internal/control"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/units"
)

const (
	// The ring is the smallest there is, and windows are sealed many times while it turns over, so that most of the stream is history.
	tipSize     = config.Size(8 << 20)
	tipChunk    = config.Size(2 << 20)
	windowBytes = config.Size(2 << 20)

	fullRate  = 20_000.0 // messages a second
	mostBytes = 1 << 30  // what may be published: it stays on disk three times until the end

	settleWait = 30 * time.Second // bounds each step after the publishing
	resumeWait = 30 * time.Second // bounds the wait for the first ack after the leader's death
)

// Options of Run.
type Options struct {
	Binary string        // the cantus binary, whose serve command is run
	Nodes  int           // 1 to 9
	Dir    string        // kept afterwards, must be empty or missing; "": a temporary folder, removed
	For    time.Duration // about how long all of it may take, at least a second; most of it is publishing
	Say    func(format string, args ...any)
}

// publishing is how long messages are published; the rest of the time goes to starting, reading and comparing.
func (o Options) publishing() time.Duration { return o.For * 7 / 10 }

// Result is what happened.
type Result struct {
	Nodes          int     `json:"nodes"`
	Published      uint64  `json:"published"`
	Acked          uint64  `json:"acked"`
	Faults                 // of all readers together
	SubsetMessages uint64  `json:"subset_messages"`    // read and checked from a follower while publishing
	FullMessages   uint64  `json:"full_messages"`      // read and checked from every node at the end
	FromHistory    uint64  `json:"from_history"`       // of these and of SubsetMessages: read from disk
	HistoryFiles   int     `json:"history_files"`      // on one node, at the end
	HistoryBytes   int64   `json:"history_bytes"`      // that these take
	Windows        uint64  `json:"windows"`            // that the stream was cut into
	Stores         int     `json:"stores"`             // that plans split partitions into
	FailoverMS     float64 `json:"failover_ms"`        // from the leader's death until acks came again
	Elections      uint64  `json:"elections"`          // terms that began after the leader's death
	PublishPerS    float64 `json:"publish_per_s"`      // acked messages over the time of publishing, failover included
	ReplicasEqual  bool    `json:"replicas_equal"`     // by digest at one seq
	NotPublished   uint64  `json:"not_published"`      // messages that the client gave up, with an error
	Error          string  `json:"error,omitempty"`    // the first of those errors
	DataDir        string  `json:"data_dir,omitempty"` // if it was kept
}

// OK says whether everything was as promised.
func (r *Result) OK() bool {
	return !r.Faults.Any() && r.NotPublished == 0 && r.ReplicasEqual && r.Acked == r.Published
}

// run is one demonstration under way.
type run struct {
	o       Options
	stream  *stream
	nodes   *nodes
	pub     *publisher
	control *control.Client
	result  Result
}

// Run does everything. The error is of a step that could not be done; what went wrong with messages is in the result.
func Run(ctx context.Context, o Options) (_ *Result, err error) {
	if o.Nodes < 1 || o.Nodes > 9 || o.For < time.Second {
		return nil, fmt.Errorf("demo: %d nodes for %v: want 1 to 9 nodes and at least 1s", o.Nodes, o.For)
	}
	dir, remove, err := folder(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	s, err := openStream()
	if err != nil {
		return nil, err
	}
	ns, err := newNodes(o.Binary, dir, o.Nodes)
	if err != nil {
		return nil, err
	}
	defer ns.kill()
	r := &run{o: o, stream: s, nodes: ns}
	r.result.Nodes = o.Nodes
	if o.Dir != "" {
		r.result.DataDir = dir
	}
	return &r.result, r.all(ctx)
}

// folder makes the data folder and says how to be rid of it.
func folder(wanted string) (dir string, remove func() error, err error) {
	if wanted == "" {
		dir, err = os.MkdirTemp("", "cantus-demo-")
		return dir, func() error { return os.RemoveAll(dir) }, err
	}
	if dir, err = filepath.Abs(wanted); err != nil {
		return "", nil, fmt.Errorf("demo: %w", err)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return "", nil, fmt.Errorf("demo: %s is not empty: the demonstration starts a new cluster, so name a new folder", dir)
	}
	return dir, func() error { return nil }, os.MkdirAll(dir, 0o755)
}

// all is the story.
func (r *run) all(ctx context.Context) error {
	r.o.Say("starting %d nodes on loopback", r.o.Nodes)
	if err := r.nodes.start(ctx); err != nil {
		return err
	}
	var err error
	if r.control, err = control.New(r.nodes.httpAddrs()); err != nil {
		return err
	}
	defer r.control.Close()
	if r.pub, err = newPublisher(ctx, r.stream, r.nodes.clientAddrs()); err != nil {
		return err
	}
	defer r.pub.close()
	leader, before, err := r.leader(ctx)
	if err != nil {
		return err
	}
	r.o.Say("node %s leads (term %d); replaying the built-in stream: %s changes to files on %d partitions, over and over",
		leader.name, before.Term, units.Count(int64(len(r.stream.rows))), partitions(r.stream))
	readings, err := r.openSubsets(ctx, leader)
	if err != nil {
		return err
	}
	defer endReadings(readings)
	if err := r.publishThroughFailover(ctx, leader, before.Term, readings); err != nil {
		return err
	}
	if err := r.checkSubsets(ctx, readings); err != nil {
		return err
	}
	if err := r.planHistory(ctx); err != nil {
		return err
	}
	if err := r.checkAllNodes(ctx); err != nil {
		return err
	}
	return r.verify(ctx)
}

// leader asks the cluster who leads, until somebody does.
func (r *run) leader(ctx context.Context) (*node, cluster.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	for {
		var s cluster.Status
		err := r.control.Get(ctx, "/v1/status", &s)
		if err == nil {
			if n := r.nodes.byID(s.Leader); n != nil {
				return n, s, nil
			}
			err = fmt.Errorf("no node of ours leads: %q does", s.Leader)
		}
		if !pause.For(ctx, positionPoll) {
			return nil, s, fmt.Errorf("find the leader: %w: %w", ctx.Err(), err)
		}
	}
}

// verify compares the replicas' digests.
func (r *run) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	var v struct {
		Seq         uint64   `json:"seq"`
		Equal       bool     `json:"equal"`
		Differences []string `json:"differences"`
	}
	if err := r.control.Get(ctx, "/v1/verify", &v); err != nil {
		return fmt.Errorf("compare the replicas: %w", err)
	}
	r.result.ReplicasEqual = v.Equal
	if v.Equal {
		r.o.Say("digests of all replicas are equal at seq %d", v.Seq)
		return nil
	}
	r.o.Say("replicas DIFFER at seq %d: %q", v.Seq, v.Differences)
	return nil
}

// partitions counts the two-segment prefixes of the stream's topics.
func partitions(s *stream) int {
	seen := map[string]bool{}
	for _, row := range s.rows {
		seen[partitionOf(string(row.Topic))] = true
	}
	return len(seen)
}
