package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/internal/bugs"
)

const (
	// maxInstalls is how many InstallSnapshots are read at once; one more is refused.
	maxInstalls = 4
	// installPoll is how often a leader asks a node that fetches history whether it is done; between two tries raft itself would wait
	// up to ten seconds longer after each.
	installPoll = time.Second
	// installPatience is how long it asks with one snapshot: then raft sends the newest.
	installPatience = 30 * time.Second
)

// errFetching answers a leader whose snapshot is on its way here. Its text travels: the leader knows it by this.
var errFetching = errors.New("the node is fetching history")

// errInstallRefused answers an InstallSnapshot that cannot be looked at now.
var errInstallRefused = errors.New("the node takes no snapshot now")

// installFunc answers an InstallSnapshot, whose content is blob, at once. Any goroutine.
type installFunc func(req *raft.InstallSnapshotRequest, blob []byte) (*raft.InstallSnapshotResponse, error)

// admit is false for an InstallSnapshot, which is read and answered by a goroutine of its own: RPCs that come meanwhile do not wait
// for a sender that stalls.
func (g *guardTransport) admit(rpc raft.RPC) bool {
	req, ok := rpc.Command.(*raft.InstallSnapshotRequest)
	if !ok || bugs.RawInstall {
		return true
	}
	refuse := func(err error) {
		g.metrics.snapshotsRefused.Inc()
		rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: req.RPCHeader, Term: req.Term}, err)
	}
	if req.Size > maxSnapshotBlob {
		refuse(fmt.Errorf("%w: it has %d bytes, the limit is %d", errInstallRefused, req.Size, maxSnapshotBlob))
		return false
	}
	select {
	case g.installs <- struct{}{}:
	default:
		refuse(fmt.Errorf("%w: %d others are under way", errInstallRefused, maxInstalls))
		return false
	}
	answering := g.answers.Go(func() { // ends with its connection at the latest
		defer func() { <-g.installs }()
		resp, err := g.answerInstall(req, rpc.Reader)
		if resp == nil {
			refuse(err)
			return
		}
		rpc.Respond(resp, err)
	})
	if !answering {
		<-g.installs
		refuse(fmt.Errorf("%w: it is closing", errInstallRefused))
	}
	return false
}

func (g *guardTransport) answerInstall(req *raft.InstallSnapshotRequest, r io.Reader) (*raft.InstallSnapshotResponse, error) {
	blob, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	install := g.install.Load()
	if install == nil {
		return nil, fmt.Errorf("%w: it is starting", errInstallRefused)
	}
	return (*install)(req, blob)
}

// AppendEntries implements raft.Transport. The log is held for a node that has fetched a snapshot until it has all of the rest: if it
// were cut meanwhile, the node would have to fetch another one, again and again.
func (g *guardTransport) AppendEntries(id raft.ServerID, target raft.ServerAddress, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := g.namedTransport.AppendEntries(id, target, req, resp)
	if err == nil && resp.Success && req.PrevLogEntry > 0 {
		g.holds.reached(string(id), req.PrevLogEntry+uint64(len(req.Entries)), req.LeaderCommitIndex)
	}
	return err
}

// InstallSnapshot implements raft.Transport. While the node fetches what it lacks, and while it is then opened again and does not answer,
// this call goes on: after one that ends without success raft waits longer each time, and then sends a newer snapshot, so that under load
// the node would fetch for ever. The log is kept for the node.
func (g *guardTransport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	blob, err := io.ReadAll(io.LimitReader(data, maxSnapshotBlob+1))
	if err != nil {
		return fmt.Errorf("read snapshot %d: %w", req.LastLogIndex, err)
	}
	began, heard := time.Now(), time.Time{} // heard: when the node has last said that it fetches
	for {
		*resp = raft.InstallSnapshotResponse{}
		g.metrics.snapshotsSent.Inc()
		err := g.namedTransport.InstallSnapshot(id, target, req, resp, bytes.NewReader(blob))
		until := heard.Add(installPatience)
		if err != nil && strings.Contains(err.Error(), errFetching.Error()) {
			heard, until = time.Now(), began.Add(installPatience)
			g.holds.hold(string(id), req.LastLogIndex) // not for one that never answers: it could be gone for good
		}
		if err == nil || time.Now().After(until) {
			return err
		}
		select {
		case <-time.After(installPoll):
		case <-g.done:
			return err
		case <-g.ending.Done():
			return err
		}
	}
}
