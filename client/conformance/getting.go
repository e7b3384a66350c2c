package conformance

import (
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// brief makes a get that finds nothing end soon.
var brief = client.MaxWait(20 * time.Millisecond)

// getAll returns what GetAll yields, by topic, and the seq of the snapshot.
func (e *env) getAll(c *client.Client, filters []string, options ...client.GetOption) (map[string]client.Message, uint64) {
	e.Helper()
	got, seq := map[string]client.Message{}, uint64(0)
	for m, err := range c.GetAll(e.ctx, filters, append(options, client.SnapshotSeq(&seq))...) {
		e.must(err)
		if _, twice := got[m.Topic]; twice {
			e.Fatalf("topic %s comes twice", m.Topic)
		}
		got[m.Topic] = m
	}
	return got, seq
}

func gets(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	x := e.publish(p, e.topic("x"), 3)
	want := []client.Header{{Key: "kind", Value: "order"}}
	y, err := p.PublishSync(e.ctx, e.topic("x/y"), []byte("deep"), want...)
	e.must(err)
	fresh := client.MinSeq(y.Seq)

	m, err := c.Get(e.ctx, e.topic("x"), fresh)
	e.must(err)
	if m.Seq != x[2].Seq || m.Topic != e.topic("x") || string(m.Payload) != "2" || !m.Time.Equal(x[2].Time) || m.Headers() != nil {
		e.Errorf("last is %+v, want %+v", m, x[2])
	}
	m, err = c.Get(e.ctx, e.topic("x"), client.AsOf(x[1].Seq))
	e.must(err)
	if m.Seq != x[1].Seq {
		e.Errorf("last as of %d is %d", x[1].Seq, m.Seq)
	}
	m, err = c.Get(e.ctx, e.topic("x/y"), client.Linearizable())
	e.must(err)
	if h := m.Headers(); m.Seq != y.Seq || string(m.Payload) != "deep" || len(h) != 1 || h[0] != want[0] {
		e.Errorf("last is %+v with headers %v", m, h)
	}
	for i, a := range x {
		m, err := c.GetAt(e.ctx, a.Seq)
		e.must(err)
		if m.Seq != a.Seq || string(m.Payload) != fmt.Sprint(i) || m.Topic != e.topic("x") {
			e.Errorf("message %d is %+v", a.Seq, m)
		}
	}
	got, seq := e.getAll(c, []string{e.all()}, fresh)
	if len(got) != 2 || got[e.topic("x")].Seq != x[2].Seq || got[e.topic("x/y")].Seq != y.Seq || seq < y.Seq {
		e.Errorf("last of each at %d is %+v", seq, got)
	}
	if got, seq = e.getAll(c, []string{e.all()}, client.AsOf(x[0].Seq)); len(got) != 1 || got[e.topic("x")].Seq != x[0].Seq || seq != x[0].Seq {
		e.Errorf("last of each as of %d is %+v at %d", x[0].Seq, got, seq)
	}
	if got, _ = e.getAll(c, []string{e.topic("nothing/**")}, client.Linearizable()); len(got) != 0 {
		e.Errorf("last of nothing is %+v", got)
	}
}

func getsOfNothing(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	a := e.publish(p, e.topic("below/x"), 1)[0]
	for _, name := range []string{"never", "below", "below/x/y"} {
		_, err := c.Get(e.ctx, e.topic(name), client.MinSeq(a.Seq))
		e.wantError(err, client.ErrNotFound)
	}
	if a.Seq > 1 {
		_, err := c.Get(e.ctx, e.topic("below/x"), client.AsOf(a.Seq-1))
		e.wantError(err, client.ErrNotFound)
	}
	_, err := c.Get(e.ctx, "a//b")
	e.wantError(err, client.ErrBadTopic)
	_, err = c.Get(e.ctx, "a/**")
	e.wantError(err, client.ErrBadTopic)
	e.eventually("the answer of a node that has the message to a get of a later one", func() bool { // any node may be asked, and lag
		_, err := c.GetAt(e.ctx, a.Seq+1_000_000, brief)
		e.wantError(err, client.ErrNotYet)
		var detail *client.Error
		return errors.As(err, &detail) && detail.Detail >= a.Seq
	})
	_, err = c.Get(e.ctx, e.topic("below/x"), client.MinSeq(a.Seq+1_000_000), brief)
	e.wantError(err, client.ErrNotYet)
	_, err = c.GetAt(e.ctx, 0)
	e.wantError(err, client.ErrGone)
	for _, filters := range [][]string{nil, {"a/*"}, make([]string, 1025)} {
		for _, err := range c.GetAll(e.ctx, filters) {
			e.wantError(err, client.ErrBadFilter)
		}
	}
	for _, err := range c.GetAll(e.ctx, []string{"**"}, client.MinSeq(a.Seq+1_000_000), brief) {
		e.wantError(err, client.ErrNotYet)
	}
}

// getsWait asks for a message before it is published.
func getsWait(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	a := e.publish(p, e.topic("w"), 1)[0]
	type outcome struct {
		m   client.Message
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		m, err := c.GetAt(e.ctx, a.Seq+1, client.MaxWait(patience))
		done <- outcome{m, err}
	}()
	next := e.publish(p, e.topic("w"), 1)[0]
	o := <-done
	e.must(o.err)
	if o.m.Seq != a.Seq+1 {
		e.Errorf("got %d, want %d; %d was published", o.m.Seq, a.Seq+1, next.Seq)
	}
}

// snapshots takes the last of each topic, over many pages, while messages keep coming, and holds each against a subscription.
func snapshots(e *env) {
	const topics, rounds = 1500, 4 // more topics than a page holds
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	var filters []string
	for i := range 6 {
		filters = append(filters, e.topic(fmt.Sprint(i, "/**")))
	}
	var last client.Ack
	stop, done := make(chan struct{}), make(chan struct{})
	publish := func() {
		for i := range topics {
			e.must(p.Publish(e.ctx, e.topic(fmt.Sprint(i%7, "/", i)), nil))
		}
		a, err := p.PublishSync(e.ctx, e.topic("end"), nil)
		e.must(err)
		last = a
	}
	publish()
	first := last.Seq
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := p.PublishSync(e.ctx, e.topic(fmt.Sprint(i%7, "/", i*31%topics)), nil); err != nil {
				e.Error(err)
				return
			}
		}
	}()
	var all []map[string]client.Message
	var seqs []uint64
	for range rounds {
		got, seq := e.getAll(c, filters, client.MinSeq(first))
		all, seqs = append(all, got), append(seqs, seq)
	}
	close(stop)
	<-done
	messages := e.read(c, client.SubscribeOptions{Filters: filters})
	for i, seq := range seqs {
		want, got := map[string]uint64{}, map[string]uint64{}
		for _, m := range messages {
			if m.Seq <= seq {
				want[m.Topic] = m.Seq
			}
		}
		for _, m := range all[i] {
			got[m.Topic] = m.Seq
		}
		if !maps.Equal(got, want) {
			e.Errorf("snapshot at %d has %d topics, want %d; or other messages", seq, len(got), len(want))
		}
	}
}

