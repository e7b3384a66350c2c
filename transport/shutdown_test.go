package transport_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/transport"
)

func shutdown(f *fixture) <-chan error {
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		done <- f.server.Shutdown(ctx)
	}()
	return done
}

// TestShutdownFinishesAcks: batches under way are acked, later ones refused, subscriptions ended, the connection closed.
func TestShutdownFinishesAcks(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("a/b")
	p.read(1, wire.Subscribe{Filters: []string{"elsewhere"}})
	f.broker.Hold()
	p.publish(1, batch(t, "x"))
	eventually(t, "it is under way", func() bool { return f.metric("inflight_bytes") > 0 })
	stranger := f.dial() // has said nothing yet: it is not waited for
	eventually(t, "it is let in", func() bool { return f.metric("connections") == 2 })

	done := shutdown(f)
	p.expect(wire.TGoodbye)
	stranger.expectEnd()
	p.publish(2, batch(t, "y"))
	if a := p.expectAck(2); a.Code != wire.Code(fsm.ShuttingDown) {
		t.Errorf("late publish: %+v", a)
	}
	p.subscribe(2, wire.Subscribe{Filters: []string{"a"}})
	p.expectError(wire.TEnded, 2, wire.CodeShutdown)
	f.broker.Resume()
	if a := p.expectAck(1); a.Code != 0 || a.FirstSeq != 1 {
		t.Errorf("publish under way: %+v", a)
	}
	p.expectError(wire.TEnded, 1, wire.CodeShutdown)
	p.expectEnd()
	p.nc.Close()
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if _, err := net.Dial("tcp", f.addr); err == nil {
		t.Error("the listener is still open")
	}
}

// TestShutdownWithLiveFlow: a subscription that always has something to send does not keep the server from ending.
func TestShutdownWithLiveFlow(t *testing.T) {
	f := start(t)
	p := f.connect()
	d := p.read(1, wire.Subscribe{Filters: []string{"**"}})
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				f.publish(message{"a/b", "x"})
			}
		}
	}()
	p.follow(func() bool { return len(d.messages) > 10 }, d)
	done := shutdown(f)
	for {
		fr, err := p.next()
		if err != nil {
			break
		}
		if fr.Type == wire.TGoodbye {
			continue
		}
		if err := d.take(p, fr); err != nil {
			t.Fatal(err)
		}
	}
	p.nc.Close()
	close(stop)
	<-stopped
	if err := <-done; err != nil || d.ended == nil || d.ended.Code != wire.CodeShutdown {
		t.Errorf("shutdown: %v, subscription: %v", err, d.ended)
	}
}

func TestShutdownGivesUpWithItsContext(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("a/b")
	f.broker.Hold()
	p.publish(1, batch(t, "x"))
	eventually(t, "it is under way", func() bool { return f.metric("inflight_bytes") > 0 })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := f.server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	p.drop()
	f.broker.Resume() // the ack of a closed connection goes nowhere, quietly
	eventually(t, "it is applied", func() bool { return f.head() == 1 })
}

func TestServeAfterClose(t *testing.T) {
	f := start(t)
	f.server.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.server.Serve(l); !errors.Is(err, transport.ErrClosed) {
		t.Errorf("serve: %v", err)
	}
	f.server.Close()
	if err := f.server.Shutdown(context.Background()); err != nil {
		t.Errorf("shutdown after close: %v", err)
	}
}

// TestCloseUnderLoad: publishes, subscriptions, waits and openings of every kind are under way; goleak sees to the rest.
func TestCloseUnderLoad(t *testing.T) {
	f := start(t)
	f.fill("a/b", 1000, 1000)
	f.broker.Hold()
	for i := range 8 {
		p := f.connect()
		p.define("a/b")
		p.subscribe(1, wire.Subscribe{Filters: []string{"**"}})
		p.subscribe(2, wire.Subscribe{Filters: []string{"a/b"}, MinSeq: 1 << 40, WaitMS: 1 << 30})
		p.publish(1, batch(t, "x"))
		p.send(wire.AppendOpenProducer(nil, 2, wire.OpenProducer{ID: [16]byte{byte(i + 1)}}))
	}
	eventually(t, "all is under way", func() bool { return f.metric("subscriptions") == 8 })
	f.server.Close()
	if n := f.metric("inflight_bytes") + f.metric("subscriptions") + f.metric("connections"); n != 0 {
		t.Errorf("%v of gauges are left", n)
	}
	f.broker.Resume()
}
