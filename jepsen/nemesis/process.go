package nemesis

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// each does something to all targets at once.
func each(nodes []*node.Node, f func(*node.Node)) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() { f(n) })
	}
	wg.Wait()
}

func killFault() Fault {
	return Fault{Name: "kill", About: "kill -9, then start again", aims: anyone, inject: func(a *attack) (*injury, error) {
		each(a.targets, (*node.Node).Kill)
		return &injury{targets: a.targets, heal: func(ctx context.Context) error { return revive(ctx, a.targets) }}, nil
	}}
}

func pauseFault() Fault {
	return Fault{Name: "pause", About: "SIGSTOP for seconds, then SIGCONT", aims: anyone, inject: func(a *attack) (*injury, error) {
		each(a.targets, (*node.Node).Pause)
		return &injury{targets: a.targets, heal: func(context.Context) error {
			each(a.targets, (*node.Node).Resume)
			return nil
		}}, nil
	}}
}

// stutterFault pauses for a little less, or a little more, than followers wait for their leader, several times.
func stutterFault() Fault {
	return Fault{Name: "stutter", About: "SIGSTOP again and again for just under the election timeout", aims: anyone, inject: func(a *attack) (*injury, error) {
		times := 2 + a.r.IntN(5)
		part := 0.6 + 0.5*a.r.Float64()
		length := time.Duration(part * float64(a.n.o.ElectionTimeout))
		for range times {
			each(a.targets, (*node.Node).Pause)
			pause.For(a.ctx, length)
			each(a.targets, (*node.Node).Resume)
			if !pause.For(a.ctx, time.Duration(a.r.Int64N(int64(a.n.o.ElectionTimeout)))) {
				break
			}
		}
		return &injury{targets: a.targets, momentary: true, detail: fmt.Sprintf("%d times %v", times, length.Round(time.Millisecond))}, nil
	}}
}

func transferFault() Fault {
	return Fault{Name: "transfer", About: "a storm of leadership transfers", inject: func(a *attack) (*injury, error) {
		done, asked := 0, 3+a.r.IntN(8)
		for range asked {
			voters := a.cluster().Voters()
			to := voters[a.r.IntN(len(voters))]
			ctx, cancel := context.WithTimeout(a.ctx, 3*time.Second)
			if a.cluster().Transfer(ctx, to) == nil { // a refusal is an answer, too: it may lead already
				done++
			}
			cancel()
			if !pause.For(a.ctx, time.Duration(a.r.Int64N(int64(300*time.Millisecond)))) {
				break
			}
		}
		return &injury{momentary: true, detail: fmt.Sprintf("%d of %d", done, asked)}, nil
	}}
}

// snapshotFault makes nodes take snapshots under load, kills one at a random moment of that, and lets it install or restore.
func snapshotFault() Fault {
	return Fault{Name: "snapshot", About: "snapshots under load, with a kill at a random moment of one", aims: []aim{leader, follower}, inject: func(a *attack) (*injury, error) {
		each(a.targets, (*node.Node).Kill) // it misses what is cut from the logs meanwhile
		a.leaveBehind()
		return &injury{targets: a.targets, hold: time.Millisecond, heal: func(ctx context.Context) error {
			if err := revive(ctx, a.targets); err != nil {
				return err
			}
			for _, n := range a.targets {
				ask(ctx, n, "/v1/snapshot") // it may be cut short by what follows
				time.Sleep(time.Duration(a.r.Int64N(int64(300 * time.Millisecond))))
				n.Kill()
			}
			return revive(ctx, a.targets)
		}}, nil
	}}
}
