package e2e

import (
	"context"
	"fmt"
	"maps"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/fsm"
)

// readWhole reads the stream up to head from one node, which must hold all of it in its tip.
func (w *world) readWhole(c *client.Client, node string, head uint64) []stored {
	w.Helper()
	s, err := c.Subscribe(w.ctx, client.SubscribeOptions{Filters: []string{"**"}, From: client.Seq(1), MinSeq: head, MinSeqWait: patience / 2, Node: node})
	w.must(err)
	defer s.Close()
	list := make([]stored, 0, head)
	for m, err := range s.ToCaughtUp(w.ctx) {
		w.must(err)
		list = append(list, asStored(&m))
	}
	if s.Stats().Resumed > 0 {
		w.Fatalf("the audit of node %s went on at another node", node)
	}
	return list
}

// digests takes a checkpoint and returns its id and what every node says of its state there.
func (w *world) digests() (id uint64, of map[string]fsm.Digest) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	id, err := w.cluster.Leader().Checkpoint(ctx)
	w.must(err)
	return id, w.digestsAt(id)
}

func (w *world) digestsAt(id uint64) map[string]fsm.Digest {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	of := map[string]fsm.Digest{}
	for _, m := range w.cluster.Running() {
		d, err := m.CheckpointDigest(ctx, id)
		w.must(err)
		of[m.NodeID()] = d
	}
	return of
}

// wantEqual fails unless all nodes have the same digest, which it returns.
func (w *world) wantEqual(of map[string]fsm.Digest) fsm.Digest {
	w.Helper()
	var one fsm.Digest
	for _, d := range of {
		one = d
	}
	for node, d := range of {
		if d.Seq != one.Seq || d.Index != one.Index || !maps.Equal(d.Parts, one.Parts) {
			w.Errorf("replicas differ: node %s has %+v, another %+v", node, d, one)
		}
	}
	return one
}

// audit ends a test: all writers are closed. The replicas must be equal; then all nodes are killed, and what each rebuilds
// from its log must be the same again and hold what publishers were told. It returns the whole stream.
func (w *world) audit() []stored {
	w.Helper()
	id, of := w.digests()
	before := w.wantEqual(of)
	if !w.history {
		w.tip = wholeTip
	}
	w.restartAll()
	after := w.wantEqual(w.digestsAt(id))
	if !maps.Equal(before.Parts, after.Parts) {
		w.Errorf("a replay made another state: %+v, before the restart %+v", after, before)
	}
	c := w.connect()
	defer c.Close()
	var stream []stored
	for i, m := range w.cluster.Running() {
		list := w.readWhole(c, w.ports[m.NodeID()][0], before.Seq)
		w.ledger.check(fmt.Sprintf("node %d", i), list)
		if i == 0 {
			stream = list
			continue
		}
		w.wantSame(i, stream, list)
	}
	return stream
}

// wantSame compares two nodes' streams.
func (w *world) wantSame(node int, want, got []stored) {
	w.Helper()
	if len(got) != len(want) {
		w.Errorf("node %d has %d messages, node 0 has %d", node, len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			w.Errorf("node %d has %+v, node 0 has %+v", node, got[i], want[i])
			return
		}
	}
}
