package cluster

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
)

// proposal is an entry given to raft whose fate is not known yet.
type proposal struct {
	number  uint64
	items   []queued        // publish entry: its batches in order, bytes still held so that they can be proposed again
	done    chan fsm.Result // other entries: gets the result; capacity 1
	future  raft.ApplyFuture
	started time.Time
}

// session is one term of this node's leadership as the proposer sees it: the entries it proposed and what became of
// them. An entry is settled exactly once, by whichever comes first: its apply, its future's error, or the sweep.
//
// raft answers futures in the order in which it took the entries, except those it never answers at all: entries that
// stand in one of its queues when it shuts down. So success is taken from the state machine's apply, errors from the
// futures, and the sweep settles the rest.
type session struct {
	id     uint64         // record.EntryHeader.Proposer: random, so that entries of other leaders are never taken for ours
	waits  chan *proposal // to the waiter, in order of proposal
	ended  chan struct{}  // closed when the session is over
	waited chan struct{}  // closed when the waiter has returned
	out    outcome

	mu struct {
		sync.Mutex
		accepting bool // the table holds all of the log before this leadership, and the leadership is not known to be lost
		ended     bool // swept: nothing is pending and nothing is ever again
		last      uint64
		pending   map[uint64]*proposal // Invariant: each is unsettled; keys <= last

		// returned are batches that raft refused, in order. They may be proposed again only if nothing later was executed,
		// else one connection's batches would change places. Invariant: empty, or every batch proposed after the first
		// of them is pending or was refused too.
		returned     []queued
		settled      uint64    // largest number that was applied
		refusedSince time.Time // first refusal because of a leadership transfer since the last apply, zero if none
		refusedLast  time.Time // newest of them
		free         [][]queued
	}
}

// outcome is what a session tells the proposer.
type outcome interface {
	complete(it queued, r fsm.Result)
	progress()
	wakeUp()
}

func newSession(id uint64, inflight int, out outcome) *session {
	s := &session{
		id: id, out: out,
		waits: make(chan *proposal, 4*inflight), ended: make(chan struct{}), waited: make(chan struct{}),
	}
	s.mu.pending = make(map[uint64]*proposal)
	go s.wait()
	return s
}

// open lets entries in.
func (s *session) open() {
	s.mu.Lock()
	s.mu.accepting = !s.mu.ended
	s.mu.Unlock()
	s.out.wakeUp()
}

func (s *session) accepting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.accepting
}

// load is how many entries are in raft, and whether refused ones wait for them to be settled.
func (s *session) load() (pending int, paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.pending), len(s.mu.returned) > 0
}

// itemSlice is an empty slice for a proposal's items, reused.
func (s *session) itemSlice() []queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.mu.free); n > 0 {
		items := s.mu.free[n-1]
		s.mu.free = s.mu.free[:n-1]
		return items
	}
	return nil
}

func (s *session) recycle(items []queued) {
	clear(items)
	s.mu.Lock()
	if len(s.mu.free) < 64 {
		s.mu.free = append(s.mu.free, items[:0])
	}
	s.mu.Unlock()
}

// nextNumber is the number of the next proposal.
func (s *session) nextNumber() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last++
	return s.mu.last
}

// register makes p pending. It is false when the session takes nothing any more.
func (s *session) register(p *proposal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.mu.accepting || s.mu.ended {
		return false
	}
	s.mu.pending[p.number] = p
	return true
}

// watch hands a proposal whose future is set to the waiter.
func (s *session) watch(p *proposal) {
	select {
	case s.waits <- p:
	case <-s.ended:
	}
}

// wait is the session's goroutine: it takes errors from futures. It ends with the session, or, if raft was shut down
// over a future, with the process.
func (s *session) wait() {
	defer close(s.waited)
	for {
		select {
		case p := <-s.waits:
			s.answered(p, p.future.Error())
		case <-s.ended:
			return
		}
	}
}

// refused tells whether an error of raft means that the entry was not and never will be executed.
func refused(err error) bool {
	return errors.Is(err, raft.ErrNotLeader) || errors.Is(err, raft.ErrLeadershipTransferInProgress) || errors.Is(err, raft.ErrEnqueueTimeout)
}

