package transport_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/transport"
)

// closing is a broker that closes as soon as somebody waits on it.
type closing struct{ cluster.Broker }

func (closing) WaitSeq(context.Context, uint64) error { return cluster.ErrClosed }

// TestCloseIsNotNotYet: a subscription whose wait for a seq ends because the node closes is not told that the seq did not come
// in time, which a client would take for the answer to its question. It is to ask another node.
func TestCloseIsNotNotYet(t *testing.T) {
	f := start(t)
	s := transport.NewServer(transport.Options{Broker: closing{f.broker}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	f.addr = l.Addr().String()
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"**"}, MinSeq: 99, WaitMS: uint32(patience / time.Millisecond)})
	p.expectError(wire.TEnded, 1, wire.CodeShutdown)
	p.subscribe(1, wire.Subscribe{Filters: []string{"**"}, MinSeq: 0})
	p.expectSubscribed(1)
}
