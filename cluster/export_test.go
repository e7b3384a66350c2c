package cluster

import (
	"bytes"
	"context"
	"errors"
	"net"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// SetCatchUpStep makes a node call f at each step of a catch-up.
func SetCatchUpStep(o *Options, f func(ctx context.Context, step string)) { o.catchUpStep = f }

// CatchUpSteps are the steps in their order.
func CatchUpSteps() []string {
	return []string{stepListed, stepFile, stepState, stepInstalled, stepPut}
}

// ScrubNow reads and checks all of history.
func (s *Stream) ScrubNow(ctx context.Context) error { return s.history.scrubber.once(ctx) }

// SendSnapshot sends a snapshot's manifest to a node in the way of a leader of a term.
func SendSnapshot(node, to, cluster string, term uint64, manifest []byte) (success bool, itsTerm uint64, err error) {
	m, err := decodeSnapManifest(manifest)
	if err != nil {
		return false, 0, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return false, 0, err
	}
	layer := newStreamLayer(l, l.Addr().String(), func() string { return cluster }, func(string, string) error { return errForeignPeer })
	defer layer.wait()
	trans := raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{Stream: layer, MaxPool: 1, Timeout: rpcTimeout, Logger: hclog.NewNullLogger()})
	defer trans.Close()
	req := &raft.InstallSnapshotRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte("test"), Addr: []byte(layer.advertise)}, SnapshotVersion: raftSnapshotVersion,
		Term: term, LastLogIndex: m.index, LastLogTerm: m.term, Size: int64(len(manifest)),
		Configuration: raft.EncodeConfiguration(m.config), ConfigurationIndex: m.configIndex,
	}
	var resp raft.InstallSnapshotResponse
	err = trans.InstallSnapshot("to", raft.ServerAddress(nodeAddr(node, to)), req, &resp, bytes.NewReader(manifest))
	return resp.Success, resp.Term, err
}

// AppendToLog adds n entries, which no other node has, to the log of a node that does not run, in the term that it is in.
func AppendToLog(dir string, n int) (err error) {
	f := &folder{dir: dir}
	st, err := openStores(Options{LogStore: LogStoreBolt}, f)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	last, err := st.logs.LastIndex()
	if err != nil {
		return err
	}
	term, err := st.stable.GetUint64(termKey)
	if err != nil {
		return err
	}
	var logs []*raft.Log
	for i := range n {
		logs = append(logs, &raft.Log{Index: last + 1 + uint64(i), Term: term, Type: raft.LogCommand, Data: []byte("never committed")})
	}
	return st.logs.StoreLogs(logs)
}

// Housekeep does a node's housekeeping so many times, as if seconds had passed.
func Housekeep(n *Node, times int) {
	for range times {
		n.tryBootstrap()
		n.electAlone()
	}
}

// LastIndex is the last entry in a node's log.
func LastIndex(n *Node) uint64 { return n.raft.LastIndex() }

// ReadLog reads an entry from a node's disk, as one must that sends it to a node that was away.
func ReadLog(n *Node, index uint64) error { return n.guard.GetLog(index, new(raft.Log)) }
