package fake

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// maxSubscriptions is per connection.
const maxSubscriptions = 1024

// noRequest is the id of an error that neither belongs to a request nor ends the connection.
const noRequest = ^uint32(0)

// session is one connection of a client to a node. One goroutine reads frames and acts on them, under the broker's lock;
// one writes what gathers in out. All fields are guarded by the broker's mu.
type session struct {
	b       *Broker
	n       *node
	nc      net.Conn
	wake    chan struct{} // one token: out has something, or the session ended
	out     []byte
	ended   bool // no more frames; what is in out is still written
	greeted bool
	aliases []string // by alias; "": a name that breaks a rule
	told    map[uint32]bool
	subs    map[uint32]*subscription
	ids     []uint32 // of subs, in the order of opening
	queries []*query // those that wait
}

// startLocked serves a new connection.
func (b *Broker) startLocked(n *node, nc net.Conn) {
	s := &session{b: b, n: n, nc: nc, wake: make(chan struct{}, 1), told: map[uint32]bool{}, subs: map[uint32]*subscription{}}
	n.sessions[s] = struct{}{}
	b.tasks.Go(s.read)
	b.tasks.Go(s.write)
}

// endLocked ends the session after what is queued was written.
func (s *session) endLocked() {
	s.ended = true
	s.signal()
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sendLocked queues what add appends.
func (s *session) sendLocked(add func(out []byte) []byte) {
	if !s.ended {
		s.out = add(s.out)
		s.signal()
	}
}

// write is the session's writing goroutine; it ends the connection.
func (s *session) write() {
	defer s.nc.Close()
	for range s.wake {
		s.b.mu.Lock()
		thaw := s.n.thaw
		s.b.mu.Unlock()
		if thaw != nil {
			<-thaw
		}
		s.b.mu.Lock()
		out, ended := s.out, s.ended
		s.out = nil
		if ended {
			delete(s.n.sessions, s)
		}
		s.b.mu.Unlock()
		if _, err := s.nc.Write(out); err != nil || ended {
			s.b.mu.Lock()
			delete(s.n.sessions, s)
			s.ended = true
			s.b.mu.Unlock()
			return
		}
	}
}

// read is the session's reading goroutine.
func (s *session) read() {
	r := wire.NewReader(s.nc, wire.MaxFrame)
	defer r.Close()
	for {
		f, err := r.Next()
		s.pause()
		s.b.mu.Lock()
		if err == nil && !s.ended {
			err = s.handleLocked(&f)
		}
		if err != nil || s.ended {
			s.faultLocked(err)
			s.endLocked()
			s.b.mu.Unlock()
			return
		}
		s.b.deliverLocked()
		s.b.mu.Unlock()
	}
}

// pause waits as long as faults want.
func (s *session) pause() {
	s.b.mu.Lock()
	delay, thaw := s.b.mu.faults.delay, s.n.thaw
	s.b.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
	if delay > 0 {
		time.Sleep(delay)
	}
}

// faultLocked tells the client what it did wrong.
func (s *session) faultLocked(err error) {
	var e *wire.Error
	switch {
	case errors.As(err, &e):
	case errors.Is(err, io.ErrUnexpectedEOF):
		e = refuse("the connection ended within a frame")
	default:
		return
	}
	s.sendLocked(func(out []byte) []byte { return wire.AppendError(out, wire.TError, 0, e) })
}

// refuse is the error for a client that breaks the protocol: it ends the connection.
func refuse(format string, args ...any) *wire.Error {
	return &wire.Error{Code: wire.CodeProtocol, Message: fmt.Sprintf(format, args...)}
}

// handleLocked acts on one frame. An error ends the connection.
func (s *session) handleLocked(f *wire.Frame) error {
	if !s.greeted {
		return s.greetLocked(f)
	}
	switch f.Type {
	case wire.TDefineTopics:
		return s.defineLocked(f)
	case wire.TOpenProducer:
		o, err := wire.DecodeOpenProducer(f.Body)
		if err != nil {
			return err
		}
		if s.b.mu.faults.openings > 0 {
			s.b.mu.faults.openings--
			s.b.mu.held = append(s.b.mu.held, o.ID)
			s.endLocked()
			return nil
		}
		answer := s.b.openLocked(o.ID)
		s.sendLocked(func(out []byte) []byte { return wire.AppendProducerOpened(out, f.ID, answer) })
	case wire.TPublish:
		return s.publishLocked(f)
	case wire.TSubscribe:
		return s.subscribeLocked(f)
	case wire.TUnsubscribe:
		return s.unsubscribeLocked(f)
	case wire.TCredit:
		return s.creditLocked(f)
	case wire.TPing:
		s.sendLocked(func(out []byte) []byte { return wire.AppendEmpty(out, wire.TPong, f.ID) })
	case wire.TPong, wire.TGoodbye, wire.TError:
	case wire.TQuery:
		return s.queryLocked(f)
	case wire.THello:
		return refuse("second HELLO on one connection")
	default:
		return refuse("%v is a frame that only servers send", f.Type)
	}
	return nil
}

// greetLocked answers HELLO.
func (s *session) greetLocked(f *wire.Frame) error {
	if f.Type != wire.THello {
		return refuse("first frame is %v: a connection begins with HELLO", f.Type)
	}
	h, err := wire.DecodeHello(f.Body)
	if err != nil {
		return err
	}
	if h.MinVersion > wire.Version || h.MaxVersion < wire.Version {
		return &wire.Error{Code: wire.CodeVersion, Detail: wire.Version,
			Message: fmt.Sprintf("client speaks versions %d to %d, this server speaks %d", h.MinVersion, h.MaxVersion, wire.Version)}
	}
	if h.ClusterID != "" && h.ClusterID != s.b.o.ClusterID {
		return &wire.Error{Code: wire.CodeWrongCluster,
			Message: fmt.Sprintf("client wants cluster %q, this is %q", h.ClusterID, s.b.o.ClusterID)}
	}
	w := wire.Welcome{Version: wire.Version, NodeID: s.n.id, HeartbeatMS: h.HeartbeatMS, MaxFrame: wire.MaxFrame,
		MaxInflight: 64 << 20, FirstSeq: s.b.mu.trimmed + 1, LastSeq: s.b.appliedLocked(s.n), Topology: s.b.topologyLocked()}
	s.sendLocked(func(out []byte) []byte { return wire.AppendWelcome(out, &w) })
	s.greeted = true
	return nil
}

// defineLocked adds aliases. A name that breaks a rule keeps its number; batches that use it are refused.
func (s *session) defineLocked(f *wire.Frame) error {
	d, err := wire.DecodeDefineTopics(f.Body)
	if err != nil {
		return err
	}
	if int64(d.FirstAlias) != int64(len(s.aliases)) {
		return refuse("topics are defined from alias %d: the next one is %d", d.FirstAlias, len(s.aliases))
	}
	for _, name := range d.Names {
		if err := topic.Validate(name); err != nil {
			e := wire.Error{Code: wire.CodeBadTopic, Detail: uint64(len(s.aliases)), Message: err.Error()}
			s.sendLocked(func(out []byte) []byte { return wire.AppendError(out, wire.TError, noRequest, &e) })
			name = ""
		}
		s.aliases = append(s.aliases, name)
	}
	return nil
}

// publishLocked executes a batch, or what faults make of it.
func (s *session) publishLocked(f *wire.Frame) error {
	batch, err := wire.DecodePublish(f.Body)
	if err != nil {
		return err
	}
	usable, err := s.checkAliases(batch)
	if err != nil {
		return err
	}
	a := wire.Ack{Code: wire.CodeInvalid, Count: batch.Header().Count}
	leader := s.b.mu.leader
	fault, faulty := s.b.mu.faults.takeLocked()
	switch {
	case !usable:
	case faulty && !fault.execute:
		a.Code = fault.code
	case leader < 0 || !s.b.mu.nodes[leader].up:
		a.Code = wire.CodeUnavailable
	case leader != s.n.index && s.b.o.NoForward:
		a.Code = wire.CodeNotLeader
	default:
		a = s.b.executeLocked(batch, s.aliases)
		if faulty && !fault.cut {
			a = wire.Ack{Code: fault.code, Count: a.Count}
		}
	}
	if faulty && fault.cut {
		s.endLocked()
		return nil
	}
	s.sendLocked(func(out []byte) []byte { return wire.AppendAck(out, f.ID, &a) })
	return nil
}

// checkAliases says whether all names that a batch uses are good; an alias that was never defined is an error.
func (s *session) checkAliases(batch record.Batch) (usable bool, err error) {
	usable = true
	check := func(alias uint32) {
		if int64(alias) >= int64(len(s.aliases)) {
			err = refuse("alias %d is not defined: %d are", alias, len(s.aliases))
			return
		}
		usable = usable && s.aliases[alias] != ""
	}
	for i := range batch.Header().Preconditions {
		check(batch.Precondition(i).Topic)
	}
	for run := batch.Records(); len(run) > 0; run = run[record.Scan(run):] {
		check(record.Record(run).Topic())
	}
	return usable, err
}
