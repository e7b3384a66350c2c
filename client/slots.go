package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// slot is the place of the one connection to an address.
type slot struct {
	addr string
	conn atomic.Pointer[conn] // the last connection, perhaps dead
	busy chan struct{}        // holds one token: who has it may dial and touch the fields below

	failures int       // attempts in a row that failed
	retryAt  time.Time // no attempt before
	lastErr  error     // of the last attempt
}

// live returns the connection if it can take new work.
func (s *slot) live() *conn {
	if cn := s.conn.Load(); cn != nil && cn.usable() {
		return cn
	}
	return nil
}

func (c *Client) slot(addr string) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.mu.slots[addr]
	if s == nil {
		s = &slot{addr: addr, busy: make(chan struct{}, 1)}
		c.mu.slots[addr] = s
	}
	return s
}

// connTo returns the connection to addr and makes it if needed; callers for one address share the attempt. Soon
// after a failed attempt the same error is returned without another.
func (c *Client) connTo(ctx context.Context, addr string) (*conn, error) {
	s := c.slot(addr)
	if cn := s.live(); cn != nil {
		return cn, nil
	}
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return nil, fmt.Errorf("server %s: %w", addr, ctx.Err())
	case <-c.ctx.Done():
		return nil, fmt.Errorf("server %s: client: %w", addr, ErrClosed)
	}
	if cn := s.live(); cn != nil {
		return cn, nil
	}
	if time.Now().Before(s.retryAt) {
		return nil, s.lastErr
	}
	cn, err := c.dial(ctx, addr)
	if err != nil {
		if ctx.Err() == nil { // otherwise it says nothing about the server
			s.lastErr, s.retryAt = err, time.Now().Add(backoff(s.failures))
			s.failures++
		}
		return nil, err
	}
	s.failures, s.lastErr = 0, nil
	if !c.adopt(cn) {
		cn.fail(ErrClosed)
		return nil, fmt.Errorf("server %s: client: %w", addr, ErrClosed)
	}
	s.conn.Store(cn)
	return cn, nil
}

// adopt starts the goroutines of a new connection; false if the client is closed.
func (c *Client) adopt(cn *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.mu.conns[cn] = struct{}{}
	c.tasks.Go(func() {
		cn.readLoop()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.mu.conns, cn)
	})
	c.tasks.Go(cn.writeLoop)
	c.tasks.Go(cn.heartbeatLoop)
	return true
}

// connected lists live connections in random order.
func (c *Client) connected() []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var list []*conn
	for _, s := range c.mu.slots {
		if cn := s.live(); cn != nil {
			list = append(list, cn)
		}
	}
	rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// connToNode returns the connection to a node, whatever address it was reached by.
func (c *Client) connToNode(ctx context.Context, n Node) (*conn, error) {
	for _, cn := range c.connected() {
		if cn.nodeID == n.ID {
			return cn, nil
		}
	}
	if n.Addr == "" {
		return nil, fmt.Errorf("node %s tells no address for clients", n.ID)
	}
	return c.connTo(ctx, n.Addr)
}

// connForPublish prefers the leader; any other node forwards to it. The address avoid, where a connection has just
// failed, comes last: it may hang, and the others know by now who leads instead.
func (c *Client) connForPublish(ctx context.Context, avoid string) (*conn, error) {
	var err error
	t := c.Topology()
	if n, ok := t.Leader(); ok && n.Addr != avoid {
		var cn *conn
		if cn, err = c.connToNode(ctx, n); err == nil {
			return cn, nil
		}
	}
	other, otherErr := c.connAny(ctx, func(*conn) bool { return true }, avoid)
	if otherErr != nil {
		return nil, errors.Join(err, otherErr)
	}
	return other, nil
}

// connAny returns a live connection that is wanted, else makes one to any known address. The address avoid is the
// last resort.
func (c *Client) connAny(ctx context.Context, wanted func(*conn) bool, avoid string) (*conn, error) {
	for _, cn := range c.connected() {
		if cn.addr != avoid && wanted(cn) {
			return cn, nil
		}
	}
	addrs := c.addrs()
	rand.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
	if i := slices.Index(addrs, avoid); i >= 0 {
		addrs = append(slices.Delete(addrs, i, i+1), avoid)
	}
	var errs []error
	for _, addr := range addrs {
		cn, err := c.connTo(ctx, addr)
		if err == nil {
			return cn, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}