// getsAfterLostConnection asks again over connections that are cut.
func getsAfterLostConnection(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	a := e.publish(p, e.topic("l"), 1)[0]
	for range 5 {
		e.cuts.cut()
		m, err := c.Get(e.ctx, e.topic("l"), client.MinSeq(a.Seq))
		e.must(err)
		if m.Seq != a.Seq {
			e.Errorf("got %d, want %d", m.Seq, a.Seq)
		}
	}
}

// goneGets asks for messages that are not kept any more.
func goneGets(e *env) {
	if e.target.Trim == nil {
		e.Skip("this target keeps everything")
	}
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	old := e.publish(p, e.topic("old"), 2)
	kept := e.publish(p, e.topic("kept"), 1)[0]
	e.target.Trim(kept.Seq)
	_, err := c.GetAt(e.ctx, old[1].Seq)
	e.wantError(err, client.ErrGone)
	_, err = c.Get(e.ctx, e.topic("old"), client.MinSeq(kept.Seq))
	e.wantError(err, client.ErrGone)
	var detail *client.Error
	if !errors.As(err, &detail) || detail.Detail != kept.Seq {
		e.Errorf("error is %+v, want the oldest seq %d", err, kept.Seq)
	}
	_, err = c.Get(e.ctx, e.topic("kept"), client.AsOf(old[0].Seq))
	e.wantError(err, client.ErrGone)
	got, _ := e.getAll(c, []string{e.all()}, client.MinSeq(kept.Seq))
	if len(got) != 1 || got[e.topic("kept")].Seq != kept.Seq {
		e.Errorf("last of each is %+v, want only what is kept", got)
	}
}
