package workload

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

const (
	registers        = 6
	registerClients  = 6
	registerOpsPer   = 25 // a second and client, at most: the check is exponential in what is concurrent
	registerReadWait = 3 * time.Second
	callLimit        = 8 * time.Second
)

func registerTopics() []string {
	topics := make([]string, registers)
	for i := range topics {
		topics[i] = fmt.Sprintf("register/%d", i)
	}
	return topics
}

func registerWorkload() Workload {
	return Workload{
		Name:   "register",
		About:  "registers that are written, read and compared-and-set; porcupine checks that they are linearizable",
		Header: func(h *history.Header) { h.Linearizable = []string{"register/**"} },
		Start: func(_ context.Context, w *World) error {
			topics := w.use(registerTopics())
			for range registerClients {
				w.addCaller(func(a *caller) { a.registers(topics) })
			}
			for _, n := range w.Cluster.Voters() {
				w.addReader(reader{pin: n, filters: []string{"**"}, from: fromFirst})
			}
			return nil
		},
	}
}

// caller makes calls one at a time, each of which waits for its outcome.
type caller struct {
	w       *World
	r       *rand.Rand
	process int
	client  *client.Client
	out     *client.Producer // replaced after a failure
	number  uint64           // of out's last message
}

// addCaller starts a goroutine that calls until publishing ends.
func (w *World) addCaller(run func(*caller)) {
	a := &caller{w: w, process: w.process()}
	a.r = w.source(fmt.Sprint("caller", a.process))
	w.publishers.Go(func() {
		c, err := w.connect(w.publish, a.r, nil)
		if err != nil {
			return
		}
		a.client = c
		run(a)
		if a.out != nil {
			ctx, cancel := context.WithTimeout(context.Background(), callLimit)
			defer cancel()
			_ = a.out.Close(ctx) // every call has its outcome
		}
		_ = c.Close()
	})
}

// producer opens one if there is none.
func (a *caller) producer() (*client.Producer, error) {
	if a.out != nil {
		return a.out, nil
	}
	p, err := a.client.Producer(a.w.publish, client.ProducerOptions{RetryTimeout: callLimit})
	if err != nil {
		return nil, err
	}
	a.out, a.number = p, 0
	return p, nil
}

// registers calls at random.
func (a *caller) registers(topics []string) {
	for pause.For(a.w.publish, time.Duration(a.r.Int64N(int64(2*time.Second/registerOpsPer)))) {
		topic := topics[a.r.IntN(len(topics))]
		switch a.r.IntN(4) {
		case 0:
			a.publish([]history.Sent{{Topic: topic, Value: a.r.Int64N(1000)}}, nil)
		case 1, 2:
			a.last(topic, client.Linearizable())
		case 3:
			if m, ok := a.last(topic, client.Linearizable()); ok {
				a.publish([]history.Sent{{Topic: topic, Value: a.r.Int64N(1000)}}, []history.Precondition{{Topic: topic, LastSeq: m.Seq}})
			}
		}
	}
}

// last reads the last message of a topic; a topic without one has seq 0. ok: the read was answered.
func (a *caller) last(topic string, how ...client.GetOption) (found history.Found, ok bool) {
	e := &history.Read{Process: a.process, Op: history.ReadLast, Topic: topic, Lin: len(how) > 0, Invoke: a.w.Record.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), registerReadWait)
	defer cancel()
	m, err := a.client.Get(ctx, topic, append(how, client.MaxWait(registerReadWait))...)
	if ok = err == nil || errors.Is(err, client.ErrNotFound); err == nil {
		found = asFound(m)
		e.Found = []history.Found{found}
	}
	a.finish(e, ok, err)
	return found, ok
}

// asFound is a message as a read found it; the id is 0 if the payload is not ours.
func asFound(m client.Message) history.Found {
	id, value, _ := history.ParsePayload(m.Payload)
	return history.Found{Seq: m.Seq, Topic: m.Topic, ID: id, Value: value}
}

// finish records a read.
func (a *caller) finish(e *history.Read, ok bool, err error) {
	e.Return, e.Outcome = a.w.Record.Now(), history.OK
	if !ok {
		e.Outcome, e.Code = history.Refused, err.Error()
	}
	a.w.Record.Write(e)
}

// publish publishes one batch, atomically if it has preconditions or several messages, and waits. ok: it is published.
func (a *caller) publish(messages []history.Sent, pre []history.Precondition) (firstSeq uint64, ok bool) {
	p, err := a.producer()
	if err != nil {
		return 0, false
	}
	e := &history.Publish{
		Process: a.process, Producer: fmt.Sprint(p.ID()), Epoch: p.Epoch(), Number: a.number + 1,
		Atomic: true, Messages: messages, Pre: pre,
	}
	out, conditions := make([]client.Outgoing, len(messages)), make([]client.Precondition, len(pre))
	for i := range messages {
		messages[i].ID = a.w.Record.NextID()
		out[i] = client.Outgoing{Topic: messages[i].Topic, Payload: history.AppendPayload(nil, messages[i].ID, messages[i].Value, history.MinPayload)}
	}
	for i, c := range pre {
		conditions[i] = client.Precondition{Topic: c.Topic, LastSeq: c.LastSeq}
	}
	a.number += uint64(len(messages))
	e.Invoke = a.w.Record.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit+time.Second)
	defer cancel()
	seq, err := p.PublishAtomic(ctx, out, conditions)
	if err == nil {
		a.w.raise(seq + uint64(len(messages)) - 1)
		a.w.settle(e, client.Ack{Seq: seq}, nil)
		return seq, true
	}
	o := outcome(err)
	a.w.settleAs(e, o, err)
	if o == history.Unknown || !errors.Is(err, client.ErrPreconditionFailed) {
		a.out = nil
		_ = p.Close(ctx) // the one call that it had has its outcome
	}
	return 0, false
}
