package cluster

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/bugs"
)

const (
	// maxAppendEntries bounds entries, not bytes, of one append: 64 of our entries are at most about 16 MiB, which a
	// follower that catches up stores without missing heartbeats (they wait behind it in the main loop).
	maxAppendEntries = 64
	// rpcsInFlight 1 switches pipelining off: with the default of 2 one failed append can stop a follower for ever.
	rpcsInFlight = 1 + bugs.Pipeline
	rpcTimeout   = 10 * time.Second
	connPool     = 3

	// howToMend ends the errors of a damaged data folder.
	howToMend = "restore it from a copy as new as its last run or, if the other nodes are well, empty the folder: the node then joins under a new id"
)

// termKey is where raft keeps its term: set before the first entry is stored.
var termKey = []byte("CurrentTerm")

// raftConfig is raft's configuration; DESIGN.md says why each value.
func raftConfig(o Options, id string, notify chan<- bool) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(id)
	c.HeartbeatTimeout, c.ElectionTimeout = o.HeartbeatTimeout, o.ElectionTimeout
	c.LeaderLeaseTimeout, c.CommitTimeout = o.LeaseTimeout, o.CommitTimeout
	c.MaxAppendEntries = maxAppendEntries
	c.BatchApplyCh = true
	c.ShutdownOnRemove = false
	c.SnapshotThreshold, c.TrailingLogs = math.MaxUint64, math.MaxUint64
	c.SnapshotInterval = 24 * time.Hour
	c.NoLegacyTelemetry = true
	c.RestoreCommittedLogs = bugs.ReplayCommitted
	c.NoSnapshotRestoreOnStart = false
	c.NotifyCh = notify
	c.Logger = o.Logger.Named("raft")
	return c
}

// raftAddrOf is where gossip sees a node's raft.
func (n *Node) raftAddrOf(id string) (string, bool) {
	m, ok := n.gossip.member(id)
	return m.meta.Raft, ok && m.meta.Raft != ""
}

// listenRaft binds raft's port.
func (n *Node) listenRaft() (*streamLayer, error) {
	l, err := n.opts.network.listen(n.opts.RaftListen)
	if err != nil {
		return nil, fmt.Errorf("raft on %s: %w", n.opts.RaftListen, err)
	}
	layer := newStreamLayer(l, n.opts.advertised(l.Addr()), n.ClusterID, n.checkCluster)
	layer.connect = n.opts.network.dial
	return layer, nil
}

// checkCluster holds the cluster id of a node that opens a raft connection against ours, and whether it wants this node. A node
// that has no cluster yet takes the other's: the leader of that cluster has added it.
func (n *Node) checkCluster(id, node string) error {
	own := n.ClusterID()
	switch {
	case node != n.NodeID():
		n.metrics.strangers.Inc()
		n.log.Debug("refused a raft connection to a node that was at this address before", "wanted", node)
		return fmt.Errorf("%w: it wants node %q, this is %s", errForeignPeer, node, n.NodeID())
	case id == own && id != "":
		return nil
	case own != "" || id == "":
		n.metrics.strangers.Inc()
		n.log.Warn("refused a raft connection from another cluster", "theirs", id, "ours", own)
		return fmt.Errorf("%w: it says cluster %q, this node is of %q", errForeignPeer, id, own)
	}
	return n.adoptCluster(id)
}

// startRaft opens stores and transport and starts raft over layer, which it owns from here on.
func (n *Node) startRaft(layer *streamLayer) error {
	quiet := hclog.NewNullLogger() // the transport reports each closed connection as an error; raft reports what matters
	if n.log.IsDebug() {
		quiet = n.log.Named("raft-net")
	}
	n.transport = newGuardTransport(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: layer, MaxPool: connPool, MaxRPCsInFlight: rpcsInFlight, Timeout: rpcTimeout,
		Logger: quiet, MsgpackUseNewTimeFormat: true,
	}), n.log, n.metrics)
	n.transport.locate = n.raftAddrOf
	n.transport.holds, n.transport.ending = n.holds, n.ctx
	st, err := openStores(n.opts, n.folder)
	if err != nil {
		return errors.Join(err, n.transport.Close())
	}
	if n.opts.wrapStores != nil {
		st = n.opts.wrapStores(st)
	}
	n.stores = st
	n.guard = newGuardStore(st, n.opts.StallLimit, n.fail, n.metrics)
	n.guard.applied = n.positions.index.Load
	if n.opts.LogStore != LogStoreMemory {
		n.guard.begun = n.folder.setHasLog
	}
	if err := n.recover(newLogCache(n.guard, cacheBytes)); err != nil {
		return errors.Join(err, n.transport.Close(), st.close())
	}
	return nil
}

