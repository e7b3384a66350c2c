package client_test

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/cantus-bus/cantus/client"
	"github.com/cantus-bus/cantus/client/fake"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
)

// stub is a server that does as little as it can, so that a benchmark measures the client: it acknowledges every publish
// and answers a subscription with frames made before.
type stub struct {
	nc     net.Conn
	seq    uint64
	credit int
	fill   func(sub uint32, prev uint64) (frame []byte, last uint64)
}

func dialStub(fill func(uint32, uint64) ([]byte, uint64)) client.DialFunc {
	return func(context.Context, string) (net.Conn, error) {
		near, far := fake.Pipe()
		s := &stub{nc: far, fill: fill}
		go s.serve()
		return near, nil
	}
}

func (s *stub) serve() {
	defer s.nc.Close()
	r := wire.NewReader(s.nc, wire.MaxFrame)
	defer r.Close()
	var out []byte
	for {
		f, err := r.Next()
		if err != nil {
			return
		}
		if out = s.answer(out[:0], &f); len(out) == 0 {
			continue
		}
		if _, err := s.nc.Write(out); err != nil {
			return
		}
	}
}

func (s *stub) answer(out []byte, f *wire.Frame) []byte {
	switch f.Type {
	case wire.THello:
		return wire.AppendWelcome(out, &wire.Welcome{Version: wire.Version, NodeID: "stub",
			Topology: wire.Topology{ClusterID: "stub", LeaderID: "stub", Nodes: []wire.NodeInfo{{ID: "stub", ClientAddr: "stub:1"}}}})
	case wire.TOpenProducer:
		return wire.AppendProducerOpened(out, f.ID, wire.ProducerOpened{Epoch: 1})
	case wire.TPublish:
		n := record.Batch(f.Body).Header().Count
		a := wire.Ack{Count: n, FirstSeq: s.seq + 1, Time: 1}
		s.seq += uint64(n)
		return wire.AppendAck(out, f.ID, &a)
	case wire.TSubscribe:
		out = wire.AppendSubscribed(out, f.ID, &wire.Subscribed{Next: 1, Head: 1 << 60})
		out = wire.AppendTopicNames(out, []wire.TopicName{{ID: 1, Name: "a/b"}, {ID: 2, Name: "a/c"}})
		fallthrough
	case wire.TCredit:
		if f.Type == wire.TCredit {
			n, _ := wire.DecodeCredit(f.Body)
			s.credit += int(n)
		} else {
			sub, _ := wire.DecodeSubscribe(f.Body)
			s.credit += int(sub.Credit)
		}
		for s.credit > 0 {
			frame, last := s.fill(f.ID, s.seq)
			s.credit -= len(frame) - wire.DataHeaderSize
			s.seq = last
			out = append(out, frame...)
		}
	case wire.TPing:
		return wire.AppendEmpty(out, wire.TPong, f.ID)
	}
	return out
}

func stubClient(b *testing.B, fill func(uint32, uint64) ([]byte, uint64)) *client.Client {
	c, err := client.Connect(context.Background(), client.Options{Servers: []string{"stub:1"}, Dial: dialStub(fill)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	return c
}

// BenchmarkPublish measures Publish into a server that acknowledges everything: the cost a message, and its heap
// allocations.
func BenchmarkPublish(b *testing.B) {
	for _, topics := range []int{1, 1000, 1_000_000} {
		b.Run(fmt.Sprint("topics=", topics), func(b *testing.B) {
			c := stubClient(b, nil)
			ctx := context.Background()
			p, err := c.Producer(ctx, client.ProducerOptions{OnAck: func(client.BatchAck) {}})
			if err != nil {
				b.Fatal(err)
			}
			names := make([]string, topics)
			for i := range names {
				names[i] = fmt.Sprintf("bench/partition-%d/topic-%d", i%1000, i)
			}
			payload := make([]byte, 128)
			for i := range max(topics, 1<<16) { // all names known, all buffers there
				if err := p.Publish(ctx, names[i%topics], payload); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(payload)))
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				if err := p.Publish(ctx, names[i%topics], payload); err != nil {
					b.Fatal(err)
				}
			}
			if err := p.Flush(ctx); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
			_ = p.Close(ctx)
		})
	}
}

// filler makes data frames of 400 messages of 128 bytes.
func filler() func(sub uint32, prev uint64) ([]byte, uint64) {
	const each = 400
	payload := make([]byte, 128)
	var run, out []byte
	for i := range each {
		run, _ = record.AppendRecord(run, uint32(1+i%2), nil, payload)
	}
	return func(sub uint32, prev uint64) ([]byte, uint64) {
		seq := prev
		for rest := run; len(rest) > 0; rest = rest[record.Scan(rest):] {
			seq++
			record.Stamp(rest, record.Record(rest).Topic(), seq, int64(seq))
		}
		out = wire.AppendDataHeader(out[:0], sub, prev, each, [][]byte{run})
		out = append(out, run...)
		return out, seq
	}
}

// BenchmarkRead measures reading from a server in the same process that sends frames as fast as it can: its share of the
// work is in the figures.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	open := func(b *testing.B) *client.Subscription {
		c := stubClient(b, filler())
		s, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"**"}, BufferBytes: 512 << 10})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(128)
		b.ReportAllocs()
		b.ResetTimer()
		return s
	}
	b.Run("Messages", func(b *testing.B) {
		n, sum := 0, 0
		for m, err := range open(b).Messages(ctx) {
			if err != nil {
				b.Fatal(err)
			}
			sum += len(m.Payload) + len(m.Topic)
			if n++; n >= b.N {
				break
			}
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msgs/s")
	})
	b.Run("NextBatch", func(b *testing.B) {
		s := open(b)
		n, sum := 0, 0
		for n < b.N {
			batch, err := s.NextBatch(ctx)
			if err != nil {
				b.Fatal(err)
			}
			for m := range batch.All() {
				sum += len(m.Payload) + len(m.Topic)
			}
			n += batch.Len()
		}
		b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "msgs/s")
	})
}

// BenchmarkServer measures publishing to the real server without raft over loopback, and reading back from it: client,
// server and sockets share the machine.
func BenchmarkServer(b *testing.B) {
	ctx := context.Background()
	c, err := client.Connect(ctx, client.Options{Servers: []string{singleNode(b)}})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	p, err := c.Producer(ctx, client.ProducerOptions{})
	if err != nil {
		b.Fatal(err)
	}
	payload := make([]byte, 128)
	b.Run("Publish", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if err := p.Publish(ctx, "bench/a", payload); err != nil {
				b.Fatal(err)
			}
		}
		if err := p.Flush(ctx); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	})
	b.Run("PublishSync", func(b *testing.B) {
		for range b.N {
			if _, err := p.PublishSync(ctx, "bench/a", payload); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Read", func(b *testing.B) {
		b.ReportAllocs()
		for n := 0; n < b.N; {
			s, err := c.Subscribe(ctx, client.SubscribeOptions{Filters: []string{"**"}})
			if err != nil {
				b.Fatal(err)
			}
			for {
				batch, err := s.NextBatch(ctx)
				if err != nil {
					b.Fatal(err)
				}
				if n += batch.Len(); n >= b.N || batch.CaughtUp() {
					break
				}
			}
			_ = s.Close()
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
	})
}
