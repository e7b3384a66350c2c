package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Each connection to raft's port opens with a greeting, so that a node of another cluster on a reused address, or a foreign
// program, never speaks with this one. It names the node that it wants: one with an empty disk that has taken the address of
// another must not answer for it, since its vote and its copy of an entry count for nothing. The magic says what the connection
// is for:
//
//	0 [4]byte "CNTR" raft or "CNTF" files   4 u8 version 2
//	5 u8 n   n bytes cluster id of the dialer   u8 m   m bytes id of the node that is wanted
const (
	greetRaft    = "CNTR"
	greetFiles   = "CNTF"
	greetVersion = 2
	greetHeader  = len(greetRaft) + 1
	greetLimit   = 5 * time.Second // a greeting must be complete by then

	maxGreeting  = 1024 // accepted connections that have not greeted yet; one more is closed
	maxFileConns = 32   // connections for files; one more is closed, and its dialer asks another node
	// writeStall is how long one write of a file may wait for a peer that takes nothing.
	writeStall = 30 * time.Second

	acceptPauseMin, acceptPauseMax = 5 * time.Millisecond, time.Second // between attempts to accept that fail
)

var errForeignPeer = errors.New("raft connection is not of this cluster")

// clusterCheck accepts the cluster id of a dialer that wants a node, or says why not.
type clusterCheck func(clusterID, node string) error

// nodeAddr is the address of a node for Dial and DialFiles, which ask for that node and no other.
func nodeAddr(id, addr string) string { return id + "@" + addr }

// splitNodeAddr is nodeAddr undone. An address that names no node is refused where it leads.
func splitNodeAddr(s string) (id, addr string) {
	if id, addr, ok := strings.Cut(s, "@"); ok {
		return id, addr
	}
	return "", s
}

// streamLayer is raft's TCP port. It sorts accepted connections by their greetings: raft's come out of Accept, those for files
// out of the listener that Files returns. Each greeting is read by a goroutine of its own, so that who says nothing keeps nobody
// waiting. It knows its accepted connections, so that Close ends them.
type streamLayer struct {
	listener  net.Listener
	advertise string
	clusterID func() string
	check     clusterCheck
	connect   func(addr string, limit time.Duration) (net.Conn, error)

	rafts, files chan net.Conn // greeted, on their way to who takes them
	greeting     chan struct{} // a token per connection that has not greeted
	fileSlots    chan struct{} // a token per connection for files
	done         chan struct{} // closed by Close
	loops        sync.WaitGroup

	mu struct {
		sync.Mutex
		closed bool
		conns  map[net.Conn]struct{} // accepted and open
	}
}

// newStreamLayer begins to accept.
func newStreamLayer(l net.Listener, advertise string, clusterID func() string, check clusterCheck) *streamLayer {
	s := &streamLayer{
		listener: l, advertise: advertise, clusterID: clusterID, check: check, connect: sockets().dial,
		rafts: make(chan net.Conn), files: make(chan net.Conn), done: make(chan struct{}),
		greeting: make(chan struct{}, maxGreeting), fileSlots: make(chan struct{}, maxFileConns),
	}
	s.mu.conns = make(map[net.Conn]struct{})
	s.loops.Go(s.accept)
	return s
}

// advertisedAddr is a net.Addr of an address that others dial.
type advertisedAddr string

func (advertisedAddr) Network() string  { return "tcp" }
func (a advertisedAddr) String() string { return string(a) }

// Addr is the advertised address: raft tells it to others.
func (s *streamLayer) Addr() net.Addr { return advertisedAddr(s.advertise) }

// Dial implements raft.StreamLayer. addr is a nodeAddr.
func (s *streamLayer) Dial(addr raft.ServerAddress, limit time.Duration) (net.Conn, error) {
	return s.dial(greetRaft, string(addr), limit)
}

// DialFiles opens a connection for files. addr is a nodeAddr.
func (s *streamLayer) DialFiles(addr string, limit time.Duration) (net.Conn, error) {
	return s.dial(greetFiles, addr, limit)
}

func (s *streamLayer) dial(magic, addr string, limit time.Duration) (net.Conn, error) {
	node, addr := splitNodeAddr(addr)
	c, err := s.connect(addr, min(limit, greetLimit))
	if err != nil {
		return nil, err
	}
	_ = c.SetWriteDeadline(time.Now().Add(greetLimit))
	if _, err := c.Write(greeting(magic, s.clusterID(), node)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, c.SetWriteDeadline(time.Time{})
}

func greeting(magic, clusterID, node string) []byte {
	b := append([]byte(magic), greetVersion, byte(len(clusterID)))
	b = append(append(b, clusterID...), byte(len(node)))
	return append(b, node...)
}

// readGreeting returns what the connection is for, the dialer's cluster id and the node that it wants.
func readGreeting(r io.Reader) (magic, clusterID, node string, err error) {
	head := make([]byte, greetHeader)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", "", "", err
	}
	if magic = string(head[:4]); magic != greetRaft && magic != greetFiles {
		return "", "", "", fmt.Errorf("%w: it begins with %#x", errForeignPeer, binary.BigEndian.Uint32(head))
	}
	if head[4] != greetVersion {
		return "", "", "", fmt.Errorf("%w: greeting version %d, this node knows %d", errForeignPeer, head[4], greetVersion)
	}
	if clusterID, err = readShort(r); err == nil {
		node, err = readShort(r)
	}
	return magic, clusterID, node, err
}

