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
	"github.com/cantus-bus/cantus/jepsen/node"
)

const (
	// look is how long a reader waits for messages before it notes where it is.
	look     = 100 * time.Millisecond
	openWait = 2 * time.Second // for a node to have what a reader asks for

	againPause = 700 * time.Millisecond // until another reader begins in the place of one, on average
)

// from is where a reader begins.
type from int

const (
	fromFirst from = iota
	fromMiddle
	fromLive
)

// reader reads until the run is drained.
type reader struct {
	w       *World
	ctx     context.Context // of the reader's life
	r       *rand.Rand
	process int
	pin     *node.Node // nil: any node, and others when that is lost
	filters []string
	from    from
	// restart is after how many batches, at most, the reader leaves and comes back where it was; 0: never.
	restart int
	// again is after how many messages, at most, it leaves and another begins in its place; 0: never.
	again int
	once  bool // ends when it has caught up

	// Of the subscription being read.

	number   int
	sub      *client.Subscription
	position uint64 // as recorded
	caught   bool   // recorded: a subscription that goes on after a place is told again
}

func (w *World) addReader(r reader) {
	r.w, r.ctx, r.process = w, w.read, w.process()
	r.r = w.source(fmt.Sprint("reader", r.process))
	w.readers.Go(func() { r.run() })
}

func (r *reader) nodeName() string {
	if r.pin == nil {
		return ""
	}
	return r.pin.Name
}

// run reads until it is done. The error is why it could not be done in time.
func (r *reader) run() error {
	c, err := r.w.connect(r.ctx, r.r, r.pin)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		err := r.life(c)
		switch {
		case err == nil && (r.once || r.w.drained.Load()):
			return nil
		case r.ctx.Err() != nil:
			return err
		case err != nil:
			pause.For(r.ctx, 50*time.Millisecond)
		default: // another begins in its place, not at once: a reader that reads old messages again and again is a heavy load
			pause.For(r.ctx, pause.About(r.r, againPause))
		}
	}
}

// life is one reader as the history knows it, from opening to end.
func (r *reader) life(c *client.Client) error {
	opened, err := r.open(c)
	if err != nil {
		return err
	}
	r.w.Record.Write(opened)
	r.position = opened.Base
	err = r.read(c)
	e := &history.ReaderEnded{At: r.w.Record.Now(), Reader: r.number, Position: r.position}
	if err != nil && r.ctx.Err() == nil {
		e.Code = err.Error()
	}
	r.w.gaps.Add(r.sub.Stats().Gaps)
	_ = r.sub.Close() // says nothing
	r.w.Record.Write(e)
	return err
}

// open subscribes.
func (r *reader) open(c *client.Client) (*history.ReaderOpened, error) {
	e := &history.ReaderOpened{Process: r.process, Node: r.nodeName(), Filters: r.filters, Start: history.StartFirst, Patience: time.Second}
	o := client.SubscribeOptions{Filters: r.filters, From: client.First(), BufferBytes: 4096 << r.r.IntN(9), MinSeqWait: openWait}
	head := r.w.head.Load()
	switch r.from {
	case fromMiddle:
		e.Start, e.From = history.StartSeq, 1
		if head > 0 {
			e.From = 1 + r.r.Uint64N(head)
		}
		o.From = client.Seq(e.From)
	case fromLive:
		e.Start = history.StartLive
		o.From = client.Now()
	}
	if r.once || r.r.IntN(2) == 0 {
		e.MinSeq, o.MinSeq = head, head
	}
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	sub, err := c.Subscribe(ctx, o)
	if err != nil {
		return nil, err
	}
	r.number, r.sub, r.caught = int(r.w.numbers.Add(1)), sub, false
	e.At, e.Reader, e.Base = r.w.Record.Now(), r.number, sub.Position()
	return e, nil
}

// read reads until it is time to end. An error ended it.
func (r *reader) read(c *client.Client) error {
	batches, messages := 0, 0
	leave := -1
	if r.restart > 0 {
		leave = 1 + r.r.IntN(r.restart)
	}
	last := -1
	if r.again > 0 {
		last = 1 + r.r.IntN(r.again)
	}
	for {
		n, caught, err := r.step()
		if err != nil {
			return err
		}
		messages += n
		if n > 0 {
			batches++
		}
		switch {
		case r.once && caught, last > 0 && messages >= last:
			return nil
		case r.w.drained.Load() && r.position >= r.w.head.Load():
			return nil
		case leave > 0 && batches >= leave:
			batches, leave = 0, 1+r.r.IntN(r.restart)
			if err := r.resume(c); err != nil {
				return err
			}
		}
	}
}

// step takes what comes next, or notes after a while where the reader is.
func (r *reader) step() (messages int, caught bool, err error) {
	ctx, cancel := context.WithTimeout(r.ctx, look)
	defer cancel()
	b, err := r.sub.NextBatch(ctx)
	switch {
	case err != nil && r.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		r.mark(r.sub.Position())
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case b.CaughtUp():
		r.mark(r.sub.Position())
		if !r.caught {
			r.caught = true
			r.w.Record.Write(&history.CaughtUp{At: r.w.Record.Now(), Reader: r.number})
		}
		return 0, true, nil
	}
	at := r.w.Record.Now()
	for m := range b.All() {
		// A payload that is not ours has the id 0, which the checkers know.
		id, _, _ := history.ParsePayload(m.Payload)
		r.w.Record.Write(&history.Delivery{At: at, Reader: r.number, Seq: m.Seq, Topic: m.Topic, ID: id, Time: m.Time.UnixNano(), Disk: m.History})
		r.position = max(r.position, m.Seq)
	}
	r.w.delivered.Add(uint64(b.Len()))
	r.mark(r.sub.Position())
	return b.Len(), false, nil
}

// mark records a position beyond the last one known.
func (r *reader) mark(position uint64) {
	if position > r.position {
		r.position = position
		r.w.Record.Write(&history.Progress{At: r.w.Record.Now(), Reader: r.number, Seq: position})
	}
}

// resume leaves and comes back after the position. It tries until the run ends.
func (r *reader) resume(c *client.Client) error {
	r.w.gaps.Add(r.sub.Stats().Gaps)
	_ = r.sub.Close() // says nothing
	o := client.SubscribeOptions{Filters: r.filters, From: client.Seq(r.position + 1), BufferBytes: 4096 << r.r.IntN(9)}
	for {
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
		sub, err := c.Subscribe(ctx, o)
		cancel()
		if err == nil {
			r.sub = sub
			r.w.Record.Write(&history.ReaderResumed{At: r.w.Record.Now(), Reader: r.number, Node: r.nodeName(), After: r.position})
			return nil
		}
		if r.ctx.Err() != nil || errors.Is(err, client.ErrGone) {
			return err
		}
		if !pause.For(r.ctx, 50*time.Millisecond) {
			return err
		}
	}
}
