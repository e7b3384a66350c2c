package cluster

import (
	"net"
	"time"

	"github.com/hashicorp/memberlist"
)

// network is what a node's raft and gossip listen and dial on. Tests put one of their own in the place of the system's.
type network struct {
	listen func(addr string) (net.Listener, error)
	dial   func(addr string, limit time.Duration) (net.Conn, error)
	gossip memberlist.NodeAwareTransport // nil: sockets on Options.GossipListen
}

// sockets is the system's network.
func sockets() *network {
	return &network{
		listen: func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) },
		dial:   func(addr string, limit time.Duration) (net.Conn, error) { return net.DialTimeout("tcp", addr, limit) },
	}
}
