package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// Defaults and bounds of a subscription.
const (
	DefaultBufferBytes = 1 << 20
	DefaultMinSeqWait  = 5 * time.Second

	minBufferBytes = 4 << 10
	maxBufferBytes = 1 << 30

	// resumeWait is how long a node may take to get what a resuming subscription has seen, before another is asked.
	resumeWait = time.Second

	// maxHeals is how often in a row a subscription starts over at one place before it says that the server is broken.
	maxHeals = 8
)

// SubscribeOptions say what to read, from where, and how.
type SubscribeOptions struct {
	// Filters are topics ("app/x") and subtrees ("app/x/**"; "**" is everything), 1 to 1024. Their union is read, each
	// message once.
	Filters []string
	// From is where to begin. Default: First.
	From Start
	// MinSeq makes the subscription wait until its node has this seq, for MinSeqWait (default 5 s) at most, so that a
	// client that knows a message to exist finds it on any node. ErrNotYet if it takes longer.
	MinSeq     uint64
	MinSeqWait time.Duration
	// BufferBytes bounds what the server sends ahead of the consumer, 4 KiB to 1 GiB; a message larger than this still
	// arrives. Default 1 MiB. A slow consumer holds the server back and loses nothing.
	BufferBytes int
	// PreferFollower reads from a node that does not lead, if one can be reached. Node, an id or address, is tried
	// before all others. Default: a node that is connected already.
	PreferFollower bool
	Node           string
}

func (o SubscribeOptions) withDefaults() (SubscribeOptions, error) {
	if _, err := topic.ParseFilters(o.Filters); err != nil {
		return o, &Error{Op: "subscribe", Code: CodeBadFilter, Cause: err}
	}
	o.Filters = slices.Clone(o.Filters)
	if o.MinSeqWait <= 0 {
		o.MinSeqWait = DefaultMinSeqWait
	}
	if o.BufferBytes <= 0 {
		o.BufferBytes = DefaultBufferBytes
	}
	o.BufferBytes = min(max(o.BufferBytes, minBufferBytes), maxBufferBytes)
	return o, nil
}

// Subscription is a position in the stream that moves as messages are read. One goroutine at a time may read from it;
// Position, CaughtUp, Stats and Close are anybody's.
//
// It has no goroutine of its own: what must be done after a lost connection is done by the reader's next call.
type Subscription struct {
	c *Client
	o SubscribeOptions

	position atomic.Uint64
	gaps     atomic.Uint64
	resumed  atomic.Uint64
	caughtUp chan struct{} // closed by the reader
	closed   chan struct{} // closed by Close

	mu struct {
		sync.Mutex
		link   *link // nil: lost, or not yet opened
		closed bool
	}

	// The reader's.

	last   uint64    // seq of the last message taken from a frame
	base   uint64    // the subscription begins after this seq
	resume uint64    // all matches up to here were taken; Invariant: last, base <= resume
	head   uint64    // newest seq of the node at opening
	caught bool      // caughtUp is closed
	avoid  string    // address that failed last
	opened time.Time // when link was opened
	barren barren
	heals  int   // times in a row that a frame did not fit to last
	freed  int   // bytes consumed and not yet granted again
	batch  Batch // what the caller holds
	rest   int   // messages of batch that Messages has not yet yielded
}

// Subscribe opens a subscription and returns when a server has accepted it: the place is fixed then. ctx bounds only the
// opening.
func (c *Client) Subscribe(ctx context.Context, o SubscribeOptions) (*Subscription, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Subscription{c: c, o: o, caughtUp: make(chan struct{}), closed: make(chan struct{})}
	if err := s.open(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Close ends the subscription. A call that waits for messages returns ErrClosed. It never returns an error.
func (s *Subscription) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil
	}
	s.mu.closed = true
	close(s.closed)
	if s.mu.link != nil {
		s.mu.link.close()
	}
	return nil
}

