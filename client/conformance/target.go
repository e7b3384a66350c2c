package conformance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/client"
)

// patience bounds each wait for something that must happen.
const patience = 30 * time.Second

// Target is a running server or cluster. The tests share it, each under topics of its own.
type Target struct {
	// Options lead a client to it.
	Options client.Options
	// Trim makes messages below seq go, as retention does. Nil: it cannot.
	Trim func(seq uint64)
	// MoveLeader makes another node lead and returns when it does. Nil: it cannot.
	MoveLeader func()
}

// Run runs all tests against one target.
func Run(t *testing.T, start func(t *testing.T) Target) {
	target := start(t)
	for _, c := range []struct {
		name string
		test func(*env)
	}{
		{"PublishAndRead", publishAndRead},
		{"Pipelined", pipelined},
		{"Headers", headers},
		{"Starts", starts},
		{"FilterUnion", filterUnion},
		{"ManySubscriptions", manySubscriptions},
		{"SlowReader", slowReader},
		{"LargeMessages", largeMessages},
		{"CaughtUpNotEarly", caughtUpNotEarly},
		{"Progress", progress},
		{"ResumeAtEveryPosition", resumeAtEveryPosition},
		{"ResumeAfterLostConnection", resumeAfterLostConnection},
		{"MinSeq", minSeq},
		{"Atomic", atomically},
		{"Preconditions", preconditions},
		{"ExactlyOnceOverLostConnections", exactlyOnce},
		{"Fencing", fencing},
		{"NamedProducerGoesOn", namedProducer},
		{"BadTopics", badTopics},
		{"BadFilters", badFilters},
		{"TooLarge", tooLarge},
		{"WrongCluster", wrongCluster},
		{"Gets", gets},
		{"GetsOfNothing", getsOfNothing},
		{"GetsWait", getsWait},
		{"GetsAfterLostConnection", getsAfterLostConnection},
		{"Snapshots", snapshots},
		{"LeaderMoves", leaderMoves},
		{"Gone", gone}, // these are the last: they trim what others have published
		{"GoneGets", goneGets},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(newEnv(t, target, c.name)) })
	}
}

// env is what one test works with.
type env struct {
	*testing.T
	target Target
	root   string // topic prefix of its own
	ctx    context.Context
	cuts   *cutter
}

func newEnv(t *testing.T, target Target, name string) *env {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	e := &env{T: t, target: target, ctx: ctx, cuts: &cutter{dial: target.Options.Dial}}
	e.root = fmt.Sprintf("conformance/%s %d", name, time.Now().UnixNano())
	return e
}

// connect returns a client whose connections e.cuts can cut.
func (e *env) connect() *client.Client {
	e.Helper()
	o := e.target.Options
	o.Dial = e.cuts.open
	c, err := client.Connect(e.ctx, o)
	e.must(err)
	e.Cleanup(func() { _ = c.Close() })
	return c
}

func (e *env) producer(c *client.Client, o client.ProducerOptions) *client.Producer {
	e.Helper()
	p, err := c.Producer(e.ctx, o)
	e.must(err)
	return p
}

func (e *env) subscribe(c *client.Client, o client.SubscribeOptions) *client.Subscription {
	e.Helper()
	s, err := c.Subscribe(e.ctx, o)
	e.must(err)
	e.Cleanup(func() { _ = s.Close() })
	return s
}

// all is the filter for the test's own messages.
func (e *env) all() string { return e.root + "/**" }

func (e *env) topic(name string) string { return e.root + "/" + name }

func (e *env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// wantError fails unless err is the wanted one.
func (e *env) wantError(err, want error) {
	e.Helper()
	if !errors.Is(err, want) {
		e.Errorf("error is %v, want %v", err, want)
	}
}

// eventually polls until ok holds.
func (e *env) eventually(what string, ok func() bool) {
	e.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			e.Fatalf("%s did not come", what)
		}
	}
}

// publish publishes payloads "0" to "n-1" to a topic, one at a time, and returns their acks.
func (e *env) publish(p *client.Producer, topic string, n int) []client.Ack {
	e.Helper()
	acks := make([]client.Ack, n)
	for i := range acks {
		a, err := p.PublishSync(e.ctx, topic, fmt.Append(nil, i))
		e.must(err)
		acks[i] = a
	}
	return acks
}

// read returns what a subscription with these options yields up to caught-up, at a node that has all that was published
// before, or MinSeq if that is set.
func (e *env) read(c *client.Client, o client.SubscribeOptions) []client.Message {
	e.Helper()
	if o.MinSeq == 0 {
		p := e.producer(c, client.ProducerOptions{})
		o.MinSeq = e.publish(p, "conformance end", 1)[0].Seq
		e.must(p.Close(e.ctx))
	}
	s := e.subscribe(c, o)
	defer s.Close()
	var list []client.Message
	for m, err := range s.ToCaughtUp(e.ctx) {
		e.must(err)
		list = append(list, m.Clone())
	}
	return list
}

// next returns the next n messages.
func (e *env) next(s *client.Subscription, n int) []client.Message {
	e.Helper()
	var list []client.Message
	for m, err := range s.Messages(e.ctx) {
		e.must(err)
		if list = append(list, m.Clone()); len(list) == n {
			break
		}
	}
	return list
}

// seqs are the messages' seqs.
func seqs(list []client.Message) []uint64 {
	out := make([]uint64, len(list))
	for i, m := range list {
		out[i] = m.Seq
	}
	return out
}

// cutter opens connections and cuts them.
type cutter struct {
	dial  client.DialFunc
	mu    sync.Mutex
	conns []net.Conn
}

func (c *cutter) open(ctx context.Context, addr string) (net.Conn, error) {
	dial := c.dial
	if dial == nil {
		dial = func(ctx context.Context, addr string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	nc, err := dial(ctx, addr)
	if err == nil {
		c.mu.Lock()
		c.conns = append(c.conns, nc)
		c.mu.Unlock()
	}
	return nc, err
}

// cut ends all connections opened so far.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nc := range c.conns {
		_ = nc.Close()
	}
	c.conns = nil
}
