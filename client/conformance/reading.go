package conformance

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/client"
)

func publishAndRead(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	acks := e.publish(p, e.topic("a"), 20)
	got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}, MinSeq: acks[19].Seq})
	if len(got) != len(acks) {
		e.Fatalf("read %d messages, want %d", len(got), len(acks))
	}
	for i, m := range got {
		if m.Seq != acks[i].Seq || m.Topic != e.topic("a") || string(m.Payload) != fmt.Sprint(i) || !m.Time.Equal(acks[i].Time) {
			e.Errorf("message %d is %d %q %q %v, the ack said %+v", i, m.Seq, m.Topic, m.Payload, m.Time, acks[i])
		}
		if i > 0 && (m.Seq <= got[i-1].Seq || m.Time.Before(got[i-1].Time)) {
			e.Errorf("message %d (%v) comes after %d (%v)", m.Seq, m.Time, got[i-1].Seq, got[i-1].Time)
		}
	}
}

// pipelined publishes from several producers at once and checks that each one's messages keep their order and come once.
func pipelined(e *env) {
	c := e.connect()
	const producers, each = 3, 4000
	var wg sync.WaitGroup
	for n := range producers {
		p := e.producer(c, client.ProducerOptions{})
		wg.Go(func() {
			topic := e.topic(fmt.Sprint(n))
			for i := range each {
				if err := p.Publish(e.ctx, topic, fmt.Append(nil, i)); err != nil {
					e.Error(err)
					return
				}
			}
			if err := p.Close(e.ctx); err != nil {
				e.Error(err)
			}
		})
	}
	s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.all()}})
	next := map[string]int{}
	for _, m := range e.next(s, producers*each) {
		if want := fmt.Sprint(next[m.Topic]); string(m.Payload) != want {
			e.Fatalf("topic %s: got %s, want %s", m.Topic, m.Payload, want)
		}
		next[m.Topic]++
	}
	wg.Wait()
	if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}}); len(got) != producers*each {
		e.Errorf("read %d messages in all, want %d", len(got), producers*each)
	}
}

func headers(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	want := []client.Header{{Key: "kind", Value: "order"}, {Key: "empty", Value: ""}, {Key: "kind", Value: "again"}}
	a, err := p.PublishSync(e.ctx, e.topic("h"), nil, want...)
	e.must(err)
	got := e.read(c, client.SubscribeOptions{Filters: []string{e.topic("h")}, MinSeq: a.Seq})
	if len(got) != 1 || !slices.Equal(got[0].Headers(), want) || len(got[0].Payload) != 0 {
		e.Errorf("got %+v, want headers %v and no payload", got, want)
	}
}

func starts(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	acks := e.publish(p, e.topic("s"), 6)
	last := acks[5].Seq
	for name, check := range map[string]struct {
		from client.Start
		want []client.Ack
	}{
		"first":          {client.First(), acks},
		"seq":            {client.Seq(acks[2].Seq), acks[2:]},
		"seq between":    {client.Seq(acks[2].Seq + 1), acks[3:]},
		"seq 0":          {client.Seq(0), acks},
		"seq of future":  {client.Seq(last + 1), nil},
		"time":           {client.Time(acks[3].Time), from(acks, acks[3].Time)},
		"time of past":   {client.Time(time.Unix(0, 0)), acks},
		"time of future": {client.Time(time.Now().Add(time.Hour)), nil},
		"ago":            {client.Ago(24 * 365 * time.Hour), acks},
		"ago 0":          {client.Ago(0), from(acks, acks[5].Time)},
		"now":            {client.Now(), nil},
	} {
		got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}, From: check.from, MinSeq: last})
		if len(got) != len(check.want) {
			e.Errorf("from %s: got %v, want %v", name, seqs(got), check.want)
			continue
		}
		for i := range got {
			if got[i].Seq != check.want[i].Seq {
				e.Errorf("from %s: got %v, want %v", name, seqs(got), check.want)
			}
		}
	}
	s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.all()}, From: client.Now(), MinSeq: last})
	late := e.publish(p, e.topic("s"), 3)
	if got := e.next(s, 3); got[0].Seq != late[0].Seq || got[2].Seq != late[2].Seq {
		e.Errorf("from now: got %v, want %v", seqs(got), late)
	}
}

// from returns the acks of messages that are not older than t.
func from(acks []client.Ack, t time.Time) []client.Ack {
	i := slices.IndexFunc(acks, func(a client.Ack) bool { return !a.Time.Before(t) })
	return acks[i:]
}

