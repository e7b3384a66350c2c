package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/cantus-bus/cantus/client"
)

// writer publishes under ids of its own and notes all in the ledger. It belongs to one goroutine.
type writer struct {
	w    *world
	name string
	p    *client.Producer
	n    int
}

// writer opens a producer.
func (w *world) writer(c *client.Client, name string, o client.ProducerOptions) *writer {
	w.Helper()
	p, err := c.Producer(w.ctx, o)
	w.must(err)
	return &writer{w: w, name: name, p: p}
}

func (x *writer) nextID() string {
	x.n++
	return fmt.Sprintf("%s-%d", x.name, x.n)
}

// publish hands a message over.
func (x *writer) publish(topic string, payload []byte) {
	id, size := x.nextID(), len(payload)
	x.w.ledger.offer(id, topic, payload)
	done := func(a client.Ack, err error) { x.w.ledger.settle(id, size, a, err) }
	if err := x.p.PublishAsync(x.w.ctx, topic, payload, done, client.Header{Key: idHeader, Value: id}); err != nil {
		x.w.Errorf("publish %s: %v", id, err)
		done(client.Ack{}, err)
	}
}

// publishSync publishes a message and waits.
func (x *writer) publishSync(topic string, payload []byte) (client.Ack, error) {
	id := x.nextID()
	x.w.ledger.offer(id, topic, payload)
	a, err := x.p.PublishSync(x.w.ctx, topic, payload, client.Header{Key: idHeader, Value: id})
	x.w.ledger.settle(id, len(payload), a, err)
	return a, err
}

// atomic publishes messages together and waits.
func (x *writer) atomic(pre []client.Precondition, messages ...client.Outgoing) (first uint64, err error) {
	ids := make([]string, len(messages))
	for i := range messages {
		ids[i] = x.nextID()
		x.w.ledger.offer(ids[i], messages[i].Topic, messages[i].Payload)
		messages[i].Headers = []client.Header{{Key: idHeader, Value: ids[i]}}
	}
	first, err = x.p.PublishAtomic(x.w.ctx, messages, pre)
	for i, id := range ids {
		a := client.Ack{Seq: first}
		if first != 0 {
			a.Seq += uint64(i)
		}
		x.w.ledger.settle(id, len(messages[i].Payload), a, err)
	}
	return first, err
}

// flush waits until all is settled.
func (x *writer) flush() {
	if err := x.p.Flush(x.w.ctx); err != nil {
		x.w.Errorf("flush %s: %v", x.name, err)
	}
}

// close ends the writer; all of its messages are settled then.
func (x *writer) close() {
	if err := x.p.Close(x.w.ctx); err != nil {
		x.w.Errorf("close %s: %v", x.name, err)
	}
}

var segments = []string{"a", "b", "a b", "x.y"}

// randomTopic is from a small tree with shared prefixes, so that filters and topics meet. It has 1 to 6 segments.
func randomTopic(r *rand.Rand) string {
	if r.IntN(6) == 0 {
		return fmt.Sprint("solo", r.IntN(3))
	}
	s := fmt.Sprint("p", r.IntN(3))
	for range r.IntN(6) {
		s += "/" + segments[r.IntN(len(segments))]
	}
	return s
}

// randomFilters overlap each other often.
func randomFilters(r *rand.Rand) []string {
	if r.IntN(12) == 0 {
		return []string{"never/there/**", "p0/never"}
	}
	var list []string
	for range 1 + r.IntN(5) {
		parts := strings.Split(randomTopic(r), "/")
		f := strings.Join(parts[:1+r.IntN(len(parts))], "/")
		if r.IntN(3) > 0 {
			f += "/**"
		}
		list = append(list, f)
	}
	if r.IntN(10) == 0 {
		list = append(list, "**")
	}
	return list
}

// matches is the meaning of filters, by strings.
func matches(filters []string, topic string) bool {
	for _, f := range filters {
		root, subtree := strings.CutSuffix(f, "/**")
		if f == "**" || f == topic || subtree && (topic == root || strings.HasPrefix(topic, root+"/")) {
			return true
		}
	}
	return false
}

// randomPayload is mostly small, at times large, and half of them can be compressed.
func randomPayload(r *rand.Rand) []byte {
	limit := 200
	switch n := r.IntN(500); {
	case n == 0:
		limit = client.MaxPayload
	case n < 25:
		limit = 64 << 10
	case n < 150:
		limit = 4 << 10
	}
	b := make([]byte, r.IntN(limit+1))
	if r.IntN(2) == 0 {
		return append(b[:0], strings.Repeat("text ", len(b)/5)...)
	}
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
