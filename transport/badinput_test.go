package transport_test

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// violation is something a client does that ends its connection with an error.
type violation struct {
	name    string
	greeted bool // after the hello
	frames  func(t testing.TB) []byte
	code    wire.Code
	says    string
}

func frame(t wire.Type) []byte { return wire.AppendEmpty(nil, t, 1) }

func bytesOf(b []byte) func(testing.TB) []byte { return func(testing.TB) []byte { return b } }

func hello(change func(*wire.Hello)) func(testing.TB) []byte {
	h := wire.Hello{MinVersion: 1, MaxVersion: 1}
	change(&h)
	return bytesOf(wire.AppendHello(nil, &h))
}

// spoiled is a ping that change has been at.
func spoiled(change func(b []byte)) func(testing.TB) []byte {
	b := frame(wire.TPing)
	change(b)
	return bytesOf(b)
}

var violations = []violation{
	{"too long", true, spoiled(func(b []byte) { binary.LittleEndian.PutUint32(b, wire.MaxFrame+1) }), wire.CodeTooLarge, "at most"},
	{"long before the hello", false, spoiled(func(b []byte) { binary.LittleEndian.PutUint32(b, wire.MaxHandshakeFrame+1) }), wire.CodeTooLarge, "at most"},
	{"shorter than its header", true, spoiled(func(b []byte) { binary.LittleEndian.PutUint32(b, 3) }), wire.CodeProtocol, "size"},
	{"wrong checksum", true, spoiled(func(b []byte) { b[12] ^= 1 }), wire.CodeProtocol, "checksum"},
	{"wrong magic", true, spoiled(func(b []byte) { b[4] = 0 }), wire.CodeProtocol, "magic"},
	{"unknown type", true, bytesOf(frame(200)), wire.CodeProtocol, "unknown frame type 200"},
	{"a server's frame", true, bytesOf(frame(wire.TAck)), wire.CodeProtocol, "ACK"},
	{"before the hello", false, bytesOf(frame(wire.TPing)), wire.CodeProtocol, "HELLO"},
	{"second hello", true, hello(func(*wire.Hello) {}), wire.CodeProtocol, "second HELLO"},
	{"newer version", false, hello(func(h *wire.Hello) { h.MinVersion, h.MaxVersion = 7, 9 }), wire.CodeVersion, "7 to 9"},
	{"wrong cluster", false, hello(func(h *wire.Hello) { h.ClusterID = "elsewhere" }), wire.CodeWrongCluster, "elsewhere"},
	{"body of a hello", false, bytesOf(frame(wire.THello)), wire.CodeProtocol, "HELLO"},
	{"subscription 0", true, bytesOf(wire.AppendSubscribe(nil, 0, &wire.Subscribe{Filters: []string{"a"}})), wire.CodeProtocol, "subscription 0"},
	{"subscription twice", true, func(testing.TB) []byte {
		s := &wire.Subscribe{Filters: []string{"a"}}
		return wire.AppendSubscribe(wire.AppendSubscribe(nil, 5, s), 5, s)
	}, wire.CodeProtocol, "subscription 5 is open"},
	{"credit overflows", true, func(testing.TB) []byte {
		s := &wire.Subscribe{Filters: []string{"a"}, Credit: 2}
		return wire.AppendCredit(wire.AppendSubscribe(nil, 5, s), 5, math.MaxInt64-1)
	}, wire.CodeProtocol, "credit overflows"},
	{"undefined alias", true, func(t testing.TB) []byte { return wire.AppendPublish(nil, 3, batchOn(t, 8, "x")) }, wire.CodeProtocol, "alias 8"},
	{"alias out of the id space", true, func(t testing.TB) []byte { return wire.AppendPublish(nil, 3, batchOn(t, record.NewTopic|1, "x")) }, wire.CodeProtocol, "not defined"},
	{"aliases with a hole", true, bytesOf(wire.AppendDefineTopics(nil, &wire.DefineTopics{FirstAlias: 2, Names: []string{"a"}})), wire.CodeProtocol, "alias 2"},
	{"too many aliases", true, bytesOf(wire.AppendDefineTopics(nil, &wire.DefineTopics{Names: strings.Split("a b c d e", " ")})), wire.CodeTooLarge, "limit is 4"},
	{"corrupt batch", true, func(t testing.TB) []byte {
		b := batch(t, "x")
		b[4] = 9 // count
		return wire.AppendPublish(nil, 3, b)
	}, wire.CodeProtocol, "PUBLISH"},
	{"malformed body", true, bytesOf(wire.AppendEmpty(nil, wire.TCredit, 1)), wire.CodeProtocol, "CREDIT"},
}

