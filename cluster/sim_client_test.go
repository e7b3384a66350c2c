package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/internal/wire"
	trace "github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/tipstore"
)

// simPadding makes payloads of so many bytes longer, so that a run has more than a tip holds.
const simPadding = 100

var simTopics = []string{"app/a", "app/b", "app/b/c", "other/x"}

// simPublisher is a client with one idempotent producer that retries as the real one does: the same bytes under the same
// number, at any node, until an answer is final.
type simPublisher struct {
	c      *simCluster
	id     record.ProducerID
	name   string
	rng    *rand.Rand
	epoch  uint32 // 0: must be opened
	number uint64 // of the next message
}

func (c *simCluster) newPublisher(i int, seed uint64) *simPublisher {
	p := &simPublisher{c: c, name: fmt.Sprintf("p%d", i), rng: rand.New(rand.NewPCG(seed, uint64(100+i)))}
	binary.LittleEndian.PutUint64(p.id[:], uint64(i+1))
	return p
}

// target is a node to talk to: mostly the leader, sometimes any.
func (p *simPublisher) target() *simProcess {
	if n := p.c.leader(); n != nil && p.rng.IntN(5) > 0 {
		return n.process()
	}
	return p.c.nodes[p.rng.IntN(len(p.c.nodes))].process()
}

// run publishes until ctx ends.
func (p *simPublisher) run(ctx context.Context) {
	for ctx.Err() == nil {
		if p.epoch == 0 && !p.open(ctx) {
			continue
		}
		e := &trace.Publish{}
		for range 1 + max(0, p.rng.IntN(5)-2) {
			e.Messages = append(e.Messages, trace.Sent{ID: p.c.nextID(), Topic: simTopics[p.rng.IntN(len(simTopics))]})
		}
		p.publish(ctx, e)
		sleepSim(ctx, time.Duration(p.rng.Int64N(int64(60*time.Millisecond))))
	}
}