// recover starts raft from the snapshot and the log that this node has.
func (n *Node) recover(logs raft.LogStore) error {
	if err := n.openSnapshotStore(); err != nil {
		return err
	}
	logs, err := n.chooseStart(logs)
	if err == nil {
		err = n.noteState(logs)
	}
	if err != nil {
		return err
	}
	if n.raft, err = n.newRaft(logs); err != nil {
		return fmt.Errorf("start raft: %w", err)
	}
	n.adapter.runs.Store(true)
	n.stream.start()
	return nil
}

// newRaft starts raft, which panics when an entry is missing or cannot be read.
func (n *Node) newRaft(logs raft.LogStore) (r *raft.Raft, err error) {
	spoiled := func(err error) error {
		return n.spoiled(fmt.Errorf("%w: data folder %s is damaged: %s", err, n.opts.DataDir, howToMend))
	}
	config := raftConfig(n.opts, n.NodeID(), n.notify)
	if err := raft.ValidateConfig(config); err != nil {
		return nil, err
	}
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error: // a mistake of this program's
			err = fmt.Errorf("%w: data folder %s may be damaged: %s", p, n.opts.DataDir, howToMend)
		case error:
			err = spoiled(p)
		default:
			err = spoiled(fmt.Errorf("%v", p))
		}
	}()
	var snaps raft.SnapshotStore = raft.NewDiscardSnapshotStore()
	if n.snaps != nil {
		snaps = n.snaps
	}
	r, err = raft.NewRaft(config, n.adapter, logs, n.guard, snaps, n.transport)
	if err != nil { // it cannot read its log, its vote or its snapshot
		return nil, spoiled(errors.Join(err, n.adapter.restoring))
	}
	return r, nil
}

// spoiled makes what raft cannot start from damage, unless the disk does not give it.
func (n *Node) spoiled(err error) error {
	if n.opts.LogStore != LogStoreMemory {
		for _, name := range []string{logFile, stableFile} {
			if rerr := readable(n.folder.path(name)); rerr != nil {
				return errors.Join(err, rerr)
			}
		}
	}
	return damaged(partRaft, err)
}

// noteState notes whether there is a raft log already. A node that lost its log or its vote must not go on under its id: the
// others count on what it promised to keep, and a majority with it could lose what was acknowledged.
func (n *Node) noteState(logs raft.LogStore) error {
	last, err := logs.LastIndex()
	if err != nil {
		return fmt.Errorf("read the raft log: %w", err)
	}
	n.logs = logs
	n.gossip.mu.own.State = last > 0 || n.restores() || n.folder.identity().Aside != nil
	if last > 0 && n.ClusterID() == "" {
		return fmt.Errorf("data folder %s holds a raft log but no cluster id: identity.json was replaced: restore it", n.opts.DataDir)
	}
	if n.opts.LogStore == LogStoreMemory {
		return nil
	}
	if last == 0 {
		if n.folder.identity().HasLog {
			return damaged(partRaft, fmt.Errorf("the raft log of data folder %s is gone: %s", n.opts.DataDir, howToMend))
		}
		return nil
	}
	if term, err := n.guard.GetUint64(termKey); err != nil || term == 0 {
		return n.spoiled(fmt.Errorf("term and vote of data folder %s are gone (raft/stable.db): %s", n.opts.DataDir, howToMend))
	}
	return n.folder.setHasLog()
}
