package network

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

// ErrUnsupported: this network cannot make this fault.
var ErrUnsupported = errors.New("this network cannot do that")

// Ports that a node listens on, equal for all nodes of a network as far as the network decides.
type Ports struct{ Client, HTTP, Raft, Gossip string }

// Place is where a node lives.
type Place struct {
	Listen    Ports    // host:port to listen on; the harness dials Client and HTTP there
	Advertise string   // host that other nodes dial, "" if it is the one listened on
	Gossip    string   // the gossip address that other nodes join
	prefix    []string // of a command that runs there
}

// Command is exec.Command at that place. The process that starts is the command's own, so that its pid can be signalled.
func (p Place) Command(name string, args ...string) *exec.Cmd {
	all := append(append([]string{}, p.prefix...), append([]string{name}, args...)...)
	return exec.Command(all[0], all[1:]...)
}

// Link is a direction between two nodes.
type Link struct{ From, To int }

// Shape is how a link treats what passes. The zero value is a link without fault.
type Shape struct {
	Delay, Jitter  time.Duration // each piece waits Delay and up to Jitter more; order is kept
	BytesPerSecond int           // 0: no limit
	ResetEvery     time.Duration // each connection is reset after such a time, more or less; 0: never
	DropPackets    float64       // share of datagrams that are lost, 0 to 1
}

// Network is the links between the nodes 0, 1, 2, ... Methods may be called by several goroutines.
type Network interface {
	// Name is what --network says.
	Name() string
	// Add makes a place for a node that has none. pid tells the node's process, 0 while it has none.
	Add(node int, pid func() int) (Place, error)
	// Cut drops everything that goes over the link, silently.
	Cut(Link) error
	// Shape gives a link a fault. ErrUnsupported if the network has no such.
	Shape(Link, Shape) error
	// Reset breaks the connections open on a link, in both directions. ErrUnsupported if the network cannot.
	Reset(Link) error
	// Heal mends all links.
	Heal() error
	// Close removes all places.
	Close() error
}

// Names of the networks.
const (
	NamespaceName = "netns"
	ProxyName     = "proxy"
)

// New makes the network that name says: netns, proxy, or "" for netns where this process may make one, else proxy.
func New(name string, seed int64) (Network, error) {
	switch name {
	case NamespaceName:
		return NewNamespaces()
	case ProxyName:
		return NewProxy(seed)
	case "":
		if CanNamespace() {
			return NewNamespaces()
		}
		return NewProxy(seed)
	}
	return nil, errors.New("network " + name + " is unknown: netns or proxy")
}

// CanNamespace tells whether this process may make network namespaces: it is root, the tools are here, and it has just made one. In a
// container root may not.
func CanNamespace() bool {
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	if os.Geteuid() != 0 || !namespacesExist() {
		return false
	}
	n, err := NewNamespaces()
	if err != nil {
		return false
	}
	p, err := n.Add(0, nil)
	if err == nil {
		err = p.Command("true").Run()
	}
	return errors.Join(err, n.Close()) == nil
}
