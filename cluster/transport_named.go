package cluster

import (
	"io"

	"github.com/hashicorp/raft"
)

// namedTransport sends each RPC to the node that raft means. Raft's own requests do not name whom they are for, and a node that
// lost its disk comes back at the same address under another id: had it answered in the old one's name, its vote and its copies
// would have counted for what the old one had promised.
type namedTransport struct {
	*raft.NetworkTransport
	// locate tells where gossip sees a node, even when the address in raft's configuration is old. Set before raft starts.
	// nil: it is where raft says.
	locate func(id string) (addr string, ok bool)
}

// at is what the stream layer dials for a node.
func (t *namedTransport) at(id raft.ServerID, target raft.ServerAddress) raft.ServerAddress {
	addr := string(target)
	if t.locate != nil {
		if now, ok := t.locate(string(id)); ok {
			addr = now
		}
	}
	return raft.ServerAddress(nodeAddr(string(id), addr))
}

// AppendEntriesPipeline implements raft.Transport.
func (t *namedTransport) AppendEntriesPipeline(id raft.ServerID, target raft.ServerAddress) (raft.AppendPipeline, error) {
	return t.NetworkTransport.AppendEntriesPipeline(id, t.at(id, target))
}

// AppendEntries implements raft.Transport.
func (t *namedTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.NetworkTransport.AppendEntries(id, t.at(id, target), req, resp)
}

// RequestVote implements raft.Transport.
func (t *namedTransport) RequestVote(id raft.ServerID, target raft.ServerAddress, req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return t.NetworkTransport.RequestVote(id, t.at(id, target), req, resp)
}

// RequestPreVote implements raft.WithPreVote.
func (t *namedTransport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return t.NetworkTransport.RequestPreVote(id, t.at(id, target), req, resp)
}

// InstallSnapshot implements raft.Transport.
func (t *namedTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.NetworkTransport.InstallSnapshot(id, t.at(id, target), req, resp, data)
}

// TimeoutNow implements raft.Transport.
func (t *namedTransport) TimeoutNow(id raft.ServerID, target raft.ServerAddress, req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return t.NetworkTransport.TimeoutNow(id, t.at(id, target), req, resp)
}
