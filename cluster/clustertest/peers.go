package clustertest

import (
	"context"
	"net"
	"sync"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// ServePeers is the least server that a node's peers need: HELLO, topic definitions, publishes and producers. It trusts
// what comes. Tests of the real server pass that instead.
func ServePeers(n *cluster.Node) (addr string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &peerServer{node: n, listener: l, conns: make(map[net.Conn]struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.loops.Go(s.accept)
	return l.Addr().String(), s.stop, nil
}

type peerServer struct {
	node     *cluster.Node
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc
	loops    sync.WaitGroup

	mu    sync.Mutex // guards conns
	conns map[net.Conn]struct{}
}

func (s *peerServer) stop() {
	s.cancel()
	_ = s.listener.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.loops.Wait()
}

func (s *peerServer) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		s.loops.Go(func() {
			p := &peerConn{server: s, conn: conn}
			p.run()
			_ = conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		})
	}
}

// peerConn is one peer's connection. Answers are written by whoever has them.
type peerConn struct {
	server *peerServer
	conn   net.Conn
	names  []string // by alias

	mu sync.Mutex // held while writing
}

func (p *peerConn) write(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.conn.Write(b)
}

func (p *peerConn) run() {
	r := wire.NewReader(p.conn, wire.MaxFrame)
	for {
		f, err := r.Next()
		if err != nil || !p.handle(f) {
			return
		}
	}
}

func (p *peerConn) handle(f wire.Frame) bool {
	n := p.server.node
	switch f.Type {
	case wire.THello:
		p.write(wire.AppendWelcome(nil, &wire.Welcome{Version: wire.Version, NodeID: n.NodeID(), HeartbeatMS: 1000, Topology: n.Topology()}))
	case wire.TDefineTopics:
		d, err := wire.DecodeDefineTopics(f.Body)
		if err != nil || int(d.FirstAlias) != len(p.names) {
			return false
		}
		p.names = append(p.names, d.Names...)
	case wire.TOpenProducer:
		o, err := wire.DecodeOpenProducer(f.Body)
		if err != nil {
			return false
		}
		r, err := n.OpenProducer(p.server.ctx, o.ID)
		if err != nil {
			return false
		}
		p.write(wire.AppendProducerOpened(nil, f.ID, wire.ProducerOpened{
			Code: wire.Code(r.Code), Detail: r.Detail, Epoch: r.Epoch, LastNumber: r.LastNumber, LastSeq: r.LastSeq}))
	case wire.TPublish:
		return p.publish(f)
	case wire.TPing:
		p.write(wire.AppendEmpty(nil, wire.TPong, f.ID))
	}
	return true
}

// publish submits a batch whose aliases become new names, so that the proposer resolves them.
func (p *peerConn) publish(f wire.Frame) bool {
	b := record.Batch(append([]byte(nil), f.Body...))
	if b.Validate() != nil {
		return false
	}
	for i := range b.Header().Preconditions {
		b.SetPreconditionTopic(i, record.NewTopic|b.Precondition(i).Topic)
	}
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		record.SetTopic(run, record.NewTopic|record.Record(run).Topic())
	}
	s := &cluster.Submission{Batch: b, Names: p.names, Forwarded: true, Request: f.ID, Complete: p.ack}
	return p.server.node.Submit(p.server.ctx, s) == nil
}

func (p *peerConn) ack(s *cluster.Submission, r fsm.Result) {
	p.write(wire.AppendAck(nil, s.Request, &wire.Ack{
		Code: wire.Code(r.Code), Index: r.Index, Count: r.Count, FirstSeq: r.FirstSeq, Time: r.Time, Detail: r.Detail}))
}
