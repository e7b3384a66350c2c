package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
)

const (
	linkHeartbeat  = time.Second
	linkDead       = 5 * linkHeartbeat // nothing heard for so long: the leader is gone
	linkWriteLimit = 10 * time.Second  // a write that takes longer breaks the link
	linkBuffer     = 1 << 20           // bytes not yet handed to the connection; more stay in the proposer's queue
	linkNames      = 512               // names in one frame of topic definitions
)

// outbox is where a link's items come from and go back to.
type outbox interface {
	outcome
	putBack(items []queued)
}

// sent is a request that waits for its answer.
type sent struct {
	item  queued
	opens chan fsm.Result // a producer's opening; nil: item is meant
	start uint64          // offset of its frame in all bytes of the link
}

// link is a connection to the leader as its client, in the role of a peer: it carries this node's batches. It numbers
// topics by aliases of its own. It is used until the leader changes or the connection breaks; then what was not handed
// to the connection goes back to the proposer, in order, and what was is Unknown.
type link struct {
	leader string // node id
	conn   net.Conn
	table  *topic.Table
	box    outbox
	kick   chan struct{} // capacity 1: buf has bytes, or the link is closed
	done   chan struct{} // closed when the link is
	over   chan struct{} // closed when all that waited is settled or back in the queue
	loops  sync.WaitGroup

	mu struct {
		sync.Mutex
		buf     []byte // frames not yet handed to the connection
		handed  uint64 // offset of buf's start in all bytes of the link
		waiting map[uint32]sent
		lastID  uint32
		acked   uint32 // largest id that was answered with anything but "not leader"

		// returned are batches that the other side refused as it does not lead, by request id. Like session.returned they
		// go back only if nothing later was executed.
		returned map[uint32]queued

		stale  bool // sends nothing new: the other side does not lead, or leaves
		closed bool
		byID   []uint32 // by topic id: alias + 1, 0 if none
		byName map[string]uint32
		next   uint32 // first alias not in use
		names  []string
		batch  []byte // scratch
	}
}

// dialLink connects and greets. ctx bounds only that.
func dialLink(ctx context.Context, addr string, hello wire.Hello, leader string, table *topic.Table, box outbox) (*link, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	l := &link{leader: leader, conn: conn, table: table, box: box, kick: make(chan struct{}, 1), done: make(chan struct{}), over: make(chan struct{})}
	l.mu.waiting, l.mu.returned, l.mu.byName = make(map[uint32]sent), make(map[uint32]queued), make(map[string]uint32)
	r := wire.NewReader(conn, wire.MaxFrame)
	if err := l.greet(ctx, r, hello); err != nil {
		return nil, errors.Join(fmt.Errorf("greet the leader at %s: %w", addr, err), conn.Close())
	}
	l.loops.Add(2)
	go l.write()
	go l.read(r)
	return l, nil
}

// greet sends HELLO and checks WELCOME.
func (l *link) greet(ctx context.Context, r *wire.Reader, hello wire.Hello) error {
	if deadline, ok := ctx.Deadline(); ok {
		_ = l.conn.SetDeadline(deadline)
		defer func() { _ = l.conn.SetDeadline(time.Time{}) }()
	}
	if _, err := l.conn.Write(wire.AppendHello(nil, &hello)); err != nil {
		return err
	}
	f, err := r.Next()
	if err != nil {
		return err
	}
	if f.Type == wire.TError {
		e, err := wire.DecodeError(f.Body)
		if err != nil {
			return err
		}
		return &e
	}
	if f.Type != wire.TWelcome {
		return fmt.Errorf("answered with %v", f.Type)
	}
	w, err := wire.DecodeWelcome(f.Body)
	if err == nil && w.NodeID != l.leader {
		err = fmt.Errorf("it is node %s, not %s", w.NodeID, l.leader)
	}
	return err
}

// publish takes an item to be sent. It is false if the link cannot take it now; then the item is still the caller's.
func (l *link) publish(it queued) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed || l.mu.stale || len(l.mu.buf) >= linkBuffer {
		return false
	}
	b, ok := l.rewriteLocked(it.s)
	if !ok {
		l.box.complete(it, fsm.Result{Code: fsm.Invalid})
		return true
	}
	l.defineLocked()
	start := l.mu.handed + uint64(len(l.mu.buf))
	l.mu.lastID++
	l.mu.waiting[l.mu.lastID] = sent{item: it, start: start}
	l.mu.buf = wire.AppendPublish(l.mu.buf, l.mu.lastID, b)
	l.signal()
	return true
}

func (l *link) signal() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// rewriteLocked copies a batch with this link's aliases for topics. It is false if a topic number means nothing.
func (l *link) rewriteLocked(s *Submission) (record.Batch, bool) {
	l.mu.batch = append(l.mu.batch[:0], s.Batch...)
	b := record.Batch(l.mu.batch)
	for i := range b.Header().Preconditions {
		a, ok := l.aliasLocked(b.Precondition(i).Topic, s.Names)
		if !ok {
			return nil, false
		}
		b.SetPreconditionTopic(i, a)
	}
	for run := b.Records(); len(run) > 0; run = run[record.Scan(run):] {
		a, ok := l.aliasLocked(record.Record(run).Topic(), s.Names)
		if !ok {
			return nil, false
		}
		record.SetTopic(run, a)
	}
	return b, true
}

