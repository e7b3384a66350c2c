package cluster

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	trace "github.com/cantus-bus/cantus/jepsen/history"
)

var simRegisters = []string{"reg/a", "reg/b"}

// simRegister is a client that reads registers linearizably, at any node, and writes them on condition that they are what it
// read.
type simRegister struct {
	p   *simPublisher
	rng *rand.Rand
}

func (r *simRegister) run(ctx context.Context) {
	for ctx.Err() == nil {
		sleepSim(ctx, time.Duration(r.rng.Int64N(int64(300*time.Millisecond))))
		name := simRegisters[r.rng.IntN(len(simRegisters))]
		last, ok := r.read(ctx, name)
		if !ok || r.rng.IntN(2) == 0 || r.p.epoch == 0 && !r.p.open(ctx) {
			continue
		}
		e := &trace.Publish{Messages: []trace.Sent{{ID: r.p.c.nextID(), Topic: name}}}
		e.Pre = []trace.Precondition{{Topic: name, LastSeq: last}}
		r.p.publish(ctx, e)
	}
}

// read reads a register and records it. False: it got no answer.
func (r *simRegister) read(ctx context.Context, name string) (seq uint64, ok bool) {
	c := r.p.c
	proc := c.nodes[r.rng.IntN(len(c.nodes))].hold()
	if proc == nil {
		return 0, false
	}
	defer proc.readers.Done()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	e := &trace.Read{Op: trace.ReadLast, Topic: name, Lin: true, Invoke: c.now(), Outcome: trace.OK}
	err := proc.node.Barrier(ctx)
	var m Message
	if err == nil {
		m, err = proc.node.Stream().Last(ctx, name, 0)
	}
	e.Return = c.now()
	switch {
	case err == nil:
		id, value, _ := trace.ParsePayload(m.Record.Payload())
		seq = m.Record.Seq()
		e.Found = []trace.Found{{Seq: seq, Topic: m.Topic, ID: id, Value: value}}
	case errors.Is(err, ErrNoMessage):
	default:
		e.Outcome, e.Code = trace.Refused, err.Error()
	}
	c.record(e)
	return seq, e.Outcome == trace.OK
}
