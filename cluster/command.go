package cluster

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/internal/record"
)

// command is an entry of one of the small kinds on its way into the log.
type command struct {
	kind record.Kind
	body []byte
	done chan fsm.Result // capacity 1; gets exactly one result
}

// command queues a small entry and returns where its result comes.
func (p *proposer) command(k record.Kind, body []byte) <-chan fsm.Result {
	c := &command{kind: k, body: body, done: make(chan fsm.Result, 1)}
	p.mu.Lock()
	full := p.mu.closed || len(p.mu.commands) >= maxCommands
	if !full {
		p.mu.commands = append(p.mu.commands, c)
	}
	p.mu.Unlock()
	if full {
		c.done <- fsm.Result{Code: fsm.Unavailable}
	}
	p.wakeUp()
	return c.done
}

func (p *proposer) nextCommand() *command {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.commands) == 0 {
		return nil
	}
	c := p.mu.commands[0]
	p.mu.commands = p.mu.commands[1:]
	return c
}

func (p *proposer) proposeCommand(sess *session, c *command) {
	prop := &proposal{number: sess.nextNumber(), done: c.done}
	p.propose(sess, prop, record.EncodeEntry(p.header(sess, prop, c.kind), c.body))
}

// refuseCommands answers commands that came while this node does not lead.
func (p *proposer) refuseCommands() {
	for c := p.nextCommand(); c != nil; c = p.nextCommand() {
		c.done <- fsm.Result{Code: fsm.NotLeader}
	}
}

// retryable: not executed, and a moment later it may be.
func retryable(c fsm.Code) bool { return c == fsm.NotLeader || c == fsm.Unavailable }

// command proposes a small entry if this node leads and waits for its result. The error is ctx's.
func (n *Node) command(ctx context.Context, k record.Kind, body []byte) (fsm.Result, error) {
	select {
	case r := <-n.proposer.command(k, body):
		return r, nil
	case <-ctx.Done():
		return fsm.Result{}, ctx.Err()
	}
}

// OpenProducer opens a producer through the log, here or by way of the leader, trying for PublishWait. An opened
// producer whose answer was lost (Unknown) has a newer epoch; opening it again is safe.
func (n *Node) OpenProducer(ctx context.Context, id record.ProducerID) (fsm.Result, error) {
	deadline := time.Now().Add(n.opts.PublishWait)
	for wait := retryRefused; ; wait = longer(wait) {
		if n.closed() {
			return fsm.Result{}, ErrClosed
		}
		r, err := n.openProducerOnce(ctx, id)
		if err != nil || !retryable(r.Code) || time.Now().After(deadline) {
			return r, err
		}
		select {
		case <-ctx.Done():
			return fsm.Result{}, ctx.Err()
		case <-time.After(wait):
		}
	}
}

// retryLeader bounds the time between two attempts at what needs a leader.
const retryLeader = 200 * time.Millisecond

// longer is the pause after a pause: up to twice as long, at random, since thousands of requests may wait for the same election.
func longer(wait time.Duration) time.Duration { return min(wait+rand.N(wait+1), retryLeader) }

func (n *Node) openProducerOnce(ctx context.Context, id record.ProducerID) (fsm.Result, error) {
	if n.proposer.session() != nil {
		return n.command(ctx, record.KindOpenProducer, fsm.OpenProducerBody(id))
	}
	if l := n.currentLink(); l != nil {
		return l.openProducer(ctx, id)
	}
	return fsm.Result{Code: fsm.Unavailable}, nil
}

// expireProducers is the leader's: at each interval it forgets the producers whose lease has passed, by the log's own
// time, so that a clock that jumps ahead forgets nobody.
func (n *Node) expireProducers(ctx context.Context) {
	for pause.For(ctx, n.opts.ExpireInterval) {
		m := n.stream.Machine()
		cutoff := m.LastTime() - m.Config().ProducerLease
		if cutoff <= 0 || m.Producers() == 0 {
			continue
		}
		r, err := n.command(ctx, record.KindExpireProducers, fsm.ExpireBody(cutoff))
		if err == nil && r.Code == fsm.OK && r.Detail > 0 {
			n.log.Info("forgot producers whose lease has passed", "producers", r.Detail)
		}
	}
}
