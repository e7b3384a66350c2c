package run

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/nemesis"
	"github.com/cantus-bus/cantus/jepsen/network"
	"github.com/cantus-bus/cantus/jepsen/node"
	"github.com/cantus-bus/cantus/jepsen/workload"
)

const historyFile = "history.jsonl"

// runner is a run at work.
type runner struct {
	plan
	dir     string
	record  *history.Writer
	cluster *node.Cluster
	world   *workload.World
	nemesis *nemesis.Nemesis
	result  *Result
	limp    bool // the cluster did not recover: what comes after is not waited for as long
}

// Run does one run and judges it. An error means that the run could not be done; what it found about the cluster is in the
// result.
func Run(ctx context.Context, o Options) (res *Result, err error) {
	p, err := o.plan()
	if err != nil {
		return nil, err
	}
	r := &runner{plan: p}
	if r.dir, err = p.folder(); err != nil {
		return nil, err
	}
	r.result = &Result{Options: p.Options, Dir: r.dir}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	runErr := r.run(ctx)
	if ctx.Err() != nil { // interrupted: what is missing now means nothing
		err := errors.Join(ctx.Err(), r.record.Abandon(), r.cluster.Close())
		if o.Dir == "" {
			err = errors.Join(err, os.RemoveAll(r.dir))
		}
		return nil, err
	}
	r.collect()
	if err := errors.Join(runErr, r.finish()); err != nil {
		return nil, fmt.Errorf("run in %s: %w", r.dir, err)
	}
	return r.result, r.result.settle(r.dir, p.Keep)
}

