package nemesis

import (
	"context"
	"errors"
	"time"

	"github.com/cantus-bus/cantus/internal/faults"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/disk"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// stepWait is how long a node has to come by the point where it is to die.
const stepWait = 8 * time.Second

// step is a point of the broker between two writes to its disk, and what brings a node by it.
type step struct {
	point  faults.Point
	about  string
	passes int      // up to so many times it passes by
	start  bool     // it comes by while it starts, having been away
	ask    []string // requests that lead there sooner
}

var (
	askSnapshot = []string{"/v1/snapshot"}
	askPlan     = []string{"/v1/plan"}
)

func steps() []step {
	return []step{
		{faults.Append, "while entries are written to the raft log, before they are synced", 20, false, nil},
		{faults.Appended, "when entries are synced and nobody was told", 20, false, nil},
		{faults.Trim, "while the raft log is cut behind a snapshot", 0, false, askSnapshot},
		{faults.Seal, "between the files of a change of history and its manifest", 1, false, askPlan},
		{faults.Sealed, "between the seal of a window and a snapshot", 1, false, nil},
		{faults.Split, "while history is split into stores", 3, false, askPlan},
		{faults.Snapshot, "between the state of a snapshot and its manifest", 0, false, askSnapshot},
		{faults.Closed, "between a snapshot and the cut of the log", 0, false, askSnapshot},
		{faults.Fetched, "when another node's snapshot and files were fetched", 0, true, nil},
		{faults.Installed, "between another node's history and its snapshot", 0, true, nil},
		{faults.Put, "between the close of another node's snapshot and its restore", 0, true, nil},
		{faults.Restore, "in the midst of restoring a snapshot", 0, true, nil},
		{faults.Restored, "between a restored snapshot and the log behind it", 0, true, nil},
	}
}

// stepPrefix begins the names of the faults that hit a step.
const stepPrefix = "at-"

// StepName is the name of the fault that ends a node at a point.
func StepName(p faults.Point) string { return stepPrefix + string(p) }

func stepNames() (names []string) {
	for _, s := range steps() {
		names = append(names, StepName(s.point))
	}
	return names
}

// stepFaults end a node exactly at a step: it stops itself there, and is killed or loses its power.
func stepFaults() (list []Fault) {
	for _, s := range steps() {
		list = append(list, Fault{
			Name: StepName(s.point), About: "a node dies, or loses power, " + s.about, Need: NeedHooks, aims: []aim{leader, follower},
			inject: func(a *attack) (*injury, error) { return a.hitStep(s) },
		})
	}
	return list
}

func (a *attack) hitStep(s step) (*injury, error) {
	n := a.targets[0]
	if s.start {
		n.Kill()
		a.leaveBehind()
	}
	err := n.StopAt(s.point, a.r.IntN(s.passes+1))
	if err == nil && s.start {
		err = n.Start()
	}
	reached := err == nil && a.bring(n, s)
	err = errors.Join(err, n.NoStop())
	if !reached && !n.Stopped() {
		a.n.note("%s did not come by %s", n.Name, s.point)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.n.o.Patience)
		defer cancel()
		return nil, errors.Join(err, n.WaitReady(ctx))
	}
	n.Pause() // it is already: this is for the record
	detail := "power cut"
	if a.r.IntN(2) == 0 {
		detail = "kill -9"
		n.Kill()
	} else if cut := n.PowerCut(); !errors.Is(cut, disk.ErrUnsupported) {
		err = errors.Join(err, cut)
	} else {
		detail = "kill -9"
	}
	return &injury{targets: a.targets, detail: detail, hold: time.Millisecond, heal: func(ctx context.Context) error { return revive(ctx, a.targets) }}, err
}

// bring waits until the node has stopped at the step, and asks for what leads there. False: it has not come by in time.
func (a *attack) bring(n *node.Node, s step) bool {
	ctx, cancel := context.WithTimeout(a.ctx, stepWait)
	defer cancel()
	for i := 0; ; i++ {
		if n.Stopped() {
			return true
		}
		if len(s.ask) > 0 && i%50 == 0 {
			go ask(ctx, n, s.ask[0]) // a node that has stopped does not answer
		}
		if !pause.For(ctx, 10*time.Millisecond) {
			return n.Stopped()
		}
	}
}

// ask asks for something. A refusal is as good as an answer.
func ask(ctx context.Context, n *node.Node, path string) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_ = n.Post(ctx, path, struct{}{}, nil)
}

// leaveBehind lets the other nodes go on without one that is down, and cut their logs.
func (a *attack) leaveBehind() {
	for range 2 + a.r.IntN(2) { // two snapshots, before the log is cut
		pause.For(a.ctx, pause.About(a.r, 700*time.Millisecond))
		for _, n := range a.cluster().Voters() {
			if n.State() == history.NodeUp {
				ask(a.ctx, n, "/v1/snapshot")
			}
		}
	}
}
