package nemesis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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
		sleep(a.ctx, about(a.r, time.Second)) // it reads, repairs, or finds the damage later
	}
	n.SetSick(false)
	if now := n.ID(); now != id && n.WaitReady(waiting) == nil {
		return a.cluster().Adopt(ctx, n, id)
	}
	n.Kill()
	return a.cluster().Replace(ctx, n)
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

// files lists the regular files of a data folder that are not empty, in a fixed order.
func files(dir string) (list []string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if info, err := d.Info(); err == nil && info.Size() > 0 {
			list = append(list, path)
		}
		return nil
	})
	slices.Sort(list)
	return list, err
}

// kinds groups files by their kind, so that each is as likely as another.
func kinds(dir string, list []string) map[string][]string {
	groups := map[string][]string{}
	for _, path := range list {
		kind := kindOf(dir, path)
		groups[kind] = append(groups[kind], path)
	}
	return groups
}

// kindOf is a file's folder and the letters of its name.
func kindOf(dir, path string) (kind string) {
	rel, _ := filepath.Rel(dir, path)
	if len(rel) > 60 { // named by a hash
		return filepath.Dir(rel) + filepath.Ext(rel)
	}
	for _, c := range rel {
		if c < '0' || c > '9' {
			kind += string(c)
		}
	}
	return kind
}

// spared are files whose bytes mean nothing to anybody.
var spared = []string{"LOCK"}

// victim chooses one of the files under dir, of a kind that was chosen as seldom as any; "": there is none.
func (a *attack) victim(dir string, list []string) string {
	groups := kinds(dir, list)
	for _, kind := range spared {
		delete(groups, kind)
	}
	if len(groups) == 0 {
		return ""
	}
	a.n.mu.Lock()
	defer a.n.mu.Unlock()
	names := slices.Sorted(maps.Keys(groups))
	least := a.n.kinds[slices.MinFunc(names, func(x, y string) int { return cmp.Compare(a.n.kinds[x], a.n.kinds[y]) })]
	names = slices.DeleteFunc(names, func(kind string) bool { return a.n.kinds[kind] > least })
	kind := names[a.r.IntN(len(names))]
	a.n.kinds[kind]++
	return groups[kind][a.r.IntN(len(groups[kind]))]
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

// flip flips one bit.
func flip(r *rand.Rand, dir, path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	at, bit := r.Int64N(info.Size()), r.IntN(8)
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return "", err
	}
	b[0] ^= 1 << bit
	_, err = f.WriteAt(b, at)
	rel, _ := filepath.Rel(dir, path)
	return fmt.Sprintf("bit %d of byte %d of %s (%d bytes)", bit, at, rel, info.Size()), err
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

// tear damages the end of a file.
func tear(r *rand.Rand, dir, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	rel, _ := filepath.Rel(dir, path)
	from := max(0, info.Size()-1-r.Int64N(min(info.Size(), 64<<10)))
	switch r.IntN(3) {
	case 0:
		return fmt.Sprintf("%s cut to %d of %d bytes", rel, from, info.Size()), os.Truncate(path, from)
	case 1:
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return "", err
		}
		_, err = f.WriteAt(make([]byte, info.Size()-from), from)
		return fmt.Sprintf("%s zeroed from %d of %d bytes", rel, from, info.Size()), errors.Join(err, f.Close())
	default:
		return rel + " removed", os.Remove(path)
	}
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
