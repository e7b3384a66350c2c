package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// Folders of a node's data that it mends by itself.
const (
	historyFolder  = "history"
	snapshotFolder = "snapshots"
)

// victimIn chooses a file in a folder of a node's data; "": there is none.
func (a *attack) victimIn(n *node.Node, folder string, want func(name string) bool) (path string, err error) {
	dir := filepath.Join(n.Disk.Path(), folder)
	list, err := files(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	list = slices.DeleteFunc(list, func(path string) bool { return filepath.Dir(path) != dir || !want(filepath.Base(path)) })
	if err != nil || len(list) == 0 {
		return "", err
	}
	return a.victim(n.Disk.Path(), list), nil
}

// alone makes this attack the only one that takes synced data away, with all others in good order.
func (a *attack) alone() bool {
	release, ok := a.cluster().TryOperate()
	if !ok {
		return false
	}
	a.releases = append(a.releases, release)
	ctx, cancel := context.WithTimeout(a.ctx, mendWait)
	defer cancel()
	return a.cluster().WaitVoters(ctx) == nil
}

// flipLiveFault: the node goes on serving, finds the damage by itself and fetches the file from another.
func flipLiveFault() Fault {
	return Fault{Name: "flip-live", About: "one bit flipped in a file of history of a node that runs; it must mend it by itself", aims: []aim{leader, follower},
		inject: func(a *attack) (*injury, error) {
			if !a.alone() {
				return nil, nil
			}
			n := a.targets[0]
			path, err := a.victimIn(n, historyFolder, func(name string) bool { return strings.HasSuffix(name, ".cnts") })
			if err != nil || path == "" {
				return nil, err
			}
			n.SetDamaged()
			detail, err := flip(a.r, n.Disk.Path(), path)
			if errors.Is(err, os.ErrNotExist) {
				return nil, nil // it was rewritten meanwhile
			}
			at := time.Now()
			return &injury{targets: a.targets, detail: detail, heal: func(ctx context.Context) error { return mended(ctx, n, at) }}, err
		}}
}

// mended waits until a node has looked at all its files after a moment and none is damaged. The first scrub that ends after it may
// have read a file before.
func mended(ctx context.Context, n *node.Node, since time.Time) error {
	last, after := "", since.UnixNano()
	for scrubs := 0; ; {
		s, err := n.Status(ctx)
		switch {
		case err != nil:
			last = err.Error()
		case s.History == nil:
			last = "it has none"
		case s.History.LastScrub > after && scrubs == 0:
			scrubs, after = 1, s.History.LastScrub
		case s.History.LastScrub <= after:
			last = "no scrub since"
		case len(s.History.Damaged) > 0:
			last = strings.Join(s.History.Damaged, "; ")
		default:
			return nil
		}
		if !pause.For(ctx, 200*time.Millisecond) {
			return fmt.Errorf("%s has not mended its history: %s", n.Name, last)
		}
	}
}

// snapshotDamageFault: one of a running node's snapshots is damaged, then it is killed. It must start all the same: from the snapshot
// before, or from the log.
func snapshotDamageFault() Fault {
	return Fault{Name: "snapshot-damage", About: "a bit flipped in a snapshot, or it is cut, zeroed or removed, and its node killed", aims: []aim{leader, follower},
		inject: func(a *attack) (*injury, error) {
			if !a.alone() {
				return nil, nil
			}
			n := a.targets[0]
			for range 2 {
				ask(a.ctx, n, "/v1/snapshot") // so that there is one before
				pause.For(a.ctx, 100*time.Millisecond)
			}
			path, err := a.victimIn(n, snapshotFolder, func(name string) bool { return strings.HasPrefix(name, "s-") && !strings.HasSuffix(name, ".tmp") })
			if err != nil || path == "" {
				return nil, err
			}
			damage := flip
			if a.r.IntN(2) == 0 {
				damage = tear
			}
			n.SetDamaged()
			detail, err := damage(a.r, n.Disk.Path(), path)
			if errors.Is(err, os.ErrNotExist) {
				return nil, nil // there is a newer one
			}
			n.Kill()
			err = errors.Join(err, n.Start())
			return &injury{targets: a.targets, detail: detail, hold: time.Millisecond, heal: func(ctx context.Context) error {
				err := n.WaitReady(ctx)
				for range 2 {
					ask(ctx, n, "/v1/snapshot") // which removes the damaged one
					pause.For(ctx, 300*time.Millisecond)
				}
				return errors.Join(err, a.cluster().WaitVoters(ctx)) // it may have stepped aside
			}}, err
		}}
}

// pausePowerFault leaves replicas of different ages behind: whoever answers then must not make them differ for good.
//
//	x   paused ......... paused ......... up
//	y   paused ......... up               up
//	z   power cut, up    paused ......... up
func pausePowerFault() Fault {
	return Fault{Name: "pause-power", About: "half are paused and one more loses power; then these go on and that one is paused with another", Need: NeedImages, aims: []aim{all},
		inject: func(a *attack) (*injury, error) {
			z, rest := a.targets[0], a.targets[1:]
			if len(rest) < 2 {
				return nil, nil
			}
			each(rest, (*node.Node).Pause)
			pause.For(a.ctx, pause.About(a.r, 500*time.Millisecond))
			err := errors.Join(z.PowerCut(), z.Start())
			pause.For(a.ctx, pause.About(a.r, a.n.o.Hold))
			half := len(rest) / 2
			each(rest[half:], (*node.Node).Resume)
			ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), a.n.o.Patience)
			defer cancel()
			err = errors.Join(err, z.WaitReady(ctx))
			z.Pause()
			return &injury{targets: a.targets, detail: z.Name + " lost power", heal: func(context.Context) error {
				z.Resume()
				each(rest[:half], (*node.Node).Resume)
				return nil
			}}, err
		}}
}
