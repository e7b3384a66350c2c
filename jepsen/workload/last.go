package workload

import (
	"context"
	"errors"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

const lastPause = 15 * time.Millisecond // between two reads of a client, on average

func lastWorkload() Workload {
	return Workload{
		Name:  "last-value",
		About: "point reads beside a stream: last of a topic, last of each, as of a seq, by seq, fresh and stale",
		Start: func(_ context.Context, w *World) error {
			topics := w.use(tree(w.source("topics"), "last", 80))
			w.addPublishers(3, publisher{topics: topics, size: 80})
			for range 4 {
				w.addCaller(func(a *caller) { a.points(topics) })
			}
			for _, n := range w.Cluster.Voters() {
				w.addReader(reader{pin: n, filters: []string{"**"}, from: fromFirst})
			}
			return nil
		},
	}
}

// points reads single messages in every way.
func (a *caller) points(topics []string) {
	for pause.For(a.w.publish, time.Duration(a.r.Int64N(int64(2*lastPause)))) {
		topic, head := topics[a.r.IntN(len(topics))], a.w.head.Load()
		switch a.r.IntN(6) {
		case 0:
			a.last(topic)
		case 1:
			a.last(topic, client.Linearizable())
		case 2:
			a.lastWith(&history.Read{Topic: topic, MinSeq: head}, client.MinSeq(head))
		case 3:
			if head > 0 {
				seq := 1 + a.r.Uint64N(head)
				a.lastWith(&history.Read{Topic: topic, AsOf: seq}, client.AsOf(seq))
			}
		case 4:
			if head > 0 {
				a.at(1 + a.r.Uint64N(head))
			}
		case 5:
			a.each(subset(a.r, topics), a.r.IntN(2) == 0)
		}
	}
}

// lastWith reads the last message of a topic with one more wish, which e says too.
func (a *caller) lastWith(e *history.Read, how client.GetOption) {
	e.Process, e.Op, e.Invoke = a.process, history.ReadLast, a.w.Record.Now()
	ctx, cancel := context.WithTimeout(context.Background(), registerReadWait)
	defer cancel()
	m, err := a.client.Get(ctx, e.Topic, how, client.MaxWait(registerReadWait))
	if err == nil {
		e.Found = []history.Found{asFound(m)}
	}
	a.finish(e, err == nil || errors.Is(err, client.ErrNotFound), err)
}

// at reads the message with a seq.
func (a *caller) at(seq uint64) {
	e := &history.Read{Process: a.process, Op: history.ReadAt, Seq: seq, Invoke: a.w.Record.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), registerReadWait)
	defer cancel()
	m, err := a.client.GetAt(ctx, seq, client.MaxWait(registerReadWait))
	if err == nil {
		e.Found = []history.Found{asFound(m)}
	}
	a.finish(e, err == nil, err)
}
