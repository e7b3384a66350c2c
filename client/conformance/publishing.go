package conformance

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// atomically publishes batches beside other producers and checks that their messages stay neighbours.
func atomically(e *env) {
	c := e.connect()
	const batches, size = 50, 7
	var wg sync.WaitGroup
	for n := range 3 {
		p := e.producer(c, client.ProducerOptions{})
		wg.Go(func() {
			for i := range batches {
				var list []client.Outgoing
				for j := range size {
					list = append(list, client.Outgoing{Topic: e.topic(fmt.Sprint(n, "-", j)), Payload: fmt.Append(nil, n, i, j)})
				}
				if _, err := p.PublishAtomic(e.ctx, list, nil); err != nil {
					e.Error(err)
				}
				if err := p.Publish(e.ctx, e.topic("single"), nil); err != nil {
					e.Error(err)
				}
			}
			if err := p.Close(e.ctx); err != nil {
				e.Error(err)
			}
		})
	}
	wg.Wait()
	got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}})
	groups := 0
	for i := 0; i < len(got); i++ {
		if got[i].Topic == e.topic("single") {
			continue
		}
		for j := range size {
			if m := got[i+j]; !strings.HasSuffix(m.Topic, fmt.Sprint("-", j)) || m.Seq != got[i].Seq+uint64(j) {
				e.Fatalf("message %d (%s) parts a batch that begins at %d", m.Seq, m.Topic, got[i].Seq)
			}
		}
		groups++
		i += size - 1
	}
	if groups != 3*batches {
		e.Errorf("found %d batches, want %d", groups, 3*batches)
	}
}

func preconditions(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	x, y := e.topic("x"), e.topic("y")
	both := []client.Outgoing{{Topic: x, Payload: []byte("1")}, {Topic: y}}
	first, err := p.PublishAtomic(e.ctx, both, []client.Precondition{{Topic: x}, {Topic: y}})
	e.must(err)

	_, err = p.PublishAtomic(e.ctx, both, []client.Precondition{{Topic: y, LastSeq: first + 1}, {Topic: x}})
	e.wantError(err, client.ErrPreconditionFailed)
	var detail *client.Error
	if !errors.As(err, &detail) || detail.Index != 1 || detail.Detail != first {
		e.Errorf("error is %+v, want precondition 1 and the actual seq %d", detail, first)
	}

	second, err := p.PublishAtomic(e.ctx, both, []client.Precondition{{Topic: x, LastSeq: first}, {Topic: y, LastSeq: first + 1}})
	e.must(err)
	got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}, MinSeq: second + 1})
	if len(got) != 4 || got[0].Seq != first || got[2].Seq != second || got[3].Seq != second+1 {
		e.Errorf("stream has %v, want two batches at %d and %d", seqs(got), first, second)
	}
	// One topic, many who want to be next: each seq is taken once.
	counter(e, c)
}

// counter increments a number that lives in a topic from several producers by compare and set.
func counter(e *env, c *client.Client) {
	topic := e.topic("counter")
	var wg sync.WaitGroup
	const workers, each = 4, 10
	for range workers {
		p := e.producer(c, client.ProducerOptions{})
		wg.Go(func() {
			last := uint64(0)
			for done := 0; done < each; {
				seq, err := p.PublishAtomic(e.ctx, []client.Outgoing{{Topic: topic}}, []client.Precondition{{Topic: topic, LastSeq: last}})
				var detail *client.Error
				switch {
				case err == nil:
					last = seq
					done++
				case errors.Is(err, client.ErrPreconditionFailed) && errors.As(err, &detail):
					last = detail.Detail
				default:
					e.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := e.read(c, client.SubscribeOptions{Filters: []string{topic}}); len(got) != workers*each {
		e.Errorf("counter has %d messages, want %d", len(got), workers*each)
	}
}

// exactlyOnce cuts all connections again and again while publishing, so that batches and acks are lost on the way, and
// counts ids.
func exactlyOnce(e *env) {
	c := e.connect()
	var mu sync.Mutex
	acked := 0
	p := e.producer(c, client.ProducerOptions{BatchBytes: 1 << 10, Linger: time.Millisecond, OnAck: func(a client.BatchAck) {
		mu.Lock()
		defer mu.Unlock()
		if a.Err != nil {
			e.Error(a.Err)
		}
		acked += a.Count
	}})
	const n = 4000
	for i := range n {
		e.must(p.Publish(e.ctx, e.topic(fmt.Sprint(i%10)), fmt.Append(nil, i)))
		if i%400 == 399 {
			e.cuts.cut()
		}
	}
	e.must(p.Flush(e.ctx))
	mu.Lock()
	if acked != n {
		e.Errorf("%d messages acknowledged, want %d", acked, n)
	}
	mu.Unlock()
	got := e.read(e.connect(), client.SubscribeOptions{Filters: []string{e.all()}})
	if len(got) != n {
		e.Errorf("stream has %d messages, want %d", len(got), n)
	}
	for i, m := range got {
		if string(m.Payload) != fmt.Sprint(i) {
			e.Fatalf("message %d is %s", i, m.Payload)
		}
	}
	if st := p.Stats(); st.Relinked == 0 {
		e.Errorf("stats are %+v: the test has cut nothing", st)
	}
}

func fencing(e *env) {
	c := e.connect()
	id := client.NamedProducer(e.root)
	old := e.producer(c, client.ProducerOptions{ID: id})
	e.publish(old, e.topic("f"), 3)
	young := e.producer(c, client.ProducerOptions{ID: id})
	if young.Epoch() <= old.Epoch() {
		e.Errorf("epoch %d after %d", young.Epoch(), old.Epoch())
	}
	_, err := old.PublishSync(e.ctx, e.topic("f"), nil)
	e.wantError(err, client.ErrFenced)
	e.wantError(old.Publish(e.ctx, e.topic("f"), nil), client.ErrFenced)
	e.publish(young, e.topic("f"), 3)
	if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}}); len(got) != 6 {
		e.Errorf("stream has %d messages, want 6", len(got))
	}
}

func namedProducer(e *env) {
	c := e.connect()
	id := client.NamedProducer(e.root)
	for range 3 {
		p := e.producer(c, client.ProducerOptions{ID: id})
		e.publish(p, e.topic("n"), 2)
		e.must(p.Close(e.ctx))
	}
	if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}}); len(got) != 6 {
		e.Errorf("stream has %d messages, want 6", len(got))
	}
}