func filterUnion(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	topics := []string{"a", "a/b", "a/b/c", "a/bc", "b", "b/a", "a/b/c/d", "z"}
	bySeq := map[uint64]string{}
	var last uint64
	for i := range 40 {
		name := topics[i%len(topics)]
		a, err := p.PublishSync(e.ctx, e.topic(name), nil)
		e.must(err)
		bySeq[a.Seq], last = name, a.Seq
	}
	for _, c2 := range []struct {
		filters []string
		want    []string // topics
	}{
		{[]string{"a"}, []string{"a"}},
		{[]string{"a/**"}, []string{"a", "a/b", "a/b/c", "a/bc", "a/b/c/d"}},
		{[]string{"a/b/**", "a/**", "a/b"}, []string{"a", "a/b", "a/b/c", "a/bc", "a/b/c/d"}},
		{[]string{"a/b/c", "b/**", "a/b/c"}, []string{"a/b/c", "b", "b/a"}},
		{[]string{"nothing/**"}, nil},
	} {
		var filters []string
		for _, f := range c2.filters {
			filters = append(filters, e.topic(f))
		}
		var want []uint64
		for seq, name := range bySeq {
			if slices.Contains(c2.want, name) {
				want = append(want, seq)
			}
		}
		slices.Sort(want)
		got := e.read(c, client.SubscribeOptions{Filters: filters, MinSeq: last})
		if !slices.Equal(seqs(got), want) {
			e.Errorf("filters %v: got %v, want %v", c2.filters, seqs(got), want)
		}
		for _, m := range got {
			if m.Topic != e.topic(bySeq[m.Seq]) {
				e.Errorf("message %d has topic %q, want %q", m.Seq, m.Topic, e.topic(bySeq[m.Seq]))
			}
		}
	}
}

func manySubscriptions(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	const n = 100
	var subs []*client.Subscription
	for i := range n {
		subs = append(subs, e.subscribe(c, client.SubscribeOptions{Filters: []string{e.topic(fmt.Sprint(i))}, From: client.Now()}))
	}
	for i := range n {
		e.must(p.Publish(e.ctx, e.topic(fmt.Sprint(i)), fmt.Append(nil, i)))
	}
	e.must(p.Flush(e.ctx))
	for i, s := range subs {
		if got := e.next(s, 1); string(got[0].Payload) != fmt.Sprint(i) {
			e.Errorf("subscription %d got %q", i, got[0].Payload)
		}
	}
}

// slowReader reads with the smallest buffer and pauses while much more than it holds is published.
func slowReader(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.all()}, From: client.Now(), BufferBytes: 1})
	payload := make([]byte, 300)
	const n = 3000
	for range n {
		e.must(p.Publish(e.ctx, e.topic("x"), payload))
	}
	e.must(p.Flush(e.ctx))
	got := e.next(s, n)
	for i := 1; i < n; i++ {
		if got[i].Seq <= got[i-1].Seq {
			e.Fatalf("message %d after %d", got[i].Seq, got[i-1].Seq)
		}
	}
	if st := s.Stats(); st.Gaps != 0 || st.Resumed != 0 {
		e.Errorf("reading slowly took %+v", st)
	}
}

func largeMessages(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	sizes := []int{client.MaxPayload, 0, 1, client.MaxPayload - 1, 300 << 10}
	var last uint64
	for i, n := range sizes {
		payload := make([]byte, n)
		for j := range payload {
			payload[j] = byte(i + j)
		}
		a, err := p.PublishSync(e.ctx, e.topic("large"), payload)
		e.must(err)
		last = a.Seq
	}
	for i, m := range e.read(c, client.SubscribeOptions{Filters: []string{e.all()}, MinSeq: last, BufferBytes: 1}) {
		if len(m.Payload) != sizes[i] {
			e.Errorf("message %d has %d bytes, want %d", i, len(m.Payload), sizes[i])
		}
		for j, b := range m.Payload {
			if b != byte(i+j) {
				e.Fatalf("message %d differs at byte %d", i, j)
			}
		}
	}
}

