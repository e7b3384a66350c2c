package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/units"
	"github.com/cantus-bus/cantus/subtree"
)

const (
	catchUpRetryMin = 100 * time.Millisecond // between two attempts at what failed, doubling
	catchUpRetryMax = 5 * time.Second
	catchUpReport   = 5 * time.Second // between two log lines about progress
	// catchUpRestarts is how often an attempt begins anew because a newer snapshot has come, before it finishes with what it has.
	catchUpRestarts = 3
)

// ErrReopen ends a node that has fetched a newer snapshot than its state: closed and opened again it goes on from there. Nothing is
// wrong with it.
var ErrReopen = errors.New("a snapshot was fetched: close the node and open it again, it goes on from there")

// The steps of a catch-up, for tests.
const (
	stepListed    = "listed"    // the files to get are known
	stepFile      = "file"      // one more file was fetched
	stepState     = "state"     // the state file was fetched
	stepInstalled = "installed" // history is in its place
	stepPut       = "put"       // the snapshot's manifest is durable
)

// CatchUpStatus is how far a node is that fetches history and a state from others, because the log does not reach back to what it has.
type CatchUpStatus struct {
	Index     uint64 `json:"index"`      // of the snapshot that it fetches
	Seq       uint64 `json:"seq"`        // of the newest message in it
	Files     int    `json:"files"`      // to fetch
	FilesDone int    `json:"files_done"` // of these, here
	Bytes     int64  `json:"bytes"`      // of these files, and of the snapshot's state
	BytesDone int64  `json:"bytes_done"`
	Peer      string `json:"peer,omitempty"`    // the node that is asked now
	Problem   string `json:"problem,omitempty"` // why the last attempt did not succeed
}

func (s *CatchUpStatus) String() string {
	text := fmt.Sprintf("fetching history up to seq %d: %d of %d files, %s of %s", s.Seq, s.FilesDone, s.Files, units.Size(s.BytesDone), units.Size(s.Bytes))
	if s.Problem != "" {
		text += ": " + s.Problem
	}
	return text
}

// catchup brings a node up to a snapshot that a leader has offered. One snapshot at a time; the newest offered wins.
//
//	1 list what the leader has of history, and choose what is missing here
//	2 fetch that, then the snapshot's state: from any node, by hash; what is here stays across restarts
//	3 end archiving and rewriting
//	4 install the files of history, by one write of its manifest: it is ahead of the state then
//	5 make the snapshot's manifest durable
//	6 end the node with ErrReopen
//
// A crash before 5 leaves the node with the state it had, and with what was fetched; one after it is as good as 6.
type catchup struct {
	n    *Node
	kick chan struct{} // capacity 1: another snapshot is wanted
	step func(ctx context.Context, step string)

	// The run's.
	fetcher fetcher
	retired bool // archiving has ended: there is no way back

	mu struct {
		sync.Mutex
		wanted *offeredSnapshot // newest offered and not reached; nil: none
		status CatchUpStatus    // of wanted
	}
}

// offeredSnapshot is a snapshot as a leader has sent it.
type offeredSnapshot struct {
	m      *snapManifest
	blob   []byte
	leader string // its id
}

func newCatchup(n *Node) *catchup {
	c := &catchup{n: n, kick: make(chan struct{}, 1), step: n.opts.catchUpStep}
	if c.step == nil {
		c.step = func(context.Context, string) {}
	}
	c.fetcher = fetcher{n: n, report: c.report}
	return c
}