func sleepSim(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (p *simPublisher) open(ctx context.Context) bool {
	proc := p.target()
	if proc == nil {
		sleepSim(ctx, 100*time.Millisecond)
		return false
	}
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r, err := proc.node.OpenProducer(limited, p.id)
	if err != nil || r.Code != fsm.OK {
		sleepSim(ctx, 100*time.Millisecond)
		return false
	}
	p.epoch, p.number = r.Epoch, r.LastNumber+1
	return true
}

// publish makes a call of e's messages and records it. A call whose fate stays unknown ends the epoch.
func (p *simPublisher) publish(ctx context.Context, e *trace.Publish) {
	e.Producer, e.Epoch, e.Number, e.Invoke = p.name, p.epoch, p.number, p.c.now()
	e.Atomic = len(e.Messages) > 1
	deadline := time.Now().Add(time.Second + time.Duration(p.rng.Int64N(int64(15*time.Second))))
	attempts, tried := context.WithDeadline(ctx, deadline)
	defer tried()
	unknown := false
	for {
		r, sent := p.submit(attempts, e)
		switch {
		case sent && (r.Code == fsm.OK || r.Code == fsm.Duplicate):
			e.Outcome, e.FirstSeq, e.Time, e.Duplicate = trace.OK, r.FirstSeq, r.Time, r.Code == fsm.Duplicate
		case sent && r.Code == fsm.PreconditionFailed: // had a former attempt published, this were a duplicate
			e.Outcome, e.Code = trace.Refused, r.Code.String()
			e.Failed, e.FailedIndex, e.FailedSeq = true, int(r.Index), r.Detail
		case sent && r.Code < fsm.NotLeader:
			e.Outcome, e.Code = trace.Refused, r.Code.String()
			if unknown || r.Code == fsm.Settled {
				e.Outcome = trace.Unknown
			}
			p.epoch = 0
		case attempts.Err() != nil:
			e.Outcome, p.epoch = trace.Refused, 0
			if unknown = unknown || sent && r.Code == fsm.Unknown; unknown {
				e.Outcome = trace.Unknown
			}
		default:
			unknown = unknown || sent && r.Code == fsm.Unknown
			sleepSim(attempts, time.Duration(p.rng.Int64N(int64(100*time.Millisecond))))
			continue
		}
		break
	}
	p.number += uint64(len(e.Messages))
	e.Return = p.c.now()
	p.c.record(e)
}

// submit sends a batch to some node and waits for the result. Not sent: it was certainly not executed. An answer that a
// crash has cut off is Unknown.
func (p *simPublisher) submit(ctx context.Context, e *trace.Publish) (r fsm.Result, sent bool) {
	proc := p.target()
	if proc == nil {
		return r, false
	}
	var b record.BatchBuilder
	var pre []record.Precondition
	for _, c := range e.Pre {
		pre = append(pre, record.Precondition{Topic: record.NewTopic | uint32(slices.IndexFunc(e.Messages, func(m trace.Sent) bool { return m.Topic == c.Topic })), LastSeq: c.LastSeq})
	}
	b.Reset(nil, pre)
	s := &Submission{}
	for i, m := range e.Messages {
		s.Names = append(s.Names, m.Topic)
		if err := b.Add(record.NewTopic|uint32(i), nil, trace.AppendPayload(nil, m.ID, m.Value, simPadding)); err != nil {
			p.c.t.Error(err)
		}
	}
	s.Batch = b.Finish(p.id, e.Epoch, e.Number, e.Atomic)
	done := make(chan fsm.Result, 1)
	s.Complete = func(_ *Submission, r fsm.Result) { done <- r }
	if proc.node.Submit(ctx, s) != nil {
		return r, false
	}
	lost := fsm.Result{Code: fsm.Unknown}
	select {
	case r = <-done:
	case <-proc.dead:
		return lost, true
	case <-ctx.Done():
		return lost, true
	}
	select {
	case <-proc.dead:
		return lost, true
	default:
		return r, true
	}
}

// simReader is a subscription that moves from node to node.
type simReader struct {
	c       *simCluster
	id      int
	filters topic.Filters
	rng     *rand.Rand
	opened  bool
	caught  bool
	once    bool // reads what there is and ends
	head    uint64
	after   atomic.Uint64 // everything that matches up to here was read
	prev    uint64
}

func (c *simCluster) newReader(id int, seed uint64, filters ...string) *simReader {
	fs, err := topic.ParseFilters(filters)
	if err != nil {
		c.t.Fatal(err)
	}
	return &simReader{c: c, id: id, filters: fs, rng: rand.New(rand.NewPCG(seed, uint64(200+id)))}
}

// run reads until ctx ends, a while on each node.
func (r *simReader) run(ctx context.Context) {
	for ctx.Err() == nil {
		n := r.c.nodes[r.rng.IntN(len(r.c.nodes))]
		proc := n.hold()
		if proc == nil {
			sleepSim(ctx, 50*time.Millisecond)
			continue
		}
		stay, leave := context.WithTimeout(ctx, time.Duration(r.rng.Int64N(int64(10*time.Second))))
		r.visit(stay, n, proc)
		leave()
		proc.readers.Done()
		select {
		case <-r.c.quiet:
			sleepSim(ctx, simPause)
		default:
		}
	}
}

// scan reads all from the beginning, again and again as a new reader, on one node each time: so history is read.
func (c *simCluster) scan(ctx context.Context, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 400))
	for id := 100; ; id++ {
		sleepSim(ctx, time.Duration(rng.Int64N(int64(2*time.Second))))
		if ctx.Err() != nil {
			return
		}
		n := c.nodes[rng.IntN(len(c.nodes))]
		proc := n.hold()
		if proc == nil {
			continue
		}
		r := c.newReader(id, seed, []string{"**", "app/**", "reg/a"}[rng.IntN(3)])
		r.once = true
		limited, cancel := context.WithTimeout(ctx, time.Second)
		r.visit(limited, n, proc)
		cancel()
		proc.readers.Done()
		if r.opened {
			c.record(&trace.ReaderEnded{At: c.now(), Reader: id, Position: r.after.Load()})
		}
	}
}

