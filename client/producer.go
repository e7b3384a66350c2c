package client

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
)

// Producer publishes messages in order, each exactly once, through any loss of servers. Any number of goroutines may
// use it; messages of one goroutine keep their order.
//
// Every message has a number under the producer's id and epoch. What was sent and not acknowledged is kept and sent
// again, under the same numbers, to whoever leads next; the cluster drops what it has already.
type Producer struct {
	c    *Client
	o    ProducerOptions
	own  bool          // the id is random: nobody else can hold it
	wake chan struct{} // one token: keep should look
	news chan struct{} // one token: tell should look

	ctx    context.Context // ends when the producer stops
	cancel context.CancelFunc
	tasks  sync.WaitGroup // keep and tell

	resent, duplicates, relinked atomic.Uint64

	mu struct {
		sync.Mutex
		err     error    // why nothing can be published any more
		link    *conn    // where batches go; nil: keep is looking for one
		gen     uint32   // counts the times that everything was sent anew; answers to older copies are ignored
		trouble error    // why everything must be sent anew; nil: it need not
		why     error    // the last trouble; nil: none since the last ack
		acks    uint64   // batches settled by the cluster, ever
		reopen  bool     // the epoch is used up: open before sending; Invariant: queue is empty then
		refence bool     // a late opening of our own has fenced the epoch: open, and send the queue under the new one
		late    uint64   // openings that were not answered: each may yet come into the log and fence the epoch
		epoch   uint32   // of the id; fences earlier ones
		next    uint64   // number of the next batch to be sealed
		cur     *batch   // being filled; nil or empty: nothing waits
		overdue bool     // cur has gathered for long enough
		queue   []*batch // sealed and not settled, in order; Invariant: len <= MaxInflightBatches, numbers dense
		settled []*batch // outcomes that tell has yet to tell
		telling bool     // tell has outcomes in hand
		free    []*batch // for reuse; Invariant: len <= MaxInflightBatches

		bytes, messages int    // handed to Publish and not told
		added, told     uint64 // messages, ever
		flushing        int    // callers that wait for everything: do not gather
		lost            error  // first failure that nobody was told of; Flush returns it
		room            chan struct{}
		waiting         bool // somebody waits on room
		linger          *time.Timer
	}
}

// Producer opens a producer: the cluster gives its id a new epoch, which fences all earlier ones.
func (c *Client) Producer(ctx context.Context, o ProducerOptions) (*Producer, error) {
	p := &Producer{c: c, own: o.ID == (ProducerID{}), o: o.withDefaults(c),
		wake: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	p.ctx, p.cancel = context.WithCancel(c.ctx)
	p.mu.reopen = true
	p.mu.room = make(chan struct{})
	p.mu.linger = time.AfterFunc(time.Hour, p.lingered)
	p.mu.linger.Stop()
	if err := p.openFirst(ctx); err != nil {
		p.cancel()
		return nil, fmt.Errorf("open producer: %w", err)
	}
	if !c.attach(p) {
		p.cancel()
		return nil, fmt.Errorf("open producer: client: %w", ErrClosed)
	}
	return p, nil
}

// attach starts the producer's goroutines; false if the client is closed.
func (c *Client) attach(p *Producer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return false
	}
	c.mu.producers[p] = struct{}{}
	p.tasks.Add(2)
	c.tasks.Go(func() {
		defer p.tasks.Done()
		defer c.detach(p)
		p.keep()
	})
	c.tasks.Go(func() {
		defer p.tasks.Done()
		p.tell()
	})
	return true
}

func (c *Client) detach(p *Producer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.producers, p)
}

// nudge wakes the producers that use a connection, to look for a better one.
func (c *Client) nudge(cn *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.mu.producers {
		p.signal()
	}
}

// ID is the producer's identity.
func (p *Producer) ID() ProducerID { return p.o.ID }

// Epoch is the producer's session: it grows each time that the id is opened.
func (p *Producer) Epoch() uint32 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.epoch
}

// ProducerStats counts what a producer went through.
type ProducerStats struct {
	Resent     uint64 // batches that were sent again
	Duplicates uint64 // batches of which the cluster said that it had them
	Relinked   uint64 // times that everything in flight was sent anew
	Inflight   int    // messages not settled
}

// Stats returns the counts so far.
func (p *Producer) Stats() ProducerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return ProducerStats{Resent: p.resent.Load(), Duplicates: p.duplicates.Load(), Relinked: p.relinked.Load(),
		Inflight: p.mu.messages}
}

