package fake_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// raw is a connection without a client.
type raw struct {
	*testing.T
	nc net.Conn
	r  *wire.Reader
}

func dial(t *testing.T, b *fake.Broker) *raw {
	nc, err := b.Dial(context.Background(), fake.Addr(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	return &raw{T: t, nc: nc, r: wire.NewReader(nc, wire.MaxFrame)}
}

func (r *raw) send(b []byte) {
	if _, err := r.nc.Write(b); err != nil {
		r.Fatal(err)
	}
}

// greet exchanges HELLO and WELCOME.
func (r *raw) greet() {
	r.send(wire.AppendHello(nil, &wire.Hello{MinVersion: 1, MaxVersion: 1}))
	r.want(wire.TWelcome)
}

// want reads a frame of a type.
func (r *raw) want(t wire.Type) wire.Frame {
	r.Helper()
	f, err := r.r.Next()
	if err != nil || f.Type != t {
		r.Fatalf("got %v, %v, want %v", f.Type, err, t)
	}
	return f
}

// wantEnd reads an error with the code, and the end of the connection.
func (r *raw) wantEnd(code wire.Code) {
	r.Helper()
	f := r.want(wire.TError)
	e, err := wire.DecodeError(f.Body)
	if err != nil || f.ID != 0 || e.Code != code {
		r.Errorf("error of %d is %v, %v, want %v of the connection", f.ID, &e, err, code)
	}
	if _, err := r.r.Next(); !errors.Is(err, io.EOF) {
		r.Errorf("after the error comes %v", err)
	}
}

func batch(topic uint32) record.Batch {
	var b record.BatchBuilder
	b.Reset(nil, nil)
	_ = b.Add(topic, nil, []byte("x"))
	return b.Finish(record.ProducerID{}, 0, 0, false)
}

func TestBadFrames(t *testing.T) {
	good := wire.AppendEmpty(nil, wire.TPing, 0)
	flipped := wire.AppendPublish(nil, 1, batch(0))
	flipped[len(flipped)-8] ^= 1
	broken := batch(0)
	broken[4] = 9 // count
	for name, c := range map[string]struct {
		frame []byte
		code  wire.Code
	}{
		"noise":              {[]byte(strings.Repeat("GET / HTTP/1.1\r\n", 4)), wire.CodeProtocol},
		"wrong checksum":     {flipped, wire.CodeProtocol},
		"unknown type":       {wire.AppendEmpty(nil, wire.Type(99), 0), wire.CodeProtocol},
		"too long":           {append([]byte{0xff, 0xff, 0xff, 0x7f}, good[4:]...), wire.CodeTooLarge},
		"second hello":       {wire.AppendHello(nil, &wire.Hello{MinVersion: 1, MaxVersion: 1}), wire.CodeProtocol},
		"server's frame":     {wire.AppendAck(nil, 1, &wire.Ack{}), wire.CodeProtocol},
		"undefined alias":    {wire.AppendPublish(nil, 1, batch(0)), wire.CodeProtocol},
		"hole in aliases":    {wire.AppendDefineTopics(nil, &wire.DefineTopics{FirstAlias: 1, Names: []string{"a"}}), wire.CodeProtocol},
		"broken batch":       {wire.AppendPublish(nil, 1, broken), wire.CodeProtocol},
		"subscription 0":     {wire.AppendSubscribe(nil, 0, &wire.Subscribe{Filters: []string{"a"}}), wire.CodeProtocol},
		"zero producer":      {wire.AppendOpenProducer(nil, 1, wire.OpenProducer{}), wire.CodeProtocol},
		"body where none is": {wire.AppendSeq(nil, wire.TUnsubscribe, 1, 7), wire.CodeProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			b := fake.New(fake.Options{})
			defer b.Close()
			r := dial(t, b)
			r.greet()
			r.send(c.frame)
			r.wantEnd(c.code)
			other := dial(t, b) // nobody else is hurt
			other.greet()
		})
	}
}

func TestBadHello(t *testing.T) {
	b := fake.New(fake.Options{})
	defer b.Close()
	r := dial(t, b)
	r.send(wire.AppendEmpty(nil, wire.TPing, 0))
	r.wantEnd(wire.CodeProtocol)
	r = dial(t, b)
	r.send(wire.AppendHello(nil, &wire.Hello{MinVersion: 7, MaxVersion: 9}))
	r.wantEnd(wire.CodeVersion)
	r = dial(t, b)
	r.send(wire.AppendHello(nil, &wire.Hello{MinVersion: 1, MaxVersion: 1, ClusterID: "other"}))
	r.wantEnd(wire.CodeWrongCluster)
}

// TestBadTopicCostsItsBatches refuses what uses a name that breaks a rule, and goes on.
func TestBadTopicCostsItsBatches(t *testing.T) {
	b := fake.New(fake.Options{})
	defer b.Close()
	r := dial(t, b)
	r.greet()
	r.send(wire.AppendDefineTopics(nil, &wire.DefineTopics{Names: []string{"good", "not//good"}}))
	r.want(wire.TError)
	for alias, code := range []wire.Code{wire.CodeOK, wire.CodeInvalid} {
		r.send(wire.AppendPublish(nil, uint32(alias+1), batch(uint32(alias))))
		a, err := wire.DecodeAck(r.want(wire.TAck).Body)
		if err != nil || a.Code != code {
			t.Errorf("alias %d: ack is %+v, %v, want %v", alias, a, err, code)
		}
	}
}

// TestInBubble runs the client and the fake under virtual time: a message is given up after its half minute at once.
func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fake.New(fake.Options{Nodes: 3})
		defer b.Close()
		o := b.ClientOptions()
		o.RetryTimeout = 0
		c, err := client.Connect(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		p, err := c.Producer(t.Context(), client.ProducerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b.SetLeader(-1)
		began := time.Now()
		if _, err := p.PublishSync(t.Context(), "a", nil); !errors.Is(err, client.ErrUnavailable) {
			t.Errorf("error is %v", err)
		}
		if d := time.Since(began); d < client.DefaultRetryTimeout || d > client.DefaultRetryTimeout+2*time.Second {
			t.Errorf("gave up after %v", d)
		}
	})
}

func TestPipe(t *testing.T) {
	a, b := fake.Pipe()
	go func() {
		_, _ = a.Write(make([]byte, 1<<20)) // more than the buffer: waits for the reader
		_ = a.Close()
	}()
	got, err := io.ReadAll(b)
	if err != nil || len(got) != 1<<20 {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	if _, err := b.Write([]byte("x")); err == nil {
		t.Error("wrote to a closed pipe")
	}
	if _, err := a.Read(nil); err == nil {
		t.Error("read from a closed pipe")
	}
	_ = b.Close()
}