// offer answers an InstallSnapshot: success if this node has what is in it; else it is fetched, and the leader is told how far that is.
// It is an installFunc.
func (c *catchup) offer(req *raft.InstallSnapshotRequest, blob []byte) (*raft.InstallSnapshotResponse, error) {
	n := c.n
	resp := &raft.InstallSnapshotResponse{RPCHeader: req.RPCHeader, Term: max(req.Term, n.raft.CurrentTerm())}
	if req.Term < resp.Term {
		return resp, nil // no leader any more: it will notice
	}
	if err := n.Err(); err != nil {
		return resp, fmt.Errorf("%w: %w", errInstallRefused, err)
	}
	m, err := decodeSnapManifest(blob)
	switch {
	case err != nil:
		return resp, fmt.Errorf("%w: %w", errInstallRefused, err)
	case m.index != req.LastLogIndex || m.term != req.LastLogTerm || m.cluster != n.ClusterID():
		return resp, fmt.Errorf("%w: it is of index %d, term %d, cluster %s and not what the request says", errInstallRefused, m.index, m.term, m.cluster)
	case n.hasEntry(m.index, m.term):
		resp.Success = true
		return resp, nil
	case n.snaps == nil:
		c.note(errors.New("this node keeps no history: switch it on"))
		return resp, fmt.Errorf("%w: it keeps no history", errInstallRefused)
	}
	status := c.want(&offeredSnapshot{m: m, blob: blob, leader: string(req.ID)})
	return resp, fmt.Errorf("%w: %s", errFetching, status.String())
}

// hasEntry tells whether all of the log up to an entry is here: applied, or stored with the entry itself.
func (n *Node) hasEntry(index, term uint64) bool {
	if n.positions.index.Load() >= index {
		return true
	}
	var l raft.Log
	return n.raft.LastIndex() >= index && n.logs.GetLog(index, &l) == nil && l.Term == term
}

// want notes what is to be fetched, unless something newer is.
func (c *catchup) want(o *offeredSnapshot) CatchUpStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.wanted == nil || c.mu.wanted.m.index < o.m.index {
		if c.mu.wanted == nil {
			c.mu.status = CatchUpStatus{}
			c.n.log.Info("the log does not reach back to what this node has: fetching a snapshot and history", "index", o.m.index, "seq", o.m.seq)
		}
		c.mu.wanted = o
		c.mu.status.Index, c.mu.status.Seq = o.m.index, o.m.seq
		kick(c.kick)
	}
	return c.mu.status
}

// wanted is the snapshot to fetch; nil if none is needed any more.
func (c *catchup) wanted() *offeredSnapshot {
	c.mu.Lock()
	w := c.mu.wanted
	c.mu.Unlock()
	if w == nil || !c.n.hasEntry(w.m.index, w.m.term) {
		return w
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.wanted == w {
		c.n.log.Info("the log has brought what was to be fetched", "index", w.m.index)
		c.mu.wanted = nil
		c.mu.status = CatchUpStatus{}
	}
	return c.mu.wanted
}

// status is nil while nothing is to be fetched.
func (c *catchup) status() *CatchUpStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.wanted == nil && c.mu.status.Problem == "" {
		return nil
	}
	s := c.mu.status
	return &s
}

func (c *catchup) problem() string {
	if s := c.status(); s != nil {
		return s.String()
	}
	return ""
}

func (c *catchup) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mu.status.Problem
	c.mu.status.Problem = err.Error()
	if before != c.mu.status.Problem {
		c.n.log.Warn("cannot fetch history: trying again", "error", err)
	}
}

// report is the fetcher's word on its progress.
func (c *catchup) report(p fetchProgress) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.mu.status
	s.Files, s.FilesDone, s.Bytes, s.BytesDone, s.Peer = p.files, p.filesDone, p.bytes, p.bytesDone, p.peer
}

// run fetches what is wanted until ctx ends or the node is to be opened again.
func (c *catchup) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.kick:
		}
		wait := catchUpRetryMin
		for restarts := 0; ctx.Err() == nil && c.n.Err() == nil; {
			w := c.wanted()
			if w == nil && !c.retired {
				break
			}
			err := c.attempt(ctx, w, restarts < catchUpRestarts)
			switch {
			case err == nil:
				c.n.fail(ErrReopen)
				return
			case errors.Is(err, errNewerOffered):
				restarts++
				continue
			case ctx.Err() != nil:
				return
			}
			c.n.metrics.catchUpErrors.Inc()
			c.note(err)
			pause.For(ctx, wait)
			wait = min(2*wait, catchUpRetryMax)
		}
	}
}

