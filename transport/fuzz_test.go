package transport_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/wire"
)

// FuzzConnection sends a connection anything at all, before or after the hello: it must end, and nothing must be left of it.
func FuzzConnection(f *testing.F) {
	fx := start(f, smallRing)
	fx.publish(message{"a/b", "x"})
	for _, v := range violations {
		f.Add(v.greeted, v.frames(f))
	}
	f.Add(true, wire.AppendSubscribe(nil, 1, &wire.Subscribe{Filters: []string{"**"}, Credit: 100}))
	f.Add(true, wire.AppendPublish(wire.AppendDefineTopics(nil, &wire.DefineTopics{Names: []string{"a/b"}}), 1, batch(f, "x")))
	f.Fuzz(func(t *testing.T, greeted bool, data []byte) {
		server, client := net.Pipe()
		done := make(chan struct{})
		go func() {
			defer close(done)
			fx.server.ServeConn(server)
		}()
		go io.Copy(io.Discard, client)
		client.SetWriteDeadline(time.Now().Add(patience))
		if greeted {
			client.Write(wire.AppendHello(nil, &wire.Hello{MinVersion: 1, MaxVersion: 1}))
		}
		client.Write(data)
		client.Close()
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("the connection does not end")
		}
	})
}
