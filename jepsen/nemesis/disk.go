package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/jepsen/node"
)

func powerFault() Fault {
	return Fault{Name: "power", About: "nodes lose power: the process, and all that it did not sync", Need: NeedImages, aims: []aim{leader, follower, minority, majority, all, all},
		inject: func(a *attack) (*injury, error) {
			errs := make([]error, len(a.cluster().Nodes))
			each(a.targets, func(n *node.Node) { errs[n.Index] = n.PowerCut() })
			return &injury{targets: a.targets, heal: func(ctx context.Context) error { return revive(ctx, a.targets) }}, errors.Join(errs...)
		}}
}

func fullFault() Fault {
	return Fault{Name: "full", About: "a disk runs full, to the last byte or nearly, and is freed", Need: NeedImages, aims: []aim{leader, follower, minority, all},
		inject: func(a *attack) (*injury, error) {
			left := int64(0)
			if a.r.IntN(2) == 0 {
				left = 4 << 20 // below what the node wants to have free, and enough for what it has begun
			}
			var err error
			for _, n := range a.targets {
				n.SetSick(true)
				err = errors.Join(err, n.Disk.Fill(left))
			}
			return &injury{targets: a.targets, detail: fmt.Sprintf("%d bytes left", left), heal: func(ctx context.Context) error {
				var err error
				for _, n := range a.targets {
					err = errors.Join(err, n.Disk.Free())
				}
				return errors.Join(err, well(ctx, a.targets))
			}}, err
		}}
}

// well waits until nodes are up, restarted or not, and counts on them again.
func well(ctx context.Context, nodes []*node.Node) (err error) {
	for _, n := range nodes {
		err = errors.Join(err, n.WaitReady(ctx))
		n.SetSick(false)
	}
	return err
}

// hookFault is a fault that a test build makes itself, told by lines in a file.
func hookFault(name, about string, sick bool, aims []aim, lines func(*attack) []string) Fault {
	return Fault{Name: name, About: about, Need: NeedHooks, aims: aims, inject: func(a *attack) (*injury, error) {
		text := strings.Join(lines(a), "\n")
		var err error
		for _, n := range a.targets {
			if sick {
				n.SetSick(true)
			}
			err = errors.Join(err, os.WriteFile(n.FaultsPath(), []byte(text), 0o644))
		}
		return &injury{targets: a.targets, detail: strings.ReplaceAll(text, "\n", ", "), heal: func(ctx context.Context) error {
			var err error
			for _, n := range a.targets {
				err = errors.Join(err, os.WriteFile(n.FaultsPath(), nil, 0o644))
			}
			return errors.Join(err, well(ctx, a.targets))
		}}, err
	}}
}

func oneOf(a *attack, list ...string) string { return list[a.r.IntN(len(list))] }

func writeErrorFault() Fault {
	return hookFault("write-error", "writes fail", true, []aim{leader, follower, minority, all}, func(a *attack) []string {
		return []string{"write " + oneOf(a, "eio", "enospc")}
	})
}

func syncErrorFault() Fault {
	return hookFault("sync-error", "syncs fail", true, []aim{leader, follower, minority, all}, func(a *attack) []string {
		return []string{"sync " + oneOf(a, "eio", "enospc")}
	})
}

func slowSyncFault() Fault {
	return hookFault("slow-sync", "syncs take 20 to 420 ms longer", true, []aim{leader, follower, minority, all}, func(a *attack) []string {
		return []string{"sync slow " + (20*time.Millisecond + time.Duration(a.r.Int64N(int64(400*time.Millisecond)))).String()}
	})
}

func hangSyncFault() Fault {
	return hookFault("hang-sync", "syncs do not return", true, []aim{leader, follower, minority}, func(*attack) []string {
		return []string{"sync hang"}
	})
}

func clockFault() Fault {
	return hookFault("clock", "the clock jumps, by seconds to days, ahead or back", false, []aim{leader, follower, minority, all}, func(a *attack) []string {
		jump := []time.Duration{time.Second, time.Minute, time.Hour, 48 * time.Hour}[a.r.IntN(4)]
		jump = time.Duration(a.r.Int64N(int64(jump)))
		if a.r.IntN(2) == 0 {
			jump = -jump
		}
		return []string{"clock " + jump.String()}
	})
}
