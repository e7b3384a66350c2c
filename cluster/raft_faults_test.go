package cluster

import (
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
)

// TestAppendsAreNotPipelined: with two appends on their way one that fails can stop a follower for ever, while heartbeats look well.
func TestAppendsAreNotPipelined(t *testing.T) {
	a, b := newTestTransport(t, "x"), newTestTransport(t, "x")
	p, err := a.AppendEntriesPipeline("b", b.LocalAddr())
	if err == nil {
		_ = p.Close()
	}
	if !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Fatalf("raft would send appends without waiting for answers: %v", err)
	}
}

// TestRaftReplaysNothingUncommitted: raft's own replay of what a store takes for committed skips configurations and hangs with many
// entries. It needs a store that tracks the commit index, which ours must not seem to be, and be switched on.
func TestRaftReplaysNothingUncommitted(t *testing.T) {
	if raftConfig(Options{}.withDefaults(), "x", nil).RestoreCommittedLogs {
		t.Error("raft replays what it takes for committed")
	}
	var logs raft.LogStore = &guardStore{}
	if _, ok := logs.(raft.CommitTrackingLogStore); ok {
		t.Error("the guarded store seems to track the commit index")
	}
	logs = newLogCache(logs, 0)
	if _, ok := logs.(raft.CommitTrackingLogStore); ok {
		t.Error("the cached store seems to track the commit index")
	}
}

// TestStuckTransferIsNoticedWithoutPublishes: raft goes on leading and refuses everything when its flag of a transfer stays up. Here the test puts it
// up for good; nobody publishes, so that only who asked for the transfer can notice.
func TestStuckTransferIsNoticedWithoutPublishes(t *testing.T) {
	n := openAlone(t, &faultyStore{}, nil)
	if r := <-submitTo(t, n, "fine"); r.Code != fsm.OK {
		t.Fatal(r)
	}
	flag := reflect.ValueOf(n.raft).Elem().FieldByName("leaderState").FieldByName("leadershipTransferInProgress")
	if !flag.IsValid() || flag.Kind() != reflect.Int32 {
		t.Fatal("raft has no such flag any more: see whether its transfers can still stick")
	}
	atomic.StoreInt32((*int32)(unsafe.Pointer(flag.UnsafeAddr())), 1)
	if err := n.transferTo(""); err == nil {
		t.Fatal("a node alone has handed over")
	}
	wantFailure(t, n, "after a leadership transfer")
	if err := n.Err(); !strings.Contains(err.Error(), "restart the node") {
		t.Errorf("it does not say what to do: %v", err)
	}
}