var errNewerOffered = errors.New("a newer snapshot was offered")

// attempt does all steps; nil: the node is to be opened again.
func (c *catchup) attempt(ctx context.Context, w *offeredSnapshot, restart bool) error {
	if w == nil {
		return nil // the log has brought it, but archiving has ended
	}
	run, err := c.choose(ctx, w)
	if err != nil {
		return err
	}
	c.step(ctx, stepListed)
	if err := c.fetch(ctx, w, run); err != nil {
		return err
	}
	if now := c.wanted(); restart && now != w {
		return errNewerOffered
	}
	faults.Pass(faults.Fetched)
	c.n.stream.Retire()
	c.retired = true
	if err := c.install(run); err != nil {
		return err
	}
	faults.Pass(faults.Installed)
	c.step(ctx, stepInstalled)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.n.snaps.put(w.blob); err != nil && !errors.Is(err, errSnapshotOld) {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	faults.Pass(faults.Put)
	c.step(ctx, stepPut)
	return ctx.Err()
}

// choose asks for a listing of history, of the leader first, and says what of it this node must have.
func (c *catchup) choose(ctx context.Context, w *offeredSnapshot) (run span, err error) {
	h := c.n.stream.history
	if w.m.window == 0 {
		return nil, nil
	}
	damaged := h.store.Damaged()
	good := func(m *subtree.Meta) bool { return !isDamaged(damaged, m) }
	var errs []error
	for _, id := range c.listers(w) {
		listing, err := c.n.listing(ctx, id)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if run, ok := filesToGet(h.store.Files(), listing, good, w.m.window); ok {
			return run, nil
		}
		errs = append(errs, fmt.Errorf("node %s does not have all of history up to window %d", id, w.m.window))
	}
	return nil, errors.Join(errs...)
}

// listers are the nodes to ask for a listing, the leader first.
func (c *catchup) listers(w *offeredSnapshot) []string {
	leader := w.leader
	if _, id := c.n.raft.LeaderWithID(); id != "" {
		leader = string(id)
	}
	ids := []string{leader}
	for _, p := range c.n.filePeers() {
		if p.id != leader {
			ids = append(ids, p.id)
		}
	}
	return ids
}

// listing is what another node has whole of history, in order.
func (n *Node) listing(ctx context.Context, id string) (span, error) {
	list, err := n.PeerFiles(ctx, id)
	if err != nil {
		return nil, err
	}
	return list.metas()
}

// fetch brings here what is missing of the run, and the state.
func (c *catchup) fetch(ctx context.Context, w *offeredSnapshot, run span) error {
	var missing []subtree.Meta
	if len(run) > 0 {
		store := c.n.stream.history.store
		if err := store.Forget(run); err != nil { // what earlier listings named
			return fmt.Errorf("%w: %w", errLocal, err)
		}
		missing = store.Missing(run)
	}
	c.fetcher.begin(missing, w.m.stateSize)
	for i := range missing {
		if err := c.fetcher.history(ctx, &missing[i]); err != nil {
			return err
		}
		c.step(ctx, stepFile)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := c.fetcher.state(ctx, w); err != nil {
		return err
	}
	c.step(ctx, stepState)
	return ctx.Err()
}

func (c *catchup) install(run span) error {
	if len(run) == 0 {
		return nil
	}
	store := c.n.stream.history.store
	if err := store.Install(run); err != nil {
		return fmt.Errorf("%w: %w", errLocal, err)
	}
	if err := store.Forget(nil); err != nil {
		c.n.log.Warn("cannot remove what was fetched in vain", "error", err)
	}
	return nil
}
