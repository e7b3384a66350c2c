package transport_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// peer is a client made of frames: it does what a test says, right or wrong.
type peer struct {
	t       testing.TB
	nc      net.Conn
	r       *wire.Reader
	names   map[uint32]string
	aliases []string
}

// dial connects without a hello.
func (f *fixture) dial() *peer {
	f.t.Helper()
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.peerOn(nc)
}

func (f *fixture) peerOn(nc net.Conn) *peer {
	f.t.Cleanup(func() { nc.Close() })
	return &peer{t: f.t, nc: nc, r: wire.NewReader(nc, 0), names: map[uint32]string{}}
}

// connect dials and says hello.
func (f *fixture) connect() *peer {
	f.t.Helper()
	p := f.dial()
	p.hello(wire.Hello{MinVersion: 1, MaxVersion: 1, Client: "test"})
	return p
}

func (p *peer) hello(h wire.Hello) wire.Welcome {
	p.t.Helper()
	p.send(wire.AppendHello(nil, &h))
	w, err := wire.DecodeWelcome(p.expect(wire.TWelcome).Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return w
}

func (p *peer) send(frames []byte) {
	p.t.Helper()
	p.nc.SetWriteDeadline(time.Now().Add(patience))
	if _, err := p.nc.Write(frames); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// next is the next frame of a test's interest: heartbeats are answered and topologies and names taken on the way.
func (p *peer) next() (wire.Frame, error) {
	for {
		p.nc.SetReadDeadline(time.Now().Add(patience))
		f, err := p.r.Next()
		if err != nil {
			return f, err
		}
		switch f.Type {
		case wire.TPing:
			p.nc.Write(wire.AppendEmpty(nil, wire.TPong, f.ID))
		case wire.TTopology:
		case wire.TTopicNames:
			if err := p.learn(f.Body); err != nil {
				return f, err
			}
		default:
			return f, nil
		}
	}
}

func (p *peer) learn(body []byte) error {
	names, err := wire.DecodeTopicNames(body)
	if err != nil {
		return err
	}
	for _, n := range names {
		if old, ok := p.names[n.ID]; ok {
			return fmt.Errorf("topic %d was named %q and is named again: %q", n.ID, old, n.Name)
		}
		p.names[n.ID] = n.Name
	}
	return nil
}

func (p *peer) expect(want wire.Type) wire.Frame {
	p.t.Helper()
	f, err := p.next()
	if err != nil {
		p.t.Fatalf("want %v, got %v", want, err)
	}
	if f.Type != want {
		detail := ""
		if f.Type == wire.TError || f.Type == wire.TEnded {
			e, _ := wire.DecodeError(f.Body)
			detail = ": " + e.Error()
		}
		p.t.Fatalf("want %v, got %v %d%s", want, f.Type, f.ID, detail)
	}
	return f
}

// expectError wants an ERROR or ENDED frame with this id and code.
func (p *peer) expectError(t wire.Type, id uint32, code wire.Code) wire.Error {
	p.t.Helper()
	f := p.expect(t)
	e, err := wire.DecodeError(f.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	if f.ID != id || e.Code != code {
		p.t.Fatalf("want %v %d with %v, got %d with %v", t, id, code, f.ID, &e)
	}
	return e
}

// expectEnd wants the connection's end.
func (p *peer) expectEnd() {
	p.t.Helper()
	f, err := p.next()
	for err == nil && (f.Type == wire.TCaughtUp || f.Type == wire.TProgress) { // these may have been on their way
		f, err = p.next()
	}
	var timeout net.Error
	if err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		p.t.Fatalf("want the connection's end, got %v %v", f.Type, err)
	}
}

// define gives aliases to topics.
func (p *peer) define(names ...string) {
	p.t.Helper()
	p.send(wire.AppendDefineTopics(nil, &wire.DefineTopics{FirstAlias: uint32(len(p.aliases)), Names: names}))
	p.aliases = append(p.aliases, names...)
}

// batch lays out messages on aliases.
func batch(t testing.TB, messages ...string) record.Batch {
	t.Helper()
	return batchOn(t, 0, messages...)
}

func batchOn(t testing.TB, alias uint32, payloads ...string) record.Batch {
	t.Helper()
	var b record.BatchBuilder
	b.Reset(nil, nil)
	for _, payload := range payloads {
		if err := b.Add(alias, nil, []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish(record.ProducerID{}, 0, 0, false)
}

func (p *peer) publish(request uint32, b record.Batch) {
	p.t.Helper()
	p.send(wire.AppendPublish(nil, request, b))
}

func (p *peer) expectAck(request uint32) wire.Ack {
	p.t.Helper()
	f := p.expect(wire.TAck)
	a, err := wire.DecodeAck(f.Body)
	if err != nil || f.ID != request {
		p.t.Fatalf("want ack %d, got %d, %v", request, f.ID, err)
	}
	return a
}

func (p *peer) subscribe(id uint32, s wire.Subscribe) {
	p.t.Helper()
	if s.Credit == 0 {
		s.Credit = 1 << 40
	}
	p.send(wire.AppendSubscribe(nil, id, &s))
}

func (p *peer) expectSubscribed(id uint32) wire.Subscribed {
	p.t.Helper()
	f := p.expect(wire.TSubscribed)
	s, err := wire.DecodeSubscribed(f.Body)
	if err != nil || f.ID != id {
		p.t.Fatalf("want SUBSCRIBED %d, got %d, %v", id, f.ID, err)
	}
	return s
}

// delivered is a message as it came.
type delivered struct {
	seq     uint64
	topic   string
	payload string
}

// feed follows one subscription and holds what comes against the rules that always apply.
type feed struct {
	id       uint32
	prev     uint64 // last delivered, or Subscribe.Prev
	mark     uint64 // safe to resume after
	messages []delivered
	bytes    int // since the last credit
	caughtUp int
	head     uint64 // CAUGHT_UP's
	progress []uint64
	ended    *wire.Error
}

// take adds a frame to the feed. The error is a rule that the server broke.
func (d *feed) take(p *peer, f wire.Frame) error {
	switch f.Type {
	case wire.TSubscribed:
		return nil
	case wire.TData:
		return d.data(p, f)
	case wire.TProgress:
		seq, err := wire.DecodeSeq(f.Body)
		if seq <= d.mark {
			return fmt.Errorf("progress %d is not beyond mark %d", seq, d.mark)
		}
		d.mark = seq
		d.progress = append(d.progress, seq)
		return err
	case wire.TCaughtUp:
		d.caughtUp++
		var err error
		d.head, err = wire.DecodeSeq(f.Body)
		return err
	case wire.TEnded:
		e, err := wire.DecodeError(f.Body)
		d.ended = &e
		return err
	}
	return fmt.Errorf("unexpected %v on subscription %d", f.Type, f.ID)
}

func (d *feed) data(p *peer, f wire.Frame) error {
	data, err := wire.DecodeData(f.Body)
	if err != nil {
		return err
	}
	if data.Prev != d.prev {
		return fmt.Errorf("chain is broken: frame says %d was before it, %d was", data.Prev, d.prev)
	}
	d.bytes += len(data.Run)
	for run := data.Run; len(run) > 0; {
		var rec record.Record
		if rec, run, err = record.Next(run); err != nil {
			return err
		}
		if rec.Seq() <= d.mark {
			return fmt.Errorf("seq %d after mark %d", rec.Seq(), d.mark)
		}
		name, ok := p.names[rec.Topic()]
		if !ok {
			return fmt.Errorf("topic %d has no name", rec.Topic())
		}
		d.prev, d.mark = rec.Seq(), rec.Seq()
		d.messages = append(d.messages, delivered{rec.Seq(), name, string(rec.Payload())})
	}
	return nil
}

// follow takes frames into the feeds until done.
func (p *peer) follow(done func() bool, feeds ...*feed) {
	p.t.Helper()
	for !done() {
		f, err := p.next()
		if err != nil {
			p.t.Fatalf("follow: %v", err)
		}
		found := false
		for _, d := range feeds {
			if d.id == f.ID {
				found = true
				if err := d.take(p, f); err != nil {
					p.t.Fatalf("subscription %d: %v", d.id, err)
				}
			}
		}
		if !found {
			p.t.Fatalf("%v of no feed: %d", f.Type, f.ID)
		}
	}
}

// read subscribes and follows to caught-up.
func (p *peer) read(id uint32, s wire.Subscribe) *feed {
	p.t.Helper()
	p.subscribe(id, s)
	p.expectSubscribed(id)
	d := &feed{id: id, prev: s.Prev}
	p.follow(func() bool { return d.caughtUp > 0 }, d)
	return d
}

// drop reads and forgets until the connection ends.
func (p *peer) drop() {
	p.nc.SetReadDeadline(time.Now().Add(patience))
	io.Copy(io.Discard, p.nc)
}