// TestViolations: each ends its connection with a coded error and is counted, and nobody else notices.
func TestViolations(t *testing.T) {
	f := start(t, func(s *setup) { s.options.MaxAliases = 4 })
	bystander := f.connect()
	d := bystander.read(1, wire.Subscribe{Filters: []string{"still/here"}})
	for i, v := range violations {
		t.Run(v.name, func(t *testing.T) {
			before := f.metric("protocol_errors_total", v.code.String())
			p := f.dial()
			if v.greeted {
				p.hello(wire.Hello{MinVersion: 1, MaxVersion: 1})
			}
			p.send(v.frames(t))
			for {
				fr, err := p.next()
				if err != nil {
					t.Fatal(err)
				}
				if fr.Type != wire.TSubscribed && fr.Type != wire.TCaughtUp {
					e, err := wire.DecodeError(fr.Body)
					if fr.Type != wire.TError || fr.ID != 0 || err != nil || e.Code != v.code || !strings.Contains(e.Message, v.says) {
						t.Fatalf("%v %d %v: %v", fr.Type, fr.ID, err, &e)
					}
					break
				}
			}
			p.expectEnd()
			p.nc.Close()
			if n := f.metric("protocol_errors_total", v.code.String()) - before; n != 1 {
				t.Errorf("counted %v times", n)
			}
			f.publish(message{"still/here", "x"})
			bystander.follow(func() bool { return len(d.messages) == i+1 }, d)
		})
	}
	eventually(t, "only the bystander is left", func() bool { return f.metric("connections") == 1 })
}

func TestFrameCutShort(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.send(frame(wire.TPing)[:9])
	p.nc.(*net.TCPConn).CloseWrite()
	e := p.expectError(wire.TError, 0, wire.CodeProtocol)
	if !strings.Contains(e.Message, "within a frame") {
		t.Errorf("the error says %q", e.Message)
	}
	p.expectEnd()
	if n := f.metric("cut_short_total"); n != 1 {
		t.Errorf("counted %v times", n)
	}
}

// TestOversizePayload costs only itself: the batch says its size, so client and server still agree on what comes next.
func TestOversizePayload(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.define("a/b")
	b := batch(t, strings.Repeat("x", record.MaxPayload))
	big := append(record.Batch{}, b...)
	big = append(big, "yyyyyyyy"...) // a record of 8 bytes more, header by header
	binary.LittleEndian.PutUint32(big, uint32(len(big)))
	binary.LittleEndian.PutUint32(big[record.BatchHeaderSize:], uint32(len(big)-record.BatchHeaderSize))
	p.publish(1, big)
	if a := p.expectAck(1); a.Code != wire.Code(fsm.TooLarge) || a.Count != 1 {
		t.Errorf("ack: %+v", a)
	}
	p.publish(2, b)
	if a := p.expectAck(2); a.Code != 0 {
		t.Errorf("the largest that is allowed: %+v", a)
	}
}

func TestTooManyConnections(t *testing.T) {
	f := start(t, func(s *setup) { s.options.MaxConnections = 2 })
	first := f.connect()
	f.connect()
	p := f.dial()
	if e := p.expectError(wire.TError, 0, wire.CodeTooManyConnections); e.Detail != 2 {
		t.Errorf("the limit is said to be %d", e.Detail)
	}
	p.expectEnd()
	first.nc.Close()
	eventually(t, "there is room again", func() bool { return f.metric("connections") == 1 })
	f.connect()
	if n := f.metric("connections_refused_total"); n != 1 {
		t.Errorf("%v refusals were counted", n)
	}
}

func TestSilentBeforeHello(t *testing.T) {
	f := start(t, func(s *setup) { s.options.HandshakeTimeout = 10 * time.Millisecond })
	p := f.dial()
	if e := p.expectError(wire.TError, 0, wire.CodeProtocol); !strings.Contains(e.Message, "no HELLO") {
		t.Errorf("the error says %q", e.Message)
	}
	p.expectEnd()
	p.nc.Close()
	eventually(t, "the connection is gone", func() bool { return f.metric("connections") == 0 })
}

// TestVanishedClient: no byte, no FIN. It is found dead after three pings.
func TestVanishedClient(t *testing.T) {
	f := start(t)
	p := f.dial()
	p.hello(wire.Hello{MinVersion: 1, MaxVersion: 1, HeartbeatMS: 50})
	p.read(1, wire.Subscribe{Filters: []string{"a"}})
	pings := 0
	for {
		p.nc.SetReadDeadline(time.Now().Add(patience))
		fr, err := p.r.Next()
		if err != nil {
			break
		}
		if fr.Type == wire.TPing {
			pings++
		}
	}
	if pings != 3 || f.metric("dead_closed_total") != 1 {
		t.Errorf("closed after %d pings, counted %v", pings, f.metric("dead_closed_total"))
	}
	eventually(t, "nothing is left of it", func() bool { return f.metric("connections") == 0 && f.metric("subscriptions") == 0 })
}

