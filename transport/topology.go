package transport

import "github.com/cantus-bus/cantus/internal/wire"

// topologyFrame is one TOPOLOGY frame, encoded once for all connections.
type topologyFrame struct {
	version uint64 // 1, 2, ...: a connection sends a newer one than it sent last
	frame   []byte // never changed
}

// watchTopology encodes each change of the cluster once and wakes all connections. It is one goroutine per server and ends
// with the server's context.
func (s *Server) watchTopology() {
	defer s.watchWG.Done()
	for version := uint64(1); ; version++ {
		// The channel first: a change between the two lines is then seen at once, as a further change.
		changed := s.opts.Broker.TopologyChanged()
		t := s.opts.Broker.Topology()
		s.topology.Store(&topologyFrame{version, wire.AppendTopology(nil, &t)})
		for _, c := range s.connections() {
			c.signal()
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			return
		}
	}
}
