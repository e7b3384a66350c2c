package transport

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/cantus-bus/cantus/cluster"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

// opening is what a SUBSCRIBE asks for, checked.
type opening struct {
	cluster.ReaderOptions
	prev   uint64
	minSeq uint64
	wait   time.Duration
}

// subscribe opens a subscription at once, or beside the connection if it has to wait for its MinSeq. What is wrong with
// the subscription alone ends only it.
func (c *conn) subscribe(f wire.Frame) error {
	if f.ID == 0 {
		return protocolError("subscription 0: ids begin at 1")
	}
	req, err := wire.DecodeSubscribe(f.Body)
	if err != nil && !ofFilters(err) {
		return malformed(f.Type, err)
	}
	var filters topic.Filters
	if err == nil {
		filters, err = topic.ParseFilters(req.Filters)
	}
	if err == nil && c.leaving.Load() {
		err = coded(wire.CodeShutdown, "this node is shutting down: use another one")
	}
	s := &subscription{conn: c, id: f.ID}
	ctx, stop := context.WithCancel(c.ctx)
	s.stopWait = stop
	if err == nil {
		err = c.register(s)
	}
	if errors.Is(err, errDuplicate) {
		stop()
		return protocolError("subscription %d is open already", f.ID)
	}
	if err != nil {
		stop()
		c.ended(f.ID, travelling(err, wire.CodeBadFilter))
		return nil
	}
	s.credit.Store(int64(min(req.Credit, math.MaxInt64)))
	o := opening{prev: req.Prev, minSeq: req.MinSeq, wait: min(time.Duration(req.WaitMS)*time.Millisecond, c.opts.MaxSeqWait)}
	o.ReaderOptions = cluster.ReaderOptions{Filters: filters, Start: req.Start, Value: req.Value, Wake: s.matched}
	c.begin(ctx, s, &o)
	return nil
}

// ofFilters tells errors of a SUBSCRIBE that concern its filters from those of its format.
func ofFilters(err error) bool {
	var e *wire.Error
	return errors.As(err, &e) && (e.Code == wire.CodeBadFilter || e.Code == wire.CodeTooManyFilters)
}

var errDuplicate = errors.New("duplicate subscription")

// register takes the subscription's id.
func (c *conn) register(s *subscription) error {
	c.subs.Lock()
	defer c.subs.Unlock()
	if _, taken := c.subs.byID[s.id]; taken {
		return errDuplicate
	}
	if len(c.subs.byID) >= c.opts.MaxSubscriptions {
		e := coded(wire.CodeTooManySubscriptions, "this connection has its limit of %d subscriptions: end one, or open another connection", c.opts.MaxSubscriptions)
		e.Detail = uint64(c.opts.MaxSubscriptions)
		return e
	}
	c.subs.byID[s.id] = s
	return nil
}

// begin opens the reader now if the node has what the client knows to exist, so that whatever this connection publishes
// next comes after the opening; else it waits beside.
func (c *conn) begin(ctx context.Context, s *subscription, o *opening) {
	if o.minSeq <= c.stream.Machine().LastSeq() {
		s.stopWait()
		c.open(s, o)
		return
	}
	c.helpers.Add(1)
	go func() {
		defer c.helpers.Done()
		defer s.stopWait()
		ctx, cancel := context.WithTimeout(ctx, o.wait)
		defer cancel()
		if err := c.broker.WaitSeq(ctx, o.minSeq); err != nil {
			c.waitedInVain(s, o, err)
			return
		}
		c.open(s, o)
	}()
}

// waitedInVain ends a subscription whose MinSeq did not come in time, or that was cancelled meanwhile. When it is the node or
// the connection that ends, the question stays open: the client asks another node.
func (c *conn) waitedInVain(s *subscription, o *opening, err error) {
	c.forget(s)
	switch {
	case s.cancelled.Load():
		c.ended(s.id, &wire.Error{})
		return
	case !errors.Is(err, context.DeadlineExceeded):
		c.ended(s.id, coded(wire.CodeShutdown, "this node is shutting down: use another one"))
		return
	}
	applied := c.stream.Machine().LastSeq()
	e := coded(wire.CodeNotYet, "seq %d is not here yet: this node has %d after %v", o.minSeq, applied, o.wait)
	e.Detail = applied
	c.ended(s.id, e)
}

// open places the reader and hands the subscription to the pump. SUBSCRIBED is queued before the subscription is ready:
// the pump takes the ready ones first and the replies after, and writes the replies first.
func (c *conn) open(s *subscription, o *opening) {
	r, err := c.stream.OpenReader(o.ReaderOptions)
	if err != nil {
		c.forget(s)
		c.ended(s.id, endedBy(err))
		return
	}
	oldest, _ := c.stream.Bounds()
	answer := wire.Subscribed{Next: r.Next(), Head: r.Head(), Oldest: oldest}
	s.reader, s.filters = r, o.Filters
	s.head, s.prev, s.mark, s.told = r.Head(), o.prev, answer.Next-1, time.Now()
	c.metrics.subsOpened.Inc()
	c.metrics.subs.Inc()
	c.reply(wire.TSubscribed, func(dst []byte) []byte { return wire.AppendSubscribed(dst, s.id, &answer) })
	s.opened.Store(true)
	s.wake()
}

// unsubscribe asks the pump to end a subscription. One that is not known has just ended by itself.
func (c *conn) unsubscribe(f wire.Frame) error {
	if err := wire.DecodeEmpty(f.Body); err != nil {
		return malformed(f.Type, err)
	}
	if s := c.subscription(f.ID); s != nil {
		s.cancelled.Store(true)
		s.stopWait()
		s.wake()
	}
	return nil
}

// addCredit lets a subscription send more. One that is not known has just ended.
func (c *conn) addCredit(f wire.Frame) error {
	n, err := wire.DecodeCredit(f.Body)
	if err != nil {
		return malformed(f.Type, err)
	}
	s := c.subscription(f.ID)
	if s == nil {
		return nil
	}
	had := s.credit.Load() // only the pump changes it meanwhile, and only down
	if n > math.MaxInt64 || had > math.MaxInt64-int64(n) {
		return protocolError("subscription %d: credit overflows: it has %d, %d more are too many", f.ID, had, n)
	}
	if now := s.credit.Add(int64(n)); now > 0 && now <= int64(n) {
		s.wake()
	}
	return nil
}

func (c *conn) subscription(id uint32) *subscription {
	c.subs.Lock()
	defer c.subs.Unlock()
	return c.subs.byID[id]
}

// forget frees a subscription's id. It precedes the ENDED frame: the client may use the id again after that.
func (c *conn) forget(s *subscription) {
	c.subs.Lock()
	delete(c.subs.byID, s.id)
	c.subs.Unlock()
}

// ended tells the end of a subscription that the pump does not have.
func (c *conn) ended(id uint32, e *wire.Error) {
	c.metrics.subEnded(e.Code)
	c.reply(wire.TEnded, func(dst []byte) []byte { return wire.AppendError(dst, wire.TEnded, id, e) })
}

// closeSubscriptions frees the readers when all goroutines are done.
func (c *conn) closeSubscriptions() {
	c.subs.Lock()
	defer c.subs.Unlock()
	for _, s := range c.subs.byID {
		s.stopWait()
		if s.opened.Load() {
			s.fetch.drop()
			s.reader.Close()
			c.metrics.subs.Dec()
		}
	}
	clear(c.subs.byID)
}