// readShort reads a string of a greeting.
func readShort(r io.Reader) (string, error) {
	var size [1]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return "", err
	}
	b := make([]byte, size[0])
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// accept takes connections until Close. What keeps it from doing so now, such as too many open files, may pass.
func (s *streamLayer) accept() {
	pause := acceptPauseMin
	for {
		c, err := s.listener.Accept()
		if err != nil {
			select {
			case <-s.done:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, acceptPauseMax)
			continue
		}
		pause = acceptPauseMin
		select {
		case s.greeting <- struct{}{}:
		default:
			_ = c.Close()
			continue
		}
		if !s.keep(c) {
			_ = c.Close()
			return
		}
		s.loops.Go(func() { s.greet(c) })
	}
}

// keep remembers an accepted connection; false once Close has been called.
func (s *streamLayer) keep(c net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return false
	}
	s.mu.conns[c] = struct{}{}
	return true
}

func (s *streamLayer) forget(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
}

// greet reads a connection's greeting and hands it to who takes such.
func (s *streamLayer) greet(c net.Conn) {
	conn, to, err := s.admit(c)
	<-s.greeting
	if err != nil { // a stranger, or one that said nothing: check has logged what matters
		s.forget(c)
		_ = c.Close()
		return
	}
	select {
	case to <- conn:
	case <-s.done:
		_ = conn.Close()
	}
}

func (s *streamLayer) admit(c net.Conn) (*greetedConn, chan net.Conn, error) {
	_ = c.SetReadDeadline(time.Now().Add(greetLimit))
	magic, id, node, err := readGreeting(c)
	if err != nil {
		return nil, nil, err
	}
	if magic == greetFiles && s.clusterID() == "" {
		return nil, nil, errForeignPeer // only a leader's raft makes a new node one of its cluster
	}
	if err := s.check(id, node); err != nil {
		return nil, nil, err
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	if magic == greetRaft {
		return &greetedConn{Conn: c, layer: s}, s.rafts, nil
	}
	select {
	case s.fileSlots <- struct{}{}:
		return &greetedConn{Conn: c, layer: s, files: true}, s.files, nil
	default:
		return nil, nil, errors.New("too many connections for files")
	}
}

// Accept implements net.Listener for raft.
func (s *streamLayer) Accept() (net.Conn, error) {
	select {
	case c := <-s.rafts:
		return c, nil
	case <-s.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener: it ends the accepted connections too. It waits for nothing; see wait.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return nil
	}
	s.mu.closed = true
	conns := s.mu.conns
	s.mu.conns = make(map[net.Conn]struct{})
	s.mu.Unlock()
	close(s.done)
	err := s.listener.Close()
	for c := range conns {
		_ = c.Close()
	}
	return err
}

// wait returns when Close has been called and the layer's goroutines have ended. A clusterCheck must not call it.
func (s *streamLayer) wait() { s.loops.Wait() }

// Files is where connections for files come out. Its Close ends its Accept; connections end with the layer.
func (s *streamLayer) Files() net.Listener {
	return &fileListener{s: s, done: make(chan struct{})}
}

type fileListener struct {
	s    *streamLayer
	once sync.Once
	done chan struct{}
}

func (l *fileListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.files:
		return c, nil
	case <-l.s.done:
		return nil, net.ErrClosed
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *fileListener) Addr() net.Addr { return l.s.Addr() }

func (l *fileListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// greetedConn is an accepted connection that has greeted.
type greetedConn struct {
	net.Conn
	layer *streamLayer
	files bool // it has a slot
	once  sync.Once
}

// Write to a peer that wants a file ends when the peer takes nothing for a while.
func (c *greetedConn) Write(b []byte) (int, error) {
	if c.files {
		_ = c.SetWriteDeadline(time.Now().Add(writeStall))
	}
	return c.Conn.Write(b)
}

func (c *greetedConn) Close() error {
	c.once.Do(func() {
		c.layer.forget(c.Conn)
		if c.files {
			<-c.layer.fileSlots
		}
	})
	return c.Conn.Close()
}