func badTopics(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	for _, name := range []string{"", "/", "a/", "/a", "a//b", "*", "a/**", "a/*/b", "a\x00b", "a\nb", "\xff",
		strings.Repeat("a/", 32) + "a", strings.Repeat("x", 513)} {
		e.wantError(p.Publish(e.ctx, name, nil), client.ErrBadTopic)
		_, err := p.PublishAtomic(e.ctx, []client.Outgoing{{Topic: e.topic("good")}, {Topic: name}}, nil)
		e.wantError(err, client.ErrBadTopic)
	}
	e.publish(p, e.topic("good"), 1)
	if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}}); len(got) != 1 {
		e.Errorf("stream has %d messages, want 1", len(got))
	}
}

func badFilters(e *env) {
	c := e.connect()
	for _, filters := range [][]string{nil, {""}, {"a/*"}, {"**/a"}, {"a/**/b"}, {e.all(), "a//b"}, make([]string, 1025)} {
		_, err := c.Subscribe(e.ctx, client.SubscribeOptions{Filters: filters})
		e.wantError(err, client.ErrBadFilter)
	}
}

func tooLarge(e *env) {
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	e.wantError(p.Publish(e.ctx, e.topic("l"), make([]byte, client.MaxPayload+1)), client.ErrTooLarge)
	e.wantError(p.Publish(e.ctx, e.topic("l"), nil, client.Header{Key: "k", Value: strings.Repeat("v", client.MaxHeaderBytes)}),
		client.ErrTooLarge)
	half := client.Outgoing{Topic: e.topic("l"), Payload: make([]byte, client.MaxPayload/2+64<<10)}
	_, err := p.PublishAtomic(e.ctx, []client.Outgoing{half, half}, nil)
	e.wantError(err, client.ErrTooLarge)
	e.publish(p, e.topic("l"), 1)
	if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}}); len(got) != 1 {
		e.Errorf("stream has %d messages, want 1", len(got))
	}
}

func wrongCluster(e *env) {
	o := e.target.Options
	o.ClusterID = "another"
	c, err := client.Connect(e.ctx, o)
	if err == nil {
		_ = c.Close()
	}
	e.wantError(err, client.ErrWrongCluster)
}

// leaderMoves publishes and reads while the leader changes.
func leaderMoves(e *env) {
	if e.target.MoveLeader == nil {
		e.Skip("this target has one leader for ever")
	}
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{BatchBytes: 1 << 10})
	s := e.subscribe(c, client.SubscribeOptions{Filters: []string{e.all()}, From: client.Now()})
	var wg sync.WaitGroup
	stop := make(chan struct{})
	published := 0
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := p.Publish(e.ctx, e.topic("x"), fmt.Append(nil, published)); err != nil {
				e.Error(err)
				return
			}
			published++
			if published%50 == 0 {
				time.Sleep(time.Millisecond) // leaves the processor to the servers of this process
			}
		}
	})
	for range 3 {
		e.target.MoveLeader()
		e.next(s, 100)
	}
	close(stop)
	wg.Wait()
	e.must(p.Close(e.ctx))
	got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}})
	if len(got) != published {
		e.Errorf("stream has %d messages, want %d", len(got), published)
	}
	for i, m := range got {
		if string(m.Payload) != fmt.Sprint(i) {
			e.Fatalf("message %d is %s", i, m.Payload)
		}
	}
}

func gone(e *env) {
	if e.target.Trim == nil {
		e.Skip("this target keeps everything")
	}
	c := e.connect()
	p := e.producer(c, client.ProducerOptions{})
	acks := e.publish(p, e.topic("g"), 10)
	oldest := acks[5].Seq
	e.target.Trim(oldest)
	_, err := c.Subscribe(e.ctx, client.SubscribeOptions{Filters: []string{e.all()}, From: client.Seq(acks[4].Seq)})
	e.wantError(err, client.ErrGone)
	var detail *client.Error
	if !errors.As(err, &detail) || detail.Detail != oldest {
		e.Errorf("error is %+v, want the oldest seq %d", detail, oldest)
	}
	for _, at := range []client.Start{client.First(), client.Seq(oldest)} {
		if got := e.read(c, client.SubscribeOptions{Filters: []string{e.all()}, From: at}); len(got) != 5 {
			e.Errorf("read %d messages, want the 5 that are kept", len(got))
		}
	}
}