// Position is a seq to resume after: all matching messages up to it were handed to the caller, and after a stretch
// without matches it moves on by itself.
func (s *Subscription) Position() uint64 { return s.position.Load() }

// CaughtUp returns a channel that is closed once all messages were handed over that were in the stream when the
// subscription was opened.
func (s *Subscription) CaughtUp() <-chan struct{} { return s.caughtUp }

// SubscriptionStats counts what a subscription went through.
type SubscriptionStats struct {
	Resumed uint64 // times that it went on elsewhere or anew
	Gaps    uint64 // frames that did not follow on the one before and were not delivered
}

// Stats returns the counts so far.
func (s *Subscription) Stats() SubscriptionStats {
	return SubscriptionStats{Resumed: s.resumed.Load(), Gaps: s.gaps.Load()}
}

func (s *Subscription) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.closed
}

// link returns the current link; nil if it is lost.
func (s *Subscription) link() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.link
}

// setLink replaces the link and closes the old one. False: the subscription was closed meanwhile.
func (s *Subscription) setLink(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.link != nil {
		s.mu.link.close()
	}
	s.mu.link = l
	if s.mu.closed && l != nil {
		l.close()
	}
	return !s.mu.closed
}

// open makes the first link.
func (s *Subscription) open(ctx context.Context) error {
	req := wire.Subscribe{Filters: s.o.Filters, Start: s.o.From.kind, Value: s.o.From.value, MinSeq: s.o.MinSeq}
	if req.Start == wire.StartSeq {
		req.Value = max(req.Value, 1)
	}
	req.WaitMS = uint32(min(s.o.MinSeqWait.Milliseconds(), 1<<31))
	got, err := s.relink(ctx, &req, refusalAtOpening)
	if err != nil {
		return err
	}
	s.head = got.Head
	s.base = got.Next - min(got.Next, 1)
	s.resume = s.base
	s.position.Store(s.resume)
	return nil
}

// reopen makes a new link that goes on after what was taken. The node must have what this subscription has seen: one that
// lags behind would say too early that it has caught up.
func (s *Subscription) reopen(ctx context.Context) error {
	req := wire.Subscribe{Filters: s.o.Filters, Start: wire.StartSeq, Value: s.resume + 1, Prev: s.last,
		MinSeq: max(s.o.MinSeq, s.resume), WaitMS: uint32(resumeWait.Milliseconds())}
	if !s.caught {
		req.MinSeq = max(req.MinSeq, s.head)
	}
	if err := s.barren.wait(ctx, s.c.o.RetryTimeout); err != nil {
		return err
	}
	if _, err := s.relink(ctx, &req, refusal); err != nil {
		return err
	}
	s.resumed.Add(1)
	s.opened = time.Now()
	return nil
}

// barren counts subscriptions in a row that servers accepted and then ended before anything came: such as on a message that is damaged on
// all nodes that can be reached, until it is repaired. Without it the next would be opened at once, for ever.
type barren struct {
	count int
	since time.Time // when the first was ended
	due   time.Time // when the next may be opened: calls that are shorter than the pause get there, too
	cause error     // of the last
}

// barrenLife is how long a subscription lasts without a message that has not failed for want of one.
const barrenLife = 5 * time.Second

// ended counts a subscription that was ended for a cause; lasted is how long it was open.
func (b *barren) ended(lasted time.Duration, cause error) {
	if lasted > barrenLife {
		b.count = 0
	}
	if b.count++; b.count == 1 {
		b.since = time.Now()
	}
	b.due, b.cause = time.Now().Add(backoff(max(0, b.count-2))), cause
}

// lost counts one whose connection was lost: the same again and again is paused for, too, but is no error however long it lasts.
func (b *barren) lost(lasted time.Duration, cause error) {
	b.ended(lasted, cause)
	b.since = time.Now()
}

