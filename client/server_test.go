package client_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/conformance"
	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/cluster/clustertest"
	"github.com/cantus-bus/cantus/tipstore"
	"github.com/cantus-bus/cantus/transport"
	"github.com/cantus-bus/cantus/transport/transporttest"
)

// serve starts the real server over a broker, on loopback.
func serve(b cluster.Broker) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := transport.NewServer(transport.Options{Broker: b, Progress: 20 * time.Millisecond})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	return l.Addr().String(), func() {
		_ = s.Close()
		<-done
	}, nil
}

// singleNode is the real server over a broker without raft.
func singleNode(t testing.TB) string {
	b, err := transporttest.New(cluster.StreamOptions{Tip: tipstore.Options{SizeBytes: 64 << 20, ChunkBytes: 4 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	addr, stop, err := serve(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return addr
}

func TestConformanceOfServer(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Target {
		return conformance.Target{Options: client.Options{Servers: []string{singleNode(t)}}}
	})
}

// startCluster starts three real nodes and returns their addresses and a way to move the leader.
func startCluster(t *testing.T) (c *clustertest.Cluster, addrs []string, move func()) {
	c = clustertest.Start(t, 3, clustertest.Options{Serve: func(n *cluster.Node) (string, func(), error) { return serve(n) }})
	for _, n := range c.Leader().Topology().Nodes {
		addrs = append(addrs, n.ClientAddr)
	}
	return c, addrs, func() {
		old := c.Leader()
		ctx, cancel := context.WithTimeout(context.Background(), clustertest.Patience)
		defer cancel()
		if err := old.TransferLeader(ctx, ""); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Logf("transfer: %v", err)
		}
		c.Eventually("another leader", func() bool { return c.Leader() != old })
	}
}

func TestConformanceOfCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	conformance.Run(t, func(t *testing.T) conformance.Target {
		_, addrs, move := startCluster(t)
		return conformance.Target{Options: client.Options{Servers: addrs}, MoveLeader: move}
	})
}
