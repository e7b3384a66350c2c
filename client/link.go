package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cantus-bus/cantus/internal/wire"
)

// creditSlack is how many bytes beyond the credit a server may send: the frame that uses it up.
const creditSlack = wire.MaxFrame

// link is a subscription on one connection: a queue between the connection's reader, which never waits, and one
// consumer. The credit bounds it.
type link struct {
	cn    *conn
	id    uint32
	limit int // bytes; Invariant: the credit given and not used is at most this

	sig chan struct{} // one token: something was pushed

	mu     sync.Mutex
	items  []item
	head   int // of items; those before it were popped
	bytes  int // of the items' bodies
	closed bool
}

type itemKind uint8

const (
	itemSubscribed itemKind = iota
	itemData
	itemProgress
	itemCaughtUp
	itemEnded // err says why the server ended it
	itemLost  // err says why the connection ended
)

// item is a frame for a subscription, or its end.
type item struct {
	kind       itemKind
	subscribed wire.Subscribed
	seq        uint64 // itemProgress, itemCaughtUp
	data       wire.Data
	buf        *wire.Buffer // behind data; whoever takes the item frees it
	size       int          // bytes that count as credit
	err        error
}

// push adds an item. What comes after close is dropped.
func (l *link) push(it item) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		it.buf.Free()
		return
	}
	l.items = append(l.items, it)
	l.bytes += it.size
	l.mu.Unlock()
	select {
	case l.sig <- struct{}{}:
	default:
	}
}

// pop takes the oldest item.
func (l *link) pop() (item, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.head == len(l.items) {
		return item{}, false
	}
	it := l.items[l.head]
	l.items[l.head] = item{}
	l.head++
	l.bytes -= it.size
	if l.head == len(l.items) {
		l.items, l.head = l.items[:0], 0
	}
	return it, true
}

// next waits for an item.
func (l *link) next(ctx context.Context, closed <-chan struct{}) (item, error) {
	for {
		if it, ok := l.pop(); ok {
			return it, nil
		}
		select {
		case <-l.sig:
		case <-ctx.Done():
			return item{}, ctx.Err()
		case <-closed:
			return item{}, ErrClosed
		}
	}
}

// close ends the subscription on the server and drops what is queued.
func (l *link) close() {
	l.cn.mu.Lock()
	if _, ok := l.cn.mu.links[l.id]; ok {
		delete(l.cn.mu.links, l.id)
		l.cn.mu.out = wire.AppendEmpty(l.cn.mu.out, wire.TUnsubscribe, l.id)
		l.cn.wakeWriter()
	}
	l.cn.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, it := range l.items[l.head:] {
		it.buf.Free()
	}
	l.items, l.head, l.bytes = nil, 0, 0
}

// grant gives the server credit for bytes that were consumed.
func (l *link) grant(n int) {
	l.cn.send(func(out []byte) []byte { return wire.AppendCredit(out, l.id, uint64(n)) })
}

// subscribe opens a subscription and waits until the server has accepted it.
func (cn *conn) subscribe(ctx context.Context, s *wire.Subscribe, closed <-chan struct{}) (*link, wire.Subscribed, error) {
	l := &link{cn: cn, limit: int(s.Credit), sig: make(chan struct{}, 1)}
	cn.mu.Lock()
	id, err := cn.nextIDLocked()
	if err != nil {
		cn.mu.Unlock()
		return nil, wire.Subscribed{}, err
	}
	l.id = id
	cn.mu.links[id] = l
	cn.mu.out = wire.AppendSubscribe(cn.mu.out, id, s)
	cn.mu.Unlock()
	cn.wakeWriter()
	it, err := l.next(ctx, closed)
	switch {
	case err != nil:
	case it.kind == itemSubscribed:
		return l, it.subscribed, nil
	case it.err != nil:
		err = it.err
	default:
		it.buf.Free()
		err = &Error{Op: "subscribe", Code: CodeProtocol, Message: "the server sent something else than SUBSCRIBED"}
		cn.fail(err)
	}
	l.close()
	return nil, wire.Subscribed{}, err
}

// find returns the subscription that a frame speaks of; nil after close: frames may still be on their way.
func (cn *conn) find(id uint32) *link {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.mu.links[id]
}

// endLink tells a subscription that the server has ended it.
func (cn *conn) endLink(id uint32, e *wire.Error) {
	cn.mu.Lock()
	l := cn.mu.links[id]
	delete(cn.mu.links, id)
	cn.mu.Unlock()
	if l != nil {
		l.push(item{kind: itemEnded, err: remote("subscribe", *e)})
	}
}

// toLink queues a frame for its subscription.
func (cn *conn) toLink(f *wire.Frame) error {
	if f.Type == wire.TEnded {
		e, err := wire.DecodeError(f.Body)
		if err == nil {
			cn.endLink(f.ID, &e)
		}
		return err
	}
	l := cn.find(f.ID)
	if l == nil {
		return nil
	}
	it, err := cn.item(f)
	if err != nil {
		return err
	}
	if it.kind == itemData && l.queued() > l.limit+creditSlack {
		it.buf.Free()
		return &Error{Op: "read data", Code: CodeProtocol, Message: fmt.Sprintf("the server sent more than the credit of %d bytes", l.limit)}
	}
	l.push(it)
	return nil
}

func (l *link) queued() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// item decodes a frame for a subscription. Data keeps its buffer.
func (cn *conn) item(f *wire.Frame) (item, error) {
	switch f.Type {
	case wire.TSubscribed:
		s, err := wire.DecodeSubscribed(f.Body)
		return item{kind: itemSubscribed, subscribed: s}, err
	case wire.TProgress, wire.TCaughtUp:
		seq, err := wire.DecodeSeq(f.Body)
		kind := itemProgress
		if f.Type == wire.TCaughtUp {
			kind = itemCaughtUp
		}
		return item{kind: kind, seq: seq}, err
	case wire.TData:
		d, err := wire.DecodeData(f.Body)
		if err != nil {
			return item{}, err
		}
		return item{kind: itemData, data: d, buf: cn.r.Take(), size: dataCredit(&d)}, nil
	}
	return item{}, errors.New("not a frame of a subscription")
}

// dataCredit is how much credit a data frame uses.
func dataCredit(d *wire.Data) int { return len(d.Run) }