// Publish hands a message over and returns: payload and headers may be reused. It waits only for room (see
// ProducerOptions), at most until ctx ends. An error means that the message is not and will not be published. The
// outcome of the others is told by ProducerOptions.OnAck, or by Flush.
func (p *Producer) Publish(ctx context.Context, topic string, payload []byte, headers ...Header) error {
	return p.publish(ctx, topic, payload, headers, nil)
}

// PublishAsync is Publish with an own callback for this message. done is called exactly once if the error is nil, by
// a goroutine of the producer, in order; it must not wait for the producer.
func (p *Producer) PublishAsync(ctx context.Context, topic string, payload []byte, done func(Ack, error), headers ...Header) error {
	return p.publish(ctx, topic, payload, headers, done)
}

// PublishSync publishes a message and waits until it is on a majority's disks. If ctx ends first the message is still
// on its way and its fate unknown to the caller: errors.Is(err, ErrUnknownFate).
func (p *Producer) PublishSync(ctx context.Context, topic string, payload []byte, headers ...Header) (Ack, error) {
	w := newWaiter()
	if err := p.publish(ctx, topic, payload, headers, w.done); err != nil {
		return Ack{}, err
	}
	return w.wait(ctx, topic)
}

// publish adds a message to the batch being filled.
func (p *Producer) publish(ctx context.Context, topic string, payload []byte, headers []Header, done func(Ack, error)) error {
	id, err := p.c.topics.id(topic)
	if err != nil {
		return err
	}
	if len(payload) > MaxPayload {
		return &Error{Op: "publish to " + topic, Code: CodePublishTooLarge,
			Message: fmt.Sprintf("payload of %d bytes, the limit is %d", len(payload), MaxPayload)}
	}
	size := record.PaddedSize(headers, len(payload))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.waitRoomLocked(ctx, size); err != nil {
		return err
	}
	b := p.currentLocked(size)
	if err := b.add(id, headers, payload, done); err != nil {
		return err
	}
	p.chargeLocked(b, size, 1)
	p.pumpLocked()
	return nil
}

// chargeLocked counts messages that were handed over.
func (p *Producer) chargeLocked(b *batch, size, messages int) {
	b.charged += size
	p.mu.bytes += size
	p.mu.messages += messages
	p.mu.added += uint64(messages)
}

// waitRoomLocked waits until a message of size bytes may be added, to the current batch or to a new one.
func (p *Producer) waitRoomLocked(ctx context.Context, size int) error {
	if p.mu.err == nil && p.roomLocked(size) {
		return nil
	}
	return p.waitLocked(ctx, func() bool { return p.roomLocked(size) })
}

// waitLocked waits until there is room as ok says, the producer has failed, or ctx ends.
func (p *Producer) waitLocked(ctx context.Context, ok func() bool) error {
	for {
		if p.mu.err != nil {
			return p.mu.err
		}
		if ok() {
			return nil
		}
		if err := p.awaitChangeLocked(ctx); err != nil {
			return fmt.Errorf("publish: wait for room behind %d messages in flight: %w", p.mu.messages, err)
		}
	}
}

// awaitChangeLocked gives the lock up until roomChangedLocked, or returns ctx's error if that ends first.
func (p *Producer) awaitChangeLocked(ctx context.Context) error {
	room := p.mu.room
	p.mu.waiting = true
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Producer) roomLocked(size int) bool {
	if p.mu.messages == 0 {
		return true
	}
	if p.mu.messages >= p.o.MaxInflightMessages || p.mu.bytes+size > p.o.MaxInflightBytes {
		return false
	}
	return p.fitsLocked(size) || p.sealableLocked()
}

// fitsLocked says whether the current batch takes size bytes more.
func (p *Producer) fitsLocked(size int) bool {
	b := p.mu.cur
	return b == nil || b.count() == 0 || b.size()+size <= p.o.BatchBytes
}

// sealableLocked says whether a batch may join the queue.
func (p *Producer) sealableLocked() bool {
	return !p.mu.reopen && len(p.mu.queue) < MaxInflightBatches
}

// currentLocked returns the batch to add size bytes to. There is room.
func (p *Producer) currentLocked(size int) *batch {
	if !p.fitsLocked(size) {
		p.sealLocked()
	}
	if p.mu.cur == nil {
		p.mu.cur = p.takeFreeLocked()
		p.mu.cur.reset(max(p.o.BatchBytes, record.BatchHeaderSize+size), nil)
	}
	if b := p.mu.cur; b.count() == 0 {
		b.began = time.Now()
	}
	return p.mu.cur
}

func (p *Producer) takeFreeLocked() *batch {
	n := len(p.mu.free)
	if n == 0 {
		return new(batch)
	}
	b := p.mu.free[n-1]
	p.mu.free = p.mu.free[:n-1]
	return b
}