// wait waits before the next is opened: not before the first, which another node may serve, then longer and longer. When limit, if
// it is positive, has passed since the first was ended, that is the error.
func (b *barren) wait(ctx context.Context, limit time.Duration) error {
	if b.count < 2 {
		return nil
	}
	if limit > 0 && time.Since(b.since) > limit {
		b.count = 0
		return &Error{Op: "read", Code: CodeUnavailable, Cause: b.cause}
	}
	if err := sleep(ctx, time.Until(b.due), nil); err != nil {
		return fmt.Errorf("read: %w", gaveUp(ctx, b.cause))
	}
	return nil
}

// refusal says whether err is an answer that no other node would change.
func refusal(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, ErrBadFilter) || final(err)
}

// refusalAtOpening says the same of a subscription that has not begun.
func refusalAtOpening(err error) bool {
	var e *Error
	return refusal(err) || errors.Is(err, ErrNotYet) || errors.As(err, &e) && e.Code == CodeTooManySubscriptions
}

// relink tries one node after another until one accepts, ctx or the time for retries ends, or give says that the error
// is for the caller.
func (s *Subscription) relink(ctx context.Context, req *wire.Subscribe, give func(error) bool) (wire.Subscribed, error) {
	req.Credit = uint64(s.o.BufferBytes)
	s.freed = 0
	var deadline time.Time
	if d := s.c.o.RetryTimeout; d > 0 {
		deadline = time.Now().Add(d)
	}
	for try := 0; ; try++ {
		_, changed := s.c.watch()
		got, err := s.relinkOnce(ctx, req)
		switch {
		case err == nil:
			return got, nil
		case ctx.Err() != nil:
			return got, fmt.Errorf("subscribe: %w", gaveUp(ctx, err))
		case give(err):
			return got, fmt.Errorf("subscribe: %w", err)
		case s.c.ctx.Err() != nil:
			return got, fmt.Errorf("subscribe: client: %w", ErrClosed)
		case s.isClosed():
			return got, fmt.Errorf("subscribe: %w", ErrClosed)
		case !deadline.IsZero() && time.Now().After(deadline):
			return got, &Error{Op: "subscribe", Code: CodeUnavailable, Cause: err}
		}
		s.c.log.Info("subscribe again", "cause", err)
		if try == 0 {
			continue // the next node may do
		}
		if err := sleep(ctx, backoff(try), changed); err != nil {
			return got, fmt.Errorf("subscribe: %w", err)
		}
	}
}

// relinkOnce tries one node.
func (s *Subscription) relinkOnce(ctx context.Context, req *wire.Subscribe) (wire.Subscribed, error) {
	cn, err := s.node(ctx)
	if err != nil {
		return wire.Subscribed{}, err
	}
	l, got, err := cn.subscribe(ctx, req, s.closed)
	if err != nil {
		s.avoid = cn.addr
		return got, err
	}
	if !s.setLink(l) {
		return got, ErrClosed
	}
	return got, nil
}

// node returns a connection to read from, as the options prefer.
func (s *Subscription) node(ctx context.Context) (*conn, error) {
	t := s.c.Topology()
	if s.o.Node != "" && s.o.Node != s.avoid {
		i := slices.IndexFunc(t.Nodes, func(n Node) bool { return n.ID == s.o.Node || n.Addr == s.o.Node })
		n := Node{Addr: s.o.Node}
		if i >= 0 {
			n = t.Nodes[i]
		}
		if n.Addr != s.avoid {
			if cn, err := s.c.connToNode(ctx, n); err == nil {
				return cn, nil
			}
		}
	}
	if s.o.PreferFollower {
		for _, n := range followers(&t) {
			if n.Addr == s.avoid {
				continue
			}
			if cn, err := s.c.connToNode(ctx, n); err == nil {
				return cn, nil
			}
		}
	}
	return s.c.connAny(ctx, func(*conn) bool { return true }, s.avoid)
}
