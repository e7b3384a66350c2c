package nemesis

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/jepsen/node"
)

// mendWait is how long a damaged node has to come back by itself before it gets an empty disk.
const mendWait = 15 * time.Second

// damageFault damages files of one node that is down, or up, starts it, looks what happens, and replaces it in the end: what was
// synced on it is not there any more, so nothing may be built on it.
func damageFault(name, description string, damage func(*attack, *node.Node) (string, error)) Fault {
	return Fault{Name: name, About: description, aims: []aim{leader, follower}, inject: func(a *attack) (*injury, error) {
		n := a.targets[0]
		if !a.alone() {
			return nil, nil
		}
		n.Kill()
		n.SetSick(true)
		detail, err := damage(a, n)
		err = errors.Join(err, n.Start())
		return &injury{targets: a.targets, detail: detail, heal: func(ctx context.Context) error {
			defer n.SetSick(false)
			waiting, cancel := context.WithTimeout(ctx, mendWait)
			defer cancel()
			if n.WaitReady(waiting) == nil {
				sleep(a.ctx, about(a.r, time.Second)) // it reads, repairs, or finds the damage later
			}
			n.Kill()
			n.SetSick(false)
			return a.cluster().Replace(ctx, n)
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

// kinds groups files by folder and the letters of their names, so that each kind is as likely as another.
func kinds(dir string, list []string) (groups [][]string) {
	index := map[string]int{}
	for _, path := range list {
		rel, _ := filepath.Rel(dir, path)
		kind := ""
		for _, c := range rel {
			if c < '0' || c > '9' {
				kind += string(c)
			}
		}
		if len(rel) > 60 { // named by a hash
			kind = filepath.Dir(rel) + filepath.Ext(rel)
		}
		i, ok := index[kind]
		if !ok {
			i = len(groups)
			index[kind] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], path)
	}
	return groups
}

// victim chooses a file of a random kind.
func victim(r *rand.Rand, dir string) (path string, err error) {
	list, err := files(dir)
	if err != nil || len(list) == 0 {
		return "", fmt.Errorf("find a file to damage in %s: %d files: %w", dir, len(list), err)
	}
	groups := kinds(dir, list)
	group := groups[r.IntN(len(groups))]
	return group[r.IntN(len(group))], nil
}

func bitFlipFault() Fault {
	return damageFault("bit-flip", "one bit flipped in a file of a random kind, on one node that is down", func(a *attack, n *node.Node) (string, error) {
		path, err := victim(a.r, n.Disk.Path())
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
	return damageFault("torn", "the tail of a file of a random kind is cut off, zeroed, or the file removed, on one node that is down", func(a *attack, n *node.Node) (string, error) {
		path, err := victim(a.r, n.Disk.Path())
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
