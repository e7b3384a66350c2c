package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Each raft connection opens with a greeting, so that a node of another cluster on a reused address, or a foreign program,
// never speaks raft with this one:
//
//	0 [4]byte "CNTR"   4 u8 version 1   5 u8 n   6 n bytes cluster id of the dialer
const (
	greetMagic   = "CNTR"
	greetVersion = 1
	greetHeader  = len(greetMagic) + 2
	greetLimit   = 5 * time.Second // a greeting must be complete by then
)

var errForeignPeer = errors.New("raft connection is not of this cluster")

// clusterCheck accepts the cluster id of a dialer, or says why not.
type clusterCheck func(clusterID string) error

// streamLayer is raft's TCP. It knows its accepted connections, so that Close ends them.
type streamLayer struct {
	net.Listener
	advertise string
	clusterID func() string
	check     clusterCheck

	mu struct {
		sync.Mutex
		closed bool
		conns  map[net.Conn]struct{} // accepted and open
	}
}

func newStreamLayer(l net.Listener, advertise string, clusterID func() string, check clusterCheck) *streamLayer {
	s := &streamLayer{Listener: l, advertise: advertise, clusterID: clusterID, check: check}
	s.mu.conns = make(map[net.Conn]struct{})
	return s
}

// advertisedAddr is a net.Addr of an address that others dial.
type advertisedAddr string

func (advertisedAddr) Network() string  { return "tcp" }
func (a advertisedAddr) String() string { return string(a) }

// Addr is the advertised address: raft tells it to others.
func (s *streamLayer) Addr() net.Addr { return advertisedAddr(s.advertise) }

// Dial implements raft.StreamLayer.
func (s *streamLayer) Dial(addr raft.ServerAddress, limit time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", string(addr), min(limit, greetLimit))
	if err != nil {
		return nil, err
	}
	_ = c.SetWriteDeadline(time.Now().Add(greetLimit))
	if _, err := c.Write(greeting(s.clusterID())); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, c.SetWriteDeadline(time.Time{})
}

func greeting(clusterID string) []byte {
	b := append([]byte(greetMagic), greetVersion, byte(len(clusterID)))
	return append(b, clusterID...)
}

// readGreeting returns the dialer's cluster id.
func readGreeting(r io.Reader) (string, error) {
	head := make([]byte, greetHeader)
	if _, err := io.ReadFull(r, head); err != nil {
		return "", err
	}
	if string(head[:4]) != greetMagic {
		return "", fmt.Errorf("%w: it begins with %#x", errForeignPeer, binary.BigEndian.Uint32(head))
	}
	if head[4] != greetVersion {
		return "", fmt.Errorf("%w: greeting version %d, this node knows %d", errForeignPeer, head[4], greetVersion)
	}
	id := make([]byte, head[5])
	_, err := io.ReadFull(r, id)
	return string(id), err
}

// Accept implements net.Listener. The greeting is read by the connection's own goroutine, at its first read.
func (s *streamLayer) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, errors.Join(net.ErrClosed, c.Close())
	}
	s.mu.conns[c] = struct{}{}
	return &greetedConn{Conn: c, layer: s}, nil
}

// Close implements net.Listener: it ends the accepted connections too.
func (s *streamLayer) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	conns := s.mu.conns
	s.mu.conns = make(map[net.Conn]struct{})
	s.mu.Unlock()
	err := s.Listener.Close()
	for c := range conns {
		_ = c.Close()
	}
	return err
}

// greetedConn is an accepted connection. One goroutine reads it.
type greetedConn struct {
	net.Conn
	layer   *streamLayer
	greeted bool
}

func (c *greetedConn) Read(b []byte) (int, error) {
	if !c.greeted {
		if err := c.greet(); err != nil {
			return 0, fmt.Errorf("from %s: %w", c.RemoteAddr(), err)
		}
		c.greeted = true
	}
	return c.Conn.Read(b)
}

func (c *greetedConn) greet() error {
	_ = c.SetReadDeadline(time.Now().Add(greetLimit))
	id, err := readGreeting(c.Conn)
	if err != nil {
		return err
	}
	if err := c.layer.check(id); err != nil {
		return err
	}
	return c.SetReadDeadline(time.Time{})
}

func (c *greetedConn) Close() error {
	c.layer.mu.Lock()
	delete(c.layer.mu.conns, c.Conn)
	c.layer.mu.Unlock()
	return c.Conn.Close()
}