// answered settles p by its future. No error: the apply settles or has settled it.
func (s *session) answered(p *proposal, err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	_, mine := s.mu.pending[p.number]
	delete(s.mu.pending, p.number)
	again := mine && refused(err) && p.done == nil && s.mu.settled < p.number && !s.mu.ended
	var late []queued
	switch {
	case again:
		s.mu.returned = append(s.mu.returned, p.items...)
	case mine && !refused(err) && p.done == nil: // p may be in the log: what was refused before it would come out of order
		late, s.mu.returned = s.mu.returned, nil
	}
	if errors.Is(err, raft.ErrLeadershipTransferInProgress) {
		s.mu.refusedLast = time.Now()
		if s.mu.refusedSince.IsZero() {
			s.mu.refusedSince = s.mu.refusedLast
		}
	}
	s.mu.Unlock()
	s.unavailable(late)
	switch {
	case again:
		s.recycle(p.items)
	case mine && refused(err):
		s.settleAll(p, fsm.Unavailable)
	case mine:
		s.settleAll(p, fsm.Unknown)
	}
	s.out.wakeUp()
}

// applied settles the entry of h with the state machine's results: one per batch, or one.
func (s *session) applied(h record.EntryHeader, results []fsm.Result) {
	s.mu.Lock()
	p := s.mu.pending[h.Proposal]
	delete(s.mu.pending, h.Proposal)
	var late []queued
	if p != nil {
		s.mu.settled = max(s.mu.settled, p.number)
		s.mu.refusedSince, s.mu.refusedLast = time.Time{}, time.Time{}
		late, s.mu.returned = s.mu.returned, nil
	}
	s.mu.Unlock()
	if p == nil {
		return
	}
	s.unavailable(late) // refused before p, and p was executed: they would come out of order
	if p.done != nil {
		p.done <- results[0]
	} else {
		for i := range p.items {
			s.out.complete(p.items[i], results[i])
		}
		s.recycle(p.items)
	}
	s.out.progress()
	s.out.wakeUp()
}

// unavailable completes batches that were not executed and may not be proposed again.
func (s *session) unavailable(items []queued) {
	for _, it := range items {
		s.out.complete(it, fsm.Result{Code: fsm.Unavailable})
	}
}

// settleAll gives all of an entry one code.
func (s *session) settleAll(p *proposal, code fsm.Code) {
	if p.done != nil {
		p.done <- fsm.Result{Code: code}
		return
	}
	for _, it := range p.items {
		s.out.complete(it, fsm.Result{Code: code})
	}
	s.recycle(p.items)
}

// takeReturned gives back refused batches once nothing is pending.
func (s *session) takeReturned() []queued {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.pending) > 0 {
		return nil
	}
	items := s.mu.returned
	s.mu.returned = nil
	return items
}

// refusedFor is for how long raft was seen to refuse everything because of a leadership transfer, 0 if it was not.
func (s *session) refusedFor() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.refusedLast.Sub(s.mu.refusedSince)
}

// stop takes no more entries.
func (s *session) stop() {
	s.mu.Lock()
	s.mu.accepting = false
	s.mu.Unlock()
}

// drain waits until raft has answered for everything, at most for limit.
func (s *session) drain(limit time.Duration) bool {
	deadline := time.Now().Add(limit)
	for {
		if pending, _ := s.load(); pending == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(time.Millisecond)
	}
}

// sweep ends the session: what is still pending is Unknown. It returns the refused batches, which were not executed, and
// how many entries it swept.
func (s *session) sweep() (returned []queued, swept int) {
	s.mu.Lock()
	s.mu.accepting, s.mu.ended = false, true
	pending := s.mu.pending
	s.mu.pending = nil
	returned, s.mu.returned = s.mu.returned, nil
	s.mu.Unlock()
	close(s.ended)
	unknown := false
	for _, p := range pending {
		unknown = unknown || p.done == nil
		s.settleAll(p, fsm.Unknown)
	}
	if unknown { // futures are answered in order: all of these were refused before what may yet be executed
		s.unavailable(returned)
		returned = nil
	}
	return returned, len(pending)
}
