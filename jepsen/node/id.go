package node

import (
	"fmt"
	"slices"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// A node comes under another id when it has lost its disk, or when it has found its own files damaged and stepped aside. Until it
// votes under the new one it counts for no majority.

// ID is the node's id as last told by it; "" if it has none yet: it was never ready since its disk was emptied.
func (n *Node) ID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.id
}

// learn notes the id that a process of the node told, if that still runs.
func (n *Node) learn(id string, pid int) {
	n.mu.Lock()
	if n.cmd == nil || n.cmd.Process.Pid != pid {
		n.mu.Unlock()
		return
	}
	before := n.id
	n.id = id
	other := before != "" && before != id
	if other {
		n.outside = true
		n.asides++
	}
	if other && !n.damaged {
		n.strays = append(n.strays, fmt.Sprintf("%s changed its id from %s to %s, and nobody had damaged its files", n.Name, before, id))
	}
	n.mu.Unlock()
	if other {
		n.record.Write(&history.Note{At: n.record.Now(), Text: fmt.Sprintf("%s stepped aside: its id was %s and is %s", n.Name, before, id)})
		n.changed()
	}
}

// SetDamaged notes that the node's files were damaged: from now on, until its disk is emptied, it may step aside.
func (n *Node) SetDamaged() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.damaged = true
}

// Asides is how often the node stepped aside.
func (n *Node) Asides() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asides
}

// Strays lists changes of the node's id that no damage explains.
func (n *Node) Strays() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.strays)
}
