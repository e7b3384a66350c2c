package workload

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
)

const (
	accounts      = 8
	bankTotal     = 800
	bankClients   = 5
	bankPause     = 60 * time.Millisecond // between two calls of a client, on average
	bankFilter    = "bank/**"
	bankOpenLimit = 30 * time.Second
)

func accountTopics() []string {
	topics := make([]string, accounts)
	for i := range topics {
		topics[i] = fmt.Sprintf("bank/%d", i)
	}
	return topics
}

func bankWorkload() Workload {
	return Workload{
		Name:   "bank",
		About:  "transfers between accounts as atomic batches with preconditions; every snapshot and every prefix must add up",
		Header: func(h *history.Header) { h.Bank = &history.Bank{Accounts: accountTopics(), Total: bankTotal} },
		Start: func(ctx context.Context, w *World) error {
			w.use(accountTopics())
			if err := w.openBank(ctx); err != nil {
				return err
			}
			for range bankClients {
				w.addCaller(func(a *caller) { a.transfers() })
			}
			w.addCaller(func(a *caller) { a.audits() })
			for _, n := range w.Cluster.Voters() {
				w.addReader(reader{pin: n, filters: []string{"**"}, from: fromFirst})
				w.addReader(reader{pin: n, filters: []string{bankFilter}, from: fromLive, restart: 10})
			}
			return nil
		},
	}
}

// openBank gives every account its first balance, all at once.
func (w *World) openBank(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bankOpenLimit)
	defer cancel()
	a := &caller{w: w, process: w.process()}
	a.r = w.source("bank")
	c, err := w.connect(ctx, a.r, nil)
	if err != nil {
		return err
	}
	defer c.Close()
	a.client = c
	var messages []history.Sent
	var pre []history.Precondition
	for _, t := range accountTopics() {
		messages = append(messages, history.Sent{Topic: t, Value: bankTotal / accounts})
		pre = append(pre, history.Precondition{Topic: t})
	}
	if _, ok := a.publish(messages, pre); !ok {
		return errors.New("the bank could not be opened: see the history")
	}
	return nil
}

// transfers moves money as long as publishing goes on.
func (a *caller) transfers() {
	topics := accountTopics()
	for pause.For(a.w.publish, time.Duration(a.r.Int64N(int64(2*bankPause)))) {
		i, j := a.r.IntN(accounts), a.r.IntN(accounts-1)
		if j >= i {
			j++
		}
		var how []client.GetOption
		if a.r.IntN(2) == 0 { // what a node has may be old: then the precondition fails
			how = append(how, client.Linearizable())
		}
		from, ok := a.last(topics[i], how...)
		to, ok2 := a.last(topics[j], how...)
		if !ok || !ok2 || from.Seq == 0 || to.Seq == 0 || from.Value == 0 {
			continue
		}
		amount := 1 + a.r.Int64N(from.Value)
		a.publish([]history.Sent{{Topic: from.Topic, Value: from.Value - amount}, {Topic: to.Topic, Value: to.Value + amount}},
			[]history.Precondition{{Topic: from.Topic, LastSeq: from.Seq}, {Topic: to.Topic, LastSeq: to.Seq}})
	}
}

// audits reads all accounts at once.
func (a *caller) audits() {
	for pause.For(a.w.publish, 2*bankPause) {
		a.each([]string{bankFilter}, a.r.IntN(2) == 0)
	}
}

// each reads the last message of each topic.
func (a *caller) each(filters []string, linearizable bool) {
	e := &history.Read{Process: a.process, Op: history.ReadEach, Filters: filters, Lin: linearizable, Invoke: a.w.Record.Now()}
	how := []client.GetOption{client.SnapshotSeq(&e.Snapshot), client.MaxWait(registerReadWait)}
	if linearizable {
		how = append(how, client.Linearizable())
	}
	ctx, cancel := context.WithTimeout(context.Background(), registerReadWait)
	defer cancel()
	var failed error
	for m, err := range a.client.GetAll(ctx, filters, how...) {
		if err != nil {
			failed = err
			break
		}
		e.Found = append(e.Found, asFound(m))
	}
	a.finish(e, failed == nil, failed)
}
