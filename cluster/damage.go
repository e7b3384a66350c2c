package cluster

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// ErrDamaged: a file that the node needs to start is missing, cut, or has other bytes than were written. What a file of a newer version
// holds, what cannot be read, and what belongs to another cluster is not damage.
var ErrDamaged = errors.New("data folder is damaged")

// damagedPart is what of a data folder is damaged, as far as it matters to what can be kept.
type damagedPart string

const (
	partIdentity damagedPart = "identity"         // identity.json: neither the node's id nor its cluster's is known
	partRaft     damagedPart = "raft"             // the log, the term or the vote, or they do not fit together
	partSnapshot damagedPart = "snapshot"         // a snapshot that the log needs
	partManifest damagedPart = "history manifest" // which files of history are in force is not known
)

// damage is an error of the ErrDamaged family. It reads like the error that it holds, which says what to do.
type damage struct {
	part damagedPart
	err  error
}

func (d *damage) Error() string { return d.err.Error() }

func (d *damage) Unwrap() []error { return []error{ErrDamaged, d.err} }

// damaged makes an error one of damage; nil stays nil.
func damaged(part damagedPart, err error) error {
	if err == nil {
		return nil
	}
	return &damage{part, err}
}

// damageOf is the damage that an error tells of; nil if it is something else, or if the file system had a say in it: what cannot be read
// now may be whole.
func damageOf(err error) *damage {
	var d *damage
	var path *fs.PathError
	switch {
	case !errors.As(err, &d), errors.Is(err, errNewerVersion):
		return nil
	case errors.As(err, &path) && !errors.Is(path, fs.ErrNotExist):
		return nil
	}
	return d
}

// errNewerVersion: a file's format is newer than this program.
var errNewerVersion = errors.New("start it with a newer version")

// readable reads a file to its end. Its error tells a file that the disk does not give from one whose bytes are wrong.
func readable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}