// aliasLocked is the link's alias of a topic number, made if there is none.
func (l *link) aliasLocked(t uint32, names []string) (uint32, bool) {
	if t >= record.NewTopic {
		if t-record.NewTopic >= uint32(len(names)) {
			return 0, false
		}
		return l.aliasOfNameLocked(names[t-record.NewTopic]), true
	}
	if t == 0 || t >= uint32(l.table.Nodes()) {
		return 0, false
	}
	if t >= uint32(len(l.mu.byID)) {
		l.mu.byID = append(l.mu.byID, make([]uint32, l.table.Nodes()-len(l.mu.byID))...)
	}
	if a := l.mu.byID[t]; a != 0 {
		return a - 1, true
	}
	a := l.aliasOfNameLocked(l.table.Name(topic.ID(t)))
	l.mu.byID[t] = a + 1
	return a, true
}

func (l *link) aliasOfNameLocked(name string) uint32 {
	if a, ok := l.mu.byName[name]; ok {
		return a
	}
	a := l.mu.next
	l.mu.next++
	l.mu.byName[name] = a
	l.mu.names = append(l.mu.names, name)
	return a
}

// defineLocked announces new aliases before the first frame that uses them.
func (l *link) defineLocked() {
	first := l.mu.next - uint32(len(l.mu.names))
	for names := l.mu.names; len(names) > 0; {
		n := min(len(names), linkNames)
		l.mu.buf = wire.AppendDefineTopics(l.mu.buf, &wire.DefineTopics{FirstAlias: first, Names: names[:n]})
		first, names = first+uint32(n), names[n:]
	}
	l.mu.names = l.mu.names[:0]
}

// openProducer asks the leader to open a producer.
func (l *link) openProducer(ctx context.Context, id record.ProducerID) (fsm.Result, error) {
	done := make(chan fsm.Result, 1)
	l.mu.Lock()
	if l.mu.closed || l.mu.stale {
		l.mu.Unlock()
		return fsm.Result{Code: fsm.Unavailable}, nil
	}
	l.mu.lastID++
	l.mu.waiting[l.mu.lastID] = sent{opens: done, start: l.mu.handed + uint64(len(l.mu.buf))}
	l.mu.buf = wire.AppendOpenProducer(l.mu.buf, l.mu.lastID, wire.OpenProducer{ID: id})
	l.signal()
	l.mu.Unlock()
	select {
	case r := <-done:
		return r, nil
	case <-ctx.Done():
		return fsm.Result{}, ctx.Err()
	}
}

// retire lets what is under way end, at most for limit, and closes the link. Then all is settled or back in the queue. Any
// goroutine but the link's own.
func (l *link) retire(limit time.Duration) {
	l.markStale()
	l.awaitAnswers(limit)
	l.close()
	<-l.over
	l.loops.Wait()
}

// awaitAnswers waits until nothing is outstanding, the link is closed, or limit is over.
func (l *link) awaitAnswers(limit time.Duration) {
	t := time.NewTimer(limit)
	defer t.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for l.outstanding() > 0 {
		select {
		case <-tick.C:
		case <-l.done:
			return
		case <-t.C:
			return
		}
	}
}

func (l *link) markStale() {
	l.mu.Lock()
	l.mu.stale = true
	l.mu.Unlock()
}

func (l *link) outstanding() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.waiting)
}

// close ends the link and settles all that waits.
func (l *link) close() {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return
	}
	l.mu.closed = true
	waiting, returned, handed := l.mu.waiting, l.mu.returned, l.mu.handed
	l.mu.waiting, l.mu.returned = nil, nil
	l.mu.Unlock()
	_ = l.conn.Close()
	close(l.done)
	l.signal()
	unknown := uint32(0) // largest id that may be executed
	for id, w := range waiting {
		switch {
		case w.opens != nil:
			w.opens <- fsm.Result{Code: unsent(w.start >= handed)}
		case w.start >= handed:
			returned[id] = w.item
		default:
			unknown = max(unknown, id)
			l.box.complete(w.item, fsm.Result{Code: fsm.Unknown})
		}
	}
	for _, it := range takeBefore(returned, unknown) { // they would come out of order
		l.box.complete(it, fsm.Result{Code: fsm.Unavailable})
	}
	l.box.putBack(inOrder(returned))
	l.box.wakeUp()
	close(l.over)
}

func unsent(yes bool) fsm.Code {
	if yes {
		return fsm.Unavailable
	}
	return fsm.Unknown
}

// inOrder lists items by request id.
func inOrder(m map[uint32]queued) []queued {
	ids := make([]uint32, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, cmp.Compare)
	items := make([]queued, 0, len(m))
	for _, id := range ids {
		items = append(items, m[id])
	}
	return items
}
