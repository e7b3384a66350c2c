package nemesis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// mendWait is how long a damaged node has to come back by itself before it gets an empty disk.
const mendWait = 15 * time.Second

// damageFault damages files of one node that is down, starts it, and looks what happens.
func damageFault(name, description string, damage func(*attack, *node.Node) (string, error)) Fault {
	return Fault{Name: name, About: description, aims: []aim{leader, follower}, inject: func(a *attack) (*injury, error) {
		n := a.targets[0]
		if !a.alone() {
			return nil, nil
		}
		n.Kill()
		n.SetSick(true)
		n.SetDamaged()
		id := n.ID()
		detail, err := damage(a, n)
		err = errors.Join(err, n.Start())
		return &injury{targets: a.targets, detail: detail, heal: func(ctx context.Context) error { return a.outlive(ctx, n, id) }}, err
	}}
}

// outlive waits until a damaged node is whole again. One that found the damage and stepped aside has come back under a new id, and is
// to go on as it is. Else what was synced on it may not be there any more, and nothing may be built on it: it is replaced.
func (a *attack) outlive(ctx context.Context, n *node.Node, id string) error {
	defer n.SetSick(false)
	waiting, cancel := context.WithTimeout(ctx, mendWait)
	defer cancel()
	if n.WaitReady(waiting) == nil {
		pause.For(a.ctx, pause.About(a.r, time.Second)) // it reads, repairs, or finds the damage later
	}
	n.SetSick(false)
	if now := n.ID(); now != id && n.WaitReady(waiting) == nil {
		return errors.Join(a.cluster().Adopt(ctx, n, id), clearAside(n))
	}
	n.Kill()
	return a.cluster().Replace(ctx, n)
}

// clearAside removes what a node has moved aside: the disks of runs are small.
func clearAside(n *node.Node) (err error) {
	dirs, _ := filepath.Glob(filepath.Join(n.Disk.Path(), "damaged-*")) // fails for a bad pattern only
	for _, dir := range dirs {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// raftFolder holds what a node has promised: its log, its term and its vote.
const raftFolder = "raft"

// flipRaftFault damages what a running node has mapped into its memory: it may end at once, or when it is started the next time.
func flipRaftFault() Fault {
	return Fault{Name: "flip-raft", About: "one bit flipped in the log, or in the term and vote, of a node that runs; it is killed afterwards", aims: []aim{leader, follower},
		inject: func(a *attack) (*injury, error) {
			if !a.alone() {
				return nil, nil
			}
			n := a.targets[0]
			path, err := a.victimIn(n, raftFolder, func(name string) bool { return strings.HasSuffix(name, ".db") })
			if err != nil || path == "" {
				return nil, err
			}
			n.SetSick(true)
			n.SetDamaged()
			id := n.ID()
			detail, err := flip(a.r, n.Disk.Path(), path)
			return &injury{targets: a.targets, detail: detail, heal: func(ctx context.Context) error {
				n.Kill()
				return errors.Join(n.Start(), a.outlive(ctx, n, id))
			}}, err
		}}
}

// victimOf chooses a file of a node's data folder.
func (a *attack) victimOf(n *node.Node) (path string, err error) {
	list, err := files(n.Disk.Path())
	if path = a.victim(n.Disk.Path(), list); err == nil && path == "" {
		err = errors.New("there is none")
	}
	if err != nil {
		return "", fmt.Errorf("find a file to damage in %s: %w", n.Disk.Path(), err)
	}
	return path, nil
}

func bitFlipFault() Fault {
	return damageFault("bit-flip", "one bit flipped in a file of any kind, on one node that is down", func(a *attack, n *node.Node) (string, error) {
		path, err := a.victimOf(n)
		if err != nil {
			return "", err
		}
		return flip(a.r, n.Disk.Path(), path)
	})
}

func tornFault() Fault {
	return damageFault("torn", "the tail of a file of any kind is cut off, zeroed, or the file removed, on one node that is down", func(a *attack, n *node.Node) (string, error) {
		path, err := a.victimOf(n)
		if err != nil {
			return "", err
		}
		return tear(a.r, n.Disk.Path(), path)
	})
}

func replaceFault() Fault {
	return Fault{Name: "replace", About: "one node loses its disk and comes back under a new id", aims: []aim{leader, follower}, inject: func(a *attack) (*injury, error) {
		if !a.alone() {
			return nil, nil
		}
		a.targets[0].Kill()
		return &injury{targets: a.targets, heal: func(ctx context.Context) error { return a.cluster().Replace(ctx, a.targets[0]) }}, nil
	}}
}
