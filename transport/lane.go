package transport

import (
	"sync"
	"sync/atomic"

	"github.com/cantus-bus/cantus/tipstore"
)

// lane reads history for the subscriptions of a connection beside the pump, one read after the other in the order in which they
// were asked for: a read that waits for the disk keeps no live subscription waiting, and a connection has never more than one under
// way. While the pump writes what one read has found, the next is under way already.
//
// The pump asks; a goroutine that lives as long as there is something to read does it.
type lane struct {
	mu   sync.Mutex
	list []*subscription // Invariant: their fetches are under way, and busy
	busy bool            // the goroutine runs
	work sync.WaitGroup  // the goroutine
}

// fetch is one read of history. While it is under way, it and the subscription's reader are the lane's; else they are the pump's.
type fetch struct {
	view  *tipstore.View // nil: there is none
	limit tipstore.Limit
	calm  uint64 // what was known to be calm before
	err   error
	done  atomic.Bool
}

func (f *fetch) underWay() bool { return f.view != nil && !f.done.Load() }

// drop forgets what was fetched. The lane does not have it.
func (f *fetch) drop() {
	if f.view != nil {
		f.view.Release()
		f.view = nil
	}
}

// startFetch hands a subscription to the lane, which puts it back into the ready queue.
func (p *pump) startFetch(s *subscription, calm uint64) {
	f := &s.fetch
	f.view, f.limit, f.calm = p.out.view(), p.limit(s), calm
	f.done.Store(false)
	p.c.lane.add(s)
}

// serveFetched sends what was read. It does not go to sleep after that: a wake that came meanwhile is used up.
func (p *pump) serveFetched(s *subscription) {
	f := &s.fetch
	v := f.view
	f.view = nil
	if !p.send(s, v, f.calm, f.err) {
		return
	}
	s.quiet = false
	if s.credit.Load() > 0 && s.reader.Slow() {
		p.startFetch(s, s.arm())
		return
	}
	p.c.ready.push(s)
}

func (l *lane) add(s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, s)
	if !l.busy {
		l.busy = true
		l.work.Go(l.run)
	}
}

// run reads until there is nothing to read.
func (l *lane) run() {
	for s := l.next(); s != nil; s = l.next() {
		f := &s.fetch
		f.err = s.reader.Read(f.view, f.limit)
		f.done.Store(true)
		s.wake()
	}
}

func (l *lane) next() (s *subscription) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) == 0 {
		l.busy = false
		return nil
	}
	s = l.list[0]
	copy(l.list, l.list[1:])
	l.list[len(l.list)-1] = nil
	l.list = l.list[:len(l.list)-1]
	return s
}

// stop gives all subscriptions back, when the read that is under way has ended. Nobody may call add any more.
func (l *lane) stop() {
	l.mu.Lock()
	clear(l.list)
	l.list = l.list[:0]
	l.mu.Unlock()
	l.work.Wait()
}