func TestAnsweredPingsKeepAlive(t *testing.T) {
	f := start(t)
	p := f.dial()
	p.hello(wire.Hello{MinVersion: 1, MaxVersion: 1, HeartbeatMS: 50})
	for range 6 { // twice what a dead one gets
		p.nc.SetReadDeadline(time.Now().Add(patience))
		fr, err := p.r.Next()
		if err == nil && fr.Type == wire.TTopology { // it may have changed as the connection was made
			fr, err = p.r.Next()
		}
		if err != nil || fr.Type != wire.TPing {
			t.Fatalf("%v, %v", fr.Type, err)
		}
		p.send(frame(wire.TPong))
	}
}

// TestClientThatStopsReading is closed after the write timeout, and told why as soon as it reads again.
func TestClientThatStopsReading(t *testing.T) {
	f := start(t, func(s *setup) {
		s.options.WriteTimeout = 50 * time.Millisecond
		s.options.Linger = patience
	})
	f.fill("a/b", 3000, 10<<10)
	p := f.connect()
	p.subscribe(1, wire.Subscribe{Filters: []string{"a/b"}})
	eventually(t, "it is found slow", func() bool { return f.metric("slow_closed_total") == 1 })
	last, code := wire.Type(0), wire.Code(0)
	for {
		fr, err := p.next()
		if err != nil {
			if err != io.EOF {
				t.Errorf("end: %v", err)
			}
			break
		}
		if last = fr.Type; last == wire.TError {
			e, _ := wire.DecodeError(fr.Body)
			code = e.Code
		}
	}
	if last != wire.TError || code != wire.CodeSlow {
		t.Errorf("last frame: %v with %v", last, code)
	}
	p.nc.Close()
	eventually(t, "nothing is left of it", func() bool { return f.metric("connections") == 0 && f.metric("subscriptions") == 0 })
}

// TestSlowIsNotStopped: a client that takes a little now and then is served for as long as it likes.
func TestSlowIsNotStopped(t *testing.T) {
	f := start(t, func(s *setup) { s.options.WriteTimeout = 300 * time.Millisecond })
	server, client := net.Pipe() // no buffers: each read is progress
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.server.ServeConn(server)
	}()
	f.fill("a/b", 1, 200<<10)
	p := f.peerOn(client)
	p.hello(wire.Hello{MinVersion: 1, MaxVersion: 1})
	p.subscribe(1, wire.Subscribe{Filters: []string{"a/b"}})
	p.expectSubscribed(1)
	got := 0
	for buf := make([]byte, 4<<10); got < 200<<10; {
		client.SetReadDeadline(time.Now().Add(patience))
		n, err := client.Read(buf)
		if err != nil {
			t.Fatalf("after %d bytes: %v", got, err)
		}
		got += n
		time.Sleep(10 * time.Millisecond) // in all longer than the write timeout
	}
	client.Close()
	<-done
	if n := f.metric("slow_closed_total"); n != 0 {
		t.Errorf("closed as slow %v times", n)
	}
}

// TestPingFloodIsBounded: replies that nobody reads do not pile up.
func TestPingFloodIsBounded(t *testing.T) {
	f := start(t, func(s *setup) { s.options.MaxReplies = 1 << 10 })
	p := f.connect()
	ping := frame(wire.TPing)
	burst := make([]byte, 0, len(ping)*1000)
	for range 1000 {
		burst = append(burst, ping...)
	}
	go func() {
		for range 2000 { // more than the sockets buffer
			p.nc.SetWriteDeadline(time.Now().Add(patience))
			if _, err := p.nc.Write(burst); err != nil {
				return
			}
		}
	}()
	eventually(t, "the server stops reading", func() bool { return f.metric("read_stalls_total") > 0 })
	for range 1000 {
		p.expect(wire.TPong)
	}
	p.nc.Close()
}

func TestErrorsOfClientsAreTaken(t *testing.T) {
	f := start(t)
	p := f.connect()
	p.send(wire.AppendError(nil, wire.TError, 3, &wire.Error{Code: wire.CodeInternal, Message: "no matter"}))
	p.send(frame(wire.TPing))
	p.expect(wire.TPong)
	p.send(wire.AppendError(nil, wire.TError, 0, &wire.Error{Code: wire.CodeInternal, Message: "leaving"}))
	p.expectEnd()
}
