package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/node"
)

const (
	operatorPause = 4 * time.Second  // between two of its acts, on average
	actLimit      = 60 * time.Second // for one act
	askAgain      = 200 * time.Millisecond
)

func membershipWorkload() Workload {
	return Workload{
		Name:  "membership",
		About: "a stream, while nodes are added, removed, and replaced with an empty disk",
		Spare: 1,
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "members", 30))
			w.addPublishers(4, publisher{topics: topics, size: 200})
			w.addReaders(topics, nil) // a reader of one node would be left behind with it
			w.publishers.Go(w.changeMembers)
			return nil
		},
	}
}

func rollingWorkload() Workload {
	return Workload{
		Name:  "rolling-restart",
		About: "a stream, while one node after the other is stopped in good order and started again",
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "rolling", 30))
			w.addPublishers(4, publisher{topics: topics, size: 200})
			w.addReaders(topics, w.Cluster.Voters())
			w.publishers.Go(w.roll)
			return nil
		},
	}
}

// roll restarts one voter after the other.
func (w *World) roll() {
	for i := 0; pause.For(w.publish, time.Second); i++ {
		voters := w.Cluster.Voters()
		n := voters[i%len(voters)]
		if !n.TryClaim() {
			continue
		}
		w.restart(n, func() {})
		n.Release()
	}
}

// restart stops a node in good order, does something, and starts it again. The caller has claimed it.
func (w *World) restart(n *node.Node, between func()) {
	n.Stop()
	between()
	err := n.Start()
	ctx, cancel := context.WithTimeout(w.read, actLimit)
	defer cancel()
	if err = errors.Join(err, n.WaitReady(ctx)); err != nil {
		w.note(fmt.Sprintf("restart of %s: %v", n.Name, err))
	}
}

// changeMembers replaces, adds and removes nodes, one at a time, and waits until each change is over. Only a cluster whose
// members are all well is changed: taking away a disk from one that has lost another is a loss no cluster outlives.
func (w *World) changeMembers() {
	r := w.source("members")
	for pause.For(w.publish, operatorPause/2+time.Duration(r.Int64N(int64(operatorPause)))) {
		ctx, cancel := context.WithTimeout(w.read, actLimit)
		err := w.act(ctx, r)
		cancel()
		if err != nil {
			w.note(fmt.Sprintf("operator: %v", err))
		}
	}
}

// act does one thing.
func (w *World) act(ctx context.Context, r *rand.Rand) error {
	voters := w.Cluster.Voters()
	n := voters[r.IntN(len(voters))]
	if !n.TryClaim() {
		return nil
	}
	defer n.Release()
	release, ok := w.Cluster.TryOperate()
	if !ok {
		return nil
	}
	defer release()
	if err := w.Cluster.WaitVoters(ctx); err != nil {
		return err
	}
	spares := slices.DeleteFunc(slices.Clone(w.Cluster.Nodes), func(s *node.Node) bool { return slices.Contains(voters, s) })
	switch {
	case len(spares) > 0 && r.IntN(2) == 0:
		return w.add(ctx, spares[0], voters)
	case len(voters) > 3:
		return w.remove(ctx, n, voters)
	default:
		return w.replace(ctx, n)
	}
}

// changed records an act.
func (w *World) changed(action, name string, invoke time.Duration, err error) error {
	e := &history.MembershipChanged{Invoke: invoke, Return: w.Record.Now(), Action: action, Node: name, Outcome: history.OK}
	if err != nil {
		e.Outcome, e.Code = history.Unknown, err.Error()
	}
	w.Record.Write(e)
	return err
}

func (w *World) add(ctx context.Context, n *node.Node, voters []*node.Node) error {
	at := w.Record.Now()
	err := n.Start()
	if err == nil {
		err = n.WaitReady(ctx)
	}
	if err == nil {
		w.Cluster.SetVoters(append(slices.Clone(voters), n))
		err = w.Cluster.WaitVoters(ctx)
	}
	return w.changed("add", n.Name, at, err)
}

// remove takes a member out for good: what it held is gone, as it may not come back under its id.
func (w *World) remove(ctx context.Context, n *node.Node, voters []*node.Node) error {
	at := w.Record.Now()
	err := w.removeID(ctx, n.ID())
	if err == nil {
		w.Cluster.SetVoters(slices.DeleteFunc(slices.Clone(voters), func(v *node.Node) bool { return v == n }))
		n.Kill()
		err = n.Wipe()
	}
	return w.changed("remove", n.Name, at, err)
}

// replace gives a member an empty disk: it comes back as another, and the old one is removed.
func (w *World) replace(ctx context.Context, n *node.Node) error {
	at := w.Record.Now()
	return w.changed("replace", n.Name, at, w.Cluster.Replace(ctx, n))
}

// removeID asks until the cluster agrees: without a leader, or with one that has just changed, it does not.
func (w *World) removeID(ctx context.Context, id string) error {
	for {
		err := w.Cluster.Remove(ctx, id)
		if err == nil || !pause.For(ctx, askAgain) {
			return err
		}
	}
}