// caughtUpNotEarly reads to caught-up while others write: all that was there at opening must have been seen.
func caughtUpNotEarly(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	for i := range 3000 {
		e.must(p.Publish(e.ctx, e.topic(fmt.Sprint(i%50)), fmt.Append(nil, i)))
	}
	e.must(p.Flush(e.ctx))
	a, err := p.PublishSync(e.ctx, e.topic("last"), nil)
	e.must(err)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := p.Publish(e.ctx, e.topic(fmt.Sprint(i%50)), nil); err != nil {
				e.Error(err)
				return
			}
			if i%20 == 0 {
				time.Sleep(time.Millisecond) // the readers must catch up on a busy machine too
			}
		}
	})
	for range 5 {
		s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.all()}, MinSeq: a.Seq})
		n, last := 0, false
		for m, err := range s.ToCaughtUp(e.ctx) {
			e.must(err)
			n++
			last = last || m.Seq == a.Seq
		}
		if n < 3001 || !last {
			e.Errorf("caught up after %d messages, want at least 3001; last seen: %v", n, last)
		}
		select {
		case <-s.CaughtUp():
		default:
			e.Error("CaughtUp is not closed")
		}
		e.must(s.Close())
	}
	close(stop)
	wg.Wait()
	e.must(p.Close(e.ctx))
}

// progress checks that a subscription without matches moves on.
func progress(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	first, err := p.PublishSync(e.ctx, e.topic("match"), nil)
	e.must(err)
	s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.topic("match")}, From: client.Seq(first.Seq), MinSeq: first.Seq})
	var last uint64
	for range 500 {
		a, err := p.PublishSync(e.ctx, e.topic("other"), nil)
		e.must(err)
		last = a.Seq
	}
	done := make(chan error, 1)
	go func() {
		n := 0
		for m, err := range s.Messages(e.ctx) {
			if errors.Is(err, client.ErrClosed) {
				break
			}
			if err != nil || m.Seq != first.Seq {
				done <- fmt.Errorf("got message %d, error %w", m.Seq, err)
				return
			}
			n++
		}
		if n != 1 {
			done <- fmt.Errorf("got %d messages, want 1", n)
			return
		}
		done <- nil
	}()
	e.eventually("progress to the last seq", func() bool { return s.Position() >= last })
	e.must(s.Close())
	e.must(<-done)
}

// resumeAtEveryPosition stops at each message and progress mark and goes on from the position.
func resumeAtEveryPosition(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	var want []uint64
	var last uint64
	for i := range 60 {
		name := "other"
		if i%7 == 0 || i%11 == 0 {
			name = "match"
		}
		a, err := p.PublishSync(e.ctx, e.topic(name), nil)
		e.must(err)
		if last = a.Seq; name == "match" {
			want = append(want, a.Seq)
		}
	}
	var got []uint64
	at := client.First()
	for len(got) < len(want) {
		s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.topic("match")}, From: at, MinSeq: last})
		got = append(got, seqs(e.next(s, 1))...)
		at = client.Seq(s.Position() + 1)
		e.must(s.Close())
	}
	if !slices.Equal(got, want) {
		e.Errorf("got %v, want %v", got, want)
	}
}

func resumeAfterLostConnection(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	const n = 5000
	for i := range n {
		e.must(p.Publish(e.ctx, e.topic(fmt.Sprint(i%20)), fmt.Append(nil, i)))
	}
	e.must(p.Flush(e.ctx))
	s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.all()}, BufferBytes: 8 << 10})
	i := 0
	for m, err := range s.Messages(e.ctx) {
		e.must(err)
		if string(m.Payload) != fmt.Sprint(i) {
			e.Fatalf("got %s, want %d", m.Payload, i)
		}
		if i++; i == n {
			break
		}
		if i%500 == 0 {
			e.cuts.cut()
		}
	}
	if st := s.Stats(); st.Resumed == 0 || st.Gaps != 0 {
		e.Errorf("stats are %+v, want some resumed and no gaps", st)
	}
}

func minSeq(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	a := e.publish(p, e.topic("m"), 1)[0]
	if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}, MinSeq: a.Seq}); len(got) != 1 {
		e.Errorf("read %d messages, want the one", len(got))
	}
	_, err := c.Subscribe(e.ctx, client.SubscribeOptions{Filters: []string{e.all()}, MinSeq: a.Seq + 1_000_000,
		MinSeqWait: 20 * time.Millisecond})
	e.wantError(err, client.ErrNotYet)
	var detail *client.Error
	if errors.As(err, &detail) && detail.Detail < a.Seq {
		e.Errorf("the node has %d, want at least %d", detail.Detail, a.Seq)
	}
}