// visit reads from one node until ctx ends or the node does.
func (r *simReader) visit(ctx context.Context, n *simNode, proc *simProcess) {
	arrived, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	go func() {
		select {
		case <-proc.dead:
			cancel()
		case <-arrived.Done():
		}
	}()
	if proc.node.WaitSeq(arrived, max(r.after.Load(), r.headBefore())) != nil {
		return
	}
	wake := make(chan struct{}, 1)
	rd, err := proc.node.Stream().OpenReader(ReaderOptions{Filters: r.filters, Start: wire.StartSeq, Value: r.after.Load() + 1, Wake: func() { kick(wake) }})
	if err != nil {
		r.c.wrong("reader %d on %s after %d: %v", r.id, n.name, r.after.Load(), err)
		return
	}
	defer rd.Close()
	if !r.opened {
		r.opened, r.head = true, rd.Head()
		var filters []string
		for _, f := range r.filters {
			filters = append(filters, f.String())
		}
		r.c.record(&trace.ReaderOpened{At: r.c.now(), Reader: r.id, Node: n.name, Filters: filters, Start: trace.StartFirst, Base: r.after.Load(), Head: r.head})
	} else {
		r.c.record(&trace.ReaderResumed{At: r.c.now(), Reader: r.id, Node: n.name, After: r.after.Load(), Prev: r.prev})
	}
	for ctx.Err() == nil {
		rd.Arm()
		more, err := r.read(rd, proc.node.Stream())
		if err != nil {
			r.c.wrong("reader %d on %s after %d: %v", r.id, n.name, r.after.Load(), err)
			return
		}
		if more {
			continue
		}
		if r.once && r.caught {
			return
		}
		select {
		case <-wake:
		case <-r.c.quiet:
			r.mustHaveAll(rd, n, proc)
			return
		case <-proc.dead:
			return
		case <-ctx.Done():
		}
	}
}

// mustHaveAll reads once more, when nothing has come for a while, what the reader should have been woken for. Only its position
// may move: the reader is not told of what it did not ask for.
func (r *simReader) mustHaveAll(rd *Reader, n *simNode, proc *simProcess) {
	had := r.prev
	if _, err := r.read(rd, proc.node.Stream()); err != nil || r.prev != had {
		r.c.wrong("reader %d on %s after %d was not woken for %d: %v", r.id, n.name, had, r.prev, err)
	}
}

// headBefore is what a node must have before this reader may be told by it that it has caught up.
func (r *simReader) headBefore() uint64 {
	if r.opened && !r.caught {
		return r.head
	}
	return 0
}

// read takes what there is. There is more as long as the position is below what could be read when it began: a node that replays its log
// gives nothing of a file of history that reaches beyond that, and wakes nobody when it can.
func (r *simReader) read(rd *Reader, s *Stream) (more bool, err error) {
	var v tipstore.View
	_, fence := s.Tip().Bounds()
	if err := rd.Read(&v, tipstore.Limit{Bytes: 4 << 10}); err != nil {
		return false, err
	}
	defer v.Release()
	for _, part := range v.Parts {
		for len(part) > 0 {
			rec, rest, err := record.Next(part)
			if err != nil {
				return false, err
			}
			part = rest
			id, _, err := trace.ParsePayload(rec.Payload())
			if err != nil && !errors.Is(err, trace.ErrPayload) {
				return false, err
			}
			d := &trace.Delivery{At: r.c.now(), Reader: r.id, Seq: rec.Seq(), Topic: s.Table().Name(topic.ID(rec.Topic())), ID: id, Time: rec.Time()}
			r.c.record(d)
			r.prev = d.Seq
		}
	}
	if at := rd.Position(); at > r.after.Load() {
		r.after.Store(at)
		r.c.record(&trace.Progress{At: r.c.now(), Reader: r.id, Seq: at})
	}
	if !r.caught && r.after.Load() >= r.head {
		r.caught = true
		r.c.record(&trace.CaughtUp{At: r.c.now(), Reader: r.id, Head: r.head})
	}
	return rd.Position() < fence, nil
}
