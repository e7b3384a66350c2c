package cluster_test

import (
	"net"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/internal/wire"
)

// TestLinkThatEndsAtOnceIsNotMadeAtOnce has a leader that greets its followers and ends the connection, each time.
func TestLinkThatEndsAtOnceIsNotMadeAtOnce(t *testing.T) {
	c := clustertest.Start(t, 2, clustertest.Options{})
	leader := c.Leader()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	leader.SetAddrs(l.Addr().String(), "")
	const links, pause = 10, 100 * time.Millisecond
	var first time.Time
	for i := range links {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = time.Now()
		}
		if f, err := wire.NewReader(conn, wire.MaxFrame).Next(); err != nil || f.Type != wire.THello {
			t.Fatalf("greeted with %v: %v", f.Type, err)
		}
		if _, err := conn.Write(wire.AppendWelcome(nil, &wire.Welcome{Version: wire.Version, NodeID: leader.NodeID()})); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	// A change of the topology may cut some pauses short.
	if d := time.Since(first); d < links/2*pause {
		t.Errorf("%d links in %v", links, d)
	}
}
