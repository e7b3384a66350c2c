package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// Batches that were popped by the proposer when the leadership ended come back after those that raft refused meanwhile,
// which were submitted before them.
func TestBatchesThatComeBackLateKeepTheirOrder(t *testing.T) {
	r := newRig(t, nil)
	r.stop()
	r.p.mu.closed = false
	s := newSession(1, 4, r.p)
	r.p.setSession(s)
	s.open()
	r.submit("first")
	r.submit("second")
	items := r.p.take(s, 0)
	earlier, later := []queued{items[0]}, []queued{items[1]}
	r.p.putBack(earlier) // the sweep
	r.p.putBack(later)   // the proposer
	r.submit("third")
	var got []string
	for _, it := range r.p.take(s, 0) {
		got = append(got, string(record.First(it.s.Batch.Records()).Payload()))
		it.s.finish(fsm.Result{})
	}
	if fmt.Sprint(got) != "[first second third]" {
		t.Fatalf("the queue holds %v", got)
	}
	r.endSession(s)
}

// A batch that raft refused must not go in after a later one that may be in the log.
func TestRefusedBeforeUnknownIsNotRetried(t *testing.T) {
	for _, swept := range []bool{false, true} {
		r := newRig(t, func(o *Options) { o.EntriesInflight = 4 })
		s := r.lead()
		big := string(make([]byte, record.MaxEntryBody))
		a, b := r.submit("a"+big), r.submit("b"+big)
		a.name, b.name = "a", "b"
		ea, eb := r.next(), r.next()
		ea.future.err <- raft.ErrLeadershipTransferInProgress
		r.waitPending(s, 1)
		if swept {
			returned, _ := s.sweep()
			r.p.putBack(returned)
			r.p.setSession(nil)
		} else {
			eb.future.err <- raft.ErrLeadershipLost
		}
		r.want(b, fsm.Unknown)
		r.want(a, fsm.Unavailable)
		if swept {
			eb.future.err <- raft.ErrRaftShutdown
		}
	}
}

// A peer's batch that comes while this node learns that it does not lead is not sent on.
func TestForwardedBatchesAreNeverSentOn(t *testing.T) {
	k, _, _ := newTestLink(t)
	r := newRig(t, nil)
	r.stop()
	r.p.mu.closed = false
	o := r.submitAs("from a peer", true)
	r.p.forward(k)
	r.want(o, fsm.NotLeader)
}

// The same over a link: what the leader refused does not go back when something later was handed over and not answered.
func TestLinkRefusedBeforeUnknownIsNotRetried(t *testing.T) {
	k, f, box := newTestLink(t)
	a, b := testSubmission("a"), testSubmission("b")
	var names []string
	if !k.publish(queued{s: a}) || !k.publish(queued{s: b}) {
		t.Fatal("not taken")
	}
	id, _ := f.publish(&names)
	f.publish(&names)
	f.ack(id, fsm.NotLeader)
	for !k.isStale() {
		time.Sleep(time.Millisecond)
	}
	k.close()
	if code, done := box.code(a); !done || code != fsm.Unavailable || len(box.returned) != 0 {
		t.Errorf("the refused one ended as %v (%v), %d came back", code, done, len(box.returned))
	}
	if code, done := box.code(b); !done || code != fsm.Unknown {
		t.Errorf("the other ended as %v (%v)", code, done)
	}
}

// A node that begins to lead first takes back what the old leader refused: it was submitted before what is queued here.
func TestNewLeaderTakesBackWhatTheOldOneRefused(t *testing.T) {
	k, f, _ := newTestLink(t)
	r := newRig(t, nil)
	k.box = r.p
	n := &Node{proposer: r.p}
	n.link.Store(k)
	a := r.submit("a")
	var names []string
	if it := r.pop(); !k.publish(it) {
		t.Fatal("not taken")
	}
	id, _ := f.publish(&names)
	f.ack(id, fsm.NotLeader)
	for !k.isStale() {
		time.Sleep(time.Millisecond)
	}
	b := r.submit("b")
	s := newSession(randomID(), r.p.inflight, r.p)
	r.p.setSession(s)
	n.openSession(s)
	for r.stream.Machine().LastSeq() < 2 {
		r.apply(r.next())
	}
	r.want(a, fsm.OK)
	r.want(b, fsm.OK)
	if got := r.payloads(); got != "[a b]" {
		t.Errorf("the stream holds %s", got)
	}
}

func (r *rig) pop() queued {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	return r.p.popLocked()
}

func testSubmission(payload string) *Submission {
	return &Submission{Batch: testBatch(payload), Names: []string{"a/b"}, Complete: func(*Submission, fsm.Result) {}}
}
