package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cantus-bus/cantus/internal/faults"
)

// StopAt tells the node, a test build, to stop for good when it comes by a point, after it has passed by so many times. It may be
// running or not. See internal/faults.
func (n *Node) StopAt(p faults.Point, passes int) error {
	err := os.Remove(n.stoppedPath())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, os.WriteFile(n.FaultsPath(), fmt.Appendf(nil, "stop %s %d\n", p, passes), 0o644))
}

// NoStop takes back what StopAt said. The process may have stopped a moment before.
func (n *Node) NoStop() error { return os.WriteFile(n.FaultsPath(), nil, 0o644) }

// Stopped tells whether the process has stopped where StopAt said.
func (n *Node) Stopped() bool {
	_, err := os.Stat(n.stoppedPath())
	return err == nil
}

func (n *Node) stoppedPath() string { return n.FaultsPath() + ".stopped" }
