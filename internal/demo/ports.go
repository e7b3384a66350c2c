package demo

import (
	"fmt"
	"net"
)

// freePorts finds n addresses on loopback that are free for TCP and UDP. They are held until all are found, then let go:
// another process could take one before a node does, which then says so.
func freePorts(n int) ([]string, error) {
	var addrs []string
	for tries := 0; len(addrs) < n; tries++ {
		if tries > 20*n {
			return nil, fmt.Errorf("find %d free ports on loopback: only %d found", n, len(addrs))
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("find a free port on loopback: %w", err)
		}
		defer l.Close()
		u, err := net.ListenPacket("udp", l.Addr().String())
		if err != nil {
			continue
		}
		defer u.Close()
		addrs = append(addrs, l.Addr().String())
	}
	return addrs, nil
}