// folder makes the run's folder.
func (p *plan) folder() (string, error) {
	if p.Dir == "" {
		return os.MkdirTemp("", "jepsen-")
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// prepare builds, and makes history, network and cluster.
func (r *runner) prepare() (err error) {
	if r.Binary == "" {
		if r.Binary, err = Build(r.dir, r.Tags); err != nil {
			return err
		}
	}
	if err := r.create(); err != nil {
		return err
	}
	net, err := network.New(r.Network, int64(r.Seed))
	if err != nil {
		return err
	}
	r.cluster, err = node.NewCluster(node.Options{
		Binary: r.first(), Dir: r.dir, Nodes: r.Nodes, Spare: r.load.Spare, Images: r.images, Network: net, Env: r.env(), Record: r.record,
	})
	return err
}

// first is the build that the nodes start with.
func (r *runner) first() string {
	if r.load.Before {
		return r.From
	}
	return r.Binary
}

// versionOf asks a build for its version.
func versionOf(binary string) (string, error) {
	out, err := exec.Command(binary, "version").Output()
	if err != nil {
		return "", fmt.Errorf("%s version: %w", binary, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// create begins the history.
func (r *runner) create() error {
	version, err := versionOf(r.Binary)
	if err != nil {
		return err
	}
	before, err := versionOf(r.first())
	if err != nil {
		return err
	}
	h := history.Header{
		Seed: r.Seed, Workload: r.load.Name, Nemeses: nemesis.Names(r.mix), Version: version,
		Options: map[string]string{"network": r.Network, "disks": fmt.Sprint(r.images), "rate": fmt.Sprint(r.Rate), "tags": r.Tags, "from": before},
	}
	h.Bounds.Stuck = r.Stuck
	for i := range r.Nodes {
		h.Nodes = append(h.Nodes, fmt.Sprintf("n%d", i+1))
	}
	if r.load.Header != nil {
		r.load.Header(&h)
	}
	r.record, err = history.Create(filepath.Join(r.dir, historyFile), h)
	return err
}

// env is the nodes' configuration.
func (r *runner) env() map[string]string {
	timeout := ElectionTimeout.String()
	env := map[string]string{
		"CANTUS_RAFT_HEARTBEAT_TIMEOUT": timeout, "CANTUS_RAFT_ELECTION_TIMEOUT": timeout, "CANTUS_RAFT_LEASE_TIMEOUT": timeout,
		"CANTUS_CLUSTER_STABILIZATION": "1s", "CANTUS_LOG_MIN_FREE": "16MiB", "CANTUS_TIP_SIZE": "64MiB", "CANTUS_TIP_CHUNK": "4MiB",
		"CANTUS_RAFT_STALL_LIMIT": "10s",
		// Small enough that windows, plans, snapshots, cuts of the log, catching up by files and scrubs come many times in a run.
		"CANTUS_HISTORY_WINDOW_BYTES": "1MiB", "CANTUS_HISTORY_WINDOW_AGE": "3s", "CANTUS_HISTORY_SCRUB_INTERVAL": "2s",
		"CANTUS_LOG_SNAPSHOT_BYTES": "512KiB", "CANTUS_LOG_KEEP_BYTES": "64KiB",
	}
	maps.Copy(env, r.load.Env)
	return env
}

// run is the run itself, from the first process to the last.
func (r *runner) run(ctx context.Context) error {
	r.phase(history.PhaseSetup)
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := r.cluster.Start(starting); err != nil {
		return err
	}
	if _, err := r.cluster.WaitLeader(starting); err != nil {
		return err
	}
	r.result.Elections = -r.term(ctx)
	r.world = workload.NewWorld(ctx, r.cluster, r.record, r.Seed, r.Rate)
	r.world.Newer = r.Binary
	if err := r.load.Start(ctx, r.world); err != nil {
		return err
	}
	r.nemesis = nemesis.New(nemesis.Options{
		Cluster: r.cluster, Record: r.record, Seed: r.Seed + crc32sum(r.load.Name), Mix: r.mix, Beside: r.Beside, Each: r.Each,
		Hold: r.Hold, Rest: restFault, ElectionTimeout: ElectionTimeout, Patience: r.Patience,
	})
	r.phase(history.PhaseFaults)
	r.hurt(ctx)
	r.phase(history.PhaseHealed)
	if err := r.recover(ctx); err != nil {
		return err
	}
	pause.For(ctx, min(calm, r.Time))
	r.world.StopPublishing()
	r.phase(history.PhaseDrained)
	r.world.StopReading(r.patience(drainLimit))
	return nil
}

func (r *runner) phase(name history.PhaseName) {
	r.Log("%8v  %s", r.record.Now().Round(time.Millisecond), name)
	r.record.Write(&history.Phase{At: r.record.Now(), Name: name})
}

// hurt runs the nemesis for the time, and tells how it goes.
func (r *runner) hurt(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, r.Time)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.nemesis.Run(ctx)
		if r.Each == 0 {
			<-ctx.Done() // without faults there is still the time
		}
	}()
	for {
		select {
		case <-done:
			return
		case <-time.After(5 * time.Second):
			c := r.world.Counts()
			r.Log("%8v  %d acked, %d failed, %d delivered", r.record.Now().Round(time.Millisecond), c.Acked, c.Failed, c.Delivered)
		}
	}
}

// recover waits until every member is ready and votes. One that does not come back is a finding.
func (r *runner) recover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Patience)
	defer cancel()
	if err := errors.Join(r.cluster.Heal(), r.cluster.WaitVoters(ctx)); err != nil {
		r.limp = true
		r.result.found("the cluster did not recover: %v", err)
	}
	return nil
}

// collect does what must be seen on a living cluster: final reads, and the comparison of replicas.
func (r *runner) collect() {
	if r.world == nil {
		return
	}
	ctx := context.Background()
	if missing := r.world.Upgraded(); r.load.Before && len(missing) > 0 {
		r.result.found("not upgraded: %v", missing)
	}
	r.result.Counts = r.world.Counts()
	r.result.Elections += r.term(ctx)
	for _, missed := range r.final() {
		r.result.found("final read: %s", missed)
	}
	if err := r.verify(ctx); err != nil {
		r.result.found("verify: %v", err)
	}
	if n := r.result.Counts.Gaps; n > 0 {
		r.result.found("clients saw %d frames that did not follow on the one before", n)
	}
	r.result.Injected, r.result.Tried = r.nemesis.Counts(), r.nemesis.Tried()
	for _, name := range r.nemesis.Missing() {
		r.result.found("%s was not injected %d times within %v, in %d tries", name, r.Each, r.Time, r.result.Tried[name])
	}
	for _, f := range r.nemesis.Failed() {
		r.result.found("%s", f)
	}
	for _, n := range r.cluster.Nodes {
		for _, line := range n.Panics() {
			r.result.found("%s", line)
		}
		for _, stray := range n.Strays() {
			r.result.found("%s", stray)
		}
		r.result.Exits += len(n.Exits())
		r.result.Asides += n.Asides()
		for _, exit := range n.Exits() {
			r.result.note("%s ended by itself: %s", n.Name, exit)
		}
	}
}

// term is the highest that a node tells of: one more with each election.
func (r *runner) term(ctx context.Context) (term int) {
	for _, n := range r.cluster.Voters() {
		if s, err := n.Status(ctx); err == nil {
			term = max(term, int(s.Term))
		}
	}
	return term
}

// patience is how long to wait for something.
func (r *runner) patience(limit time.Duration) time.Duration {
	if r.limp {
		return min(limit, limpLimit)
	}
	return min(limit, r.Patience)
}

func (r *runner) final() []string {
	final := workload.NewWorld(context.Background(), r.cluster, r.record, r.Seed, 0)
	return final.Continue(r.world).ReadAll(r.cluster.Voters(), r.patience(finalLimit))
}

// verify compares the replicas until they are equal, or time is up.
func (r *runner) verify(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.patience(verifyFor))
	defer cancel()
	var (
		last *history.Verify
		err  error
	)
	for {
		e, equal, askErr := r.cluster.Verify(ctx)
		if askErr == nil {
			last = e
		}
		err = askErr
		if equal || !pause.For(ctx, 500*time.Millisecond) {
			break
		}
	}
	if last == nil {
		return err
	}
	last.Settled = true
	r.record.Write(last)
	return nil
}

// crc32sum makes a number of a name, so that workloads of one seed meet different faults.
func crc32sum(name string) uint64 { return uint64(crc32.ChecksumIEEE([]byte(name))) }
