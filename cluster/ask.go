package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/fsm"
)

const (
	askTimeout = time.Second
	askResend  = 200 * time.Millisecond // questions travel by UDP: repeat until answered
	inboxSize  = 256                    // messages not yet looked at; more are dropped, as the network may drop them
	askWorkers = 16                     // questions answered at once
)

// Operations that a node asks of another.
const (
	askStatus     = "status"
	askBarrier    = "barrier"
	askCheckpoint = "checkpoint"
)

// ask is a question to another node. Asking twice is as asking once.
type ask struct {
	ID  uint64 `json:"i"` // random
	Op  string `json:"o"`
	Arg uint64 `json:"a,omitempty"`
}

// answer is a node's state when it answered, and the outcome of the question.
type answer struct {
	ID        uint64   `json:"i"`
	Code      fsm.Code `json:"k,omitempty"`
	Leader    bool     `json:"l,omitempty"`
	Applied   uint64   `json:"a"` // index of the last entry that its state machine applied
	Seq       uint64   `json:"s"`
	First     uint64   `json:"f"`
	Last      uint64   `json:"x"` // index and term of its last log entry
	LastTerm  uint64   `json:"t"`
	Commit    uint64   `json:"c"`
	ContactMS int64    `json:"m"` // since it heard of the leader; -1 never
	DiskLow   bool     `json:"d,omitempty"`
	Problem   string   `json:"p,omitempty"`

	Aside *AsideStatus `json:"e,omitempty"` // brief: it travels by UDP
}

// envelope is a message between nodes over gossip. One of Ask, Answer and Removed is set.
type envelope struct {
	From    string          `json:"f,omitempty"`
	Ask     *ask            `json:"q,omitempty"`
	Answer  *answer         `json:"r,omitempty"`
	Removed json.RawMessage `json:"x,omitempty"` // list of removed ids
}

func (e envelope) encode() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("cluster: encode a gossip message: %v", err)) // plain fields only
	}
	return b
}

// asks are the questions under way.
type asks struct {
	mu struct {
		sync.Mutex
		waiting map[uint64]question // asked by this node
		running map[uint64]struct{} // being answered by this node
	}
}

// question is one that was asked, and of whom: a new node at the address of one that is gone gets its questions and answers them, but not in its name.
type question struct {
	of     string
	answer chan answer // capacity 1
}

func (a *asks) init() {
	a.mu.waiting, a.mu.running = make(map[uint64]question), make(map[uint64]struct{})
}

// receive queues a message; full: it is dropped.
func (g *gossip) receive(b []byte) {
	select {
	case g.inbox <- b:
	default:
	}
}

// serve handles messages until ctx ends.
func (g *gossip) serve(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	slots := make(chan struct{}, askWorkers)
	for {
		var b []byte
		select {
		case <-ctx.Done():
			return
		case b = <-g.inbox:
		}
		var e envelope
		if err := json.Unmarshal(b, &e); err != nil {
			g.log.Debug("a gossip message is not understood", "error", err)
			continue
		}
		switch {
		case e.Ask != nil && g.asks.begin(e.Ask.ID):
			slots <- struct{}{}
			workers.Go(func() {
				defer func() { g.asks.end(e.Ask.ID); <-slots }()
				g.reply(e)
			})
		case e.Answer != nil:
			g.asks.answered(e.From, *e.Answer)
		case e.Removed != nil:
			g.learnRemoved(e.Removed)
		}
	}
}

func (a *asks) begin(id uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.mu.running[id]; ok {
		return false
	}
	a.mu.running[id] = struct{}{}
	return true
}

func (a *asks) end(id uint64) {
	a.mu.Lock()
	delete(a.mu.running, id)
	a.mu.Unlock()
}

func (a *asks) answered(by string, r answer) {
	a.mu.Lock()
	q, ok := a.mu.waiting[r.ID]
	if ok = ok && q.of == by; ok {
		delete(a.mu.waiting, r.ID)
	}
	a.mu.Unlock()
	if ok {
		q.answer <- r
	}
}

func (g *gossip) reply(e envelope) {
	r := g.answer(*e.Ask)
	r.ID = e.Ask.ID
	g.sendTo(e.From, envelope{Answer: &r})
}

func (g *gossip) sendTo(id string, e envelope) {
	m, ok := g.member(id)
	if !ok {
		return
	}
	e.From = g.self
	if err := g.list.SendBestEffort(&m.node, e.encode()); err != nil {
		g.log.Debug("send", "to", id, "error", err)
	}
}

// ask asks one node, repeating the question until that node has answered it or ctx ends.
func (g *gossip) ask(ctx context.Context, id string, q ask) (answer, error) {
	ch := make(chan answer, 1)
	q.ID = randomID()
	g.asks.mu.Lock()
	g.asks.mu.waiting[q.ID] = question{of: id, answer: ch}
	g.asks.mu.Unlock()
	defer func() {
		g.asks.mu.Lock()
		delete(g.asks.mu.waiting, q.ID)
		g.asks.mu.Unlock()
	}()
	t := time.NewTicker(askResend)
	defer t.Stop()
	for {
		g.sendTo(id, envelope{Ask: &q})
		select {
		case r := <-ch:
			return r, nil
		case <-ctx.Done():
			return answer{}, fmt.Errorf("node %s does not answer: %w", id, ctx.Err())
		case <-t.C:
		}
	}
}

// askAll asks several nodes for their status at once; who does not answer before ctx ends is missing.
func (g *gossip) askAll(ctx context.Context, ids []string) map[string]answer {
	var mu sync.Mutex
	var wg sync.WaitGroup
	answers := make(map[string]answer, len(ids))
	for _, id := range ids {
		if m, ok := g.member(id); !ok || !m.alive {
			continue
		}
		wg.Go(func() {
			if a, err := g.ask(ctx, id, ask{Op: askStatus}); err == nil {
				mu.Lock()
				answers[id] = a
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return answers
}

// learnRemoved remembers ids that an operator removed.
func (g *gossip) learnRemoved(b []byte) {
	var ids []string
	if err := json.Unmarshal(b, &ids); err != nil {
		g.log.Debug("a list of removed nodes is not understood", "error", err)
		return
	}
	if _, err := g.folder.addRemoved(ids...); err != nil {
		g.log.Error("cannot store the removed nodes", "error", err)
	}
	g.changed()
}

// tellRemoved tells all members of a removal at once; who misses it learns by the next full exchange.
func (g *gossip) tellRemoved(id string) {
	b, err := json.Marshal([]string{id})
	if err != nil {
		return
	}
	e := envelope{From: g.self, Removed: b}
	for _, m := range g.members() {
		if m.alive {
			if err := g.list.SendReliable(&m.node, e.encode()); err != nil {
				g.log.Debug("tell of a removal", "to", m.id, "error", err)
			}
		}
	}
}
