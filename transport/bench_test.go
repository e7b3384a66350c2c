package transport_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/wire"
	"github.com/cantus-bus/cantus/tipstore"
)

const benchPayload = 128

// cpu is the processor time this process has used: unlike the clock it does not count what others do on the machine. It
// covers both ends of the connection.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// drain reads frames as cheaply as can be until a CAUGHT_UP and returns the messages of its DATA frames.
func drain(b *testing.B, r *bufio.Reader) (messages int) {
	var head [wire.DataHeaderSize]byte
	for {
		if _, err := io.ReadFull(r, head[:wire.HeaderSize]); err != nil {
			b.Fatal(err)
		}
		rest, kind := int(binary.LittleEndian.Uint32(head[:]))-wire.HeaderSize, wire.Type(head[5])
		if kind == wire.TData {
			n, err := io.ReadFull(r, head[wire.HeaderSize:])
			if err != nil {
				b.Fatal(err)
			}
			rest -= n
			messages += int(binary.LittleEndian.Uint32(head[24:]))
		}
		if _, err := r.Discard(rest); err != nil {
			b.Fatal(err)
		}
		if kind == wire.TCaughtUp {
			return messages
		}
	}
}

// decode reads and checks frames until a CAUGHT_UP, and looks at every record.
func decode(b *testing.B, r *wire.Reader) (messages int) {
	var last uint64
	for {
		f, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		switch f.Type {
		case wire.TData:
			d, err := wire.DecodeData(f.Body)
			if err != nil {
				b.Fatal(err)
			}
			for run := d.Run; len(run) > 0; run = run[record.Scan(run):] {
				if seq := record.Record(run).Seq(); seq <= last {
					b.Fatalf("seq %d after %d", seq, last)
				} else {
					last = seq
				}
				messages++
			}
		case wire.TCaughtUp:
			return messages
		}
	}
}

// BenchmarkSubsetRead reads a part of a full tip, over loopback, to one reader.
func BenchmarkSubsetRead(b *testing.B) {
	f := start(b, func(s *setup) { s.stream.Tip = tipstore.Options{SizeBytes: 256 << 20} })
	const total, partitions = 1 << 20, 1000
	payload := strings.Repeat("x", benchPayload)
	for i := 0; i < total; i += 1024 {
		list := make([]message, 1024)
		for j := range list {
			list[j] = message{topicName("a", (i+j)%partitions, (i+j)%10), payload}
		}
		f.publish(list...)
	}
	subsets := []struct {
		name    string
		filters []string
	}{{"all", []string{"**"}}, {"half", nil}, {"tenth", nil}, {"hundredth", nil}}
	for i, n := range []int{0, partitions / 2, partitions / 10, partitions / 100} {
		for p := range n {
			subsets[i].filters = append(subsets[i].filters, topicName("a", p*partitions/n, "**"))
		}
	}
	for _, s := range subsets {
		for _, client := range []string{"drain", "decode"} {
			b.Run(s.name+"/"+client, func(b *testing.B) { f.benchRead(b, s.filters, client == "decode") })
		}
	}
}

func (f *fixture) benchRead(b *testing.B, filters []string, decoding bool) {
	nc, err := net.Dial("tcp", f.addr)
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(wire.AppendHello(nil, &wire.Hello{MinVersion: 1, MaxVersion: 1})); err != nil {
		b.Fatal(err)
	}
	raw, frames := bufio.NewReaderSize(nc, 256<<10), wire.NewReader(nc, 0)
	b.ReportAllocs()
	messages, began := 0, cpu(b)
	for id := uint32(1); b.Loop(); id++ {
		s := wire.AppendSubscribe(nil, id, &wire.Subscribe{Filters: filters, Credit: 1 << 40})
		if _, err := nc.Write(s); err != nil {
			b.Fatal(err)
		}
		if decoding {
			messages += decode(b, frames)
		} else {
			messages += drain(b, raw)
		}
		if _, err := nc.Write(wire.AppendEmpty(nil, wire.TUnsubscribe, id)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(messages)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
	b.ReportMetric(float64(messages)/float64(b.N), "msg/op")
	b.ReportMetric(float64(cpu(b)-began)/float64(messages), "cpu-ns/msg")
}

// publisher sends the same batch again and again and counts acks.
type publisher struct {
	nc     net.Conn
	frames []byte // several, so that the client's system calls do not count for much
	per    int    // in frames
	acks   *bufio.Reader
}

func (f *fixture) publisher(b *testing.B, count int) *publisher {
	p := f.connect()
	p.define("bench/publish/topic")
	payloads := make([]string, count)
	for i := range payloads {
		payloads[i] = strings.Repeat("x", benchPayload)
	}
	p.publish(1, batchOn(b, 0, payloads...))
	p.expectAck(1)
	q := &publisher{nc: p.nc, acks: bufio.NewReaderSize(p.nc, 64<<10)}
	for len(q.frames) < 64<<10 {
		q.frames = wire.AppendPublish(q.frames, 2, batchOn(b, 0, payloads...))
		q.per++
	}
	return q
}

// run publishes n batches and waits for their acks.
func (p *publisher) run(b *testing.B, n int) {
	var wait sync.WaitGroup
	wait.Go(func() {
		for left := n; left > 0; left -= p.per {
			frames := p.frames[:len(p.frames)/p.per*min(left, p.per)]
			if _, err := p.nc.Write(frames); err != nil {
				b.Error(err)
				return
			}
		}
	})
	ack := len(wire.AppendAck(nil, 1, &wire.Ack{}))
	p.nc.SetReadDeadline(time.Now().Add(5 * time.Minute))
	for range n {
		if _, err := p.acks.Discard(ack); err != nil {
			b.Error(err)
			break
		}
	}
	wait.Wait()
}

// BenchmarkPublish is the way socket to ring, with acks, through a broker without raft. ns/op and allocs/op are per message.
func BenchmarkPublish(b *testing.B) {
	for _, count := range []int{1, 16, 512} {
		b.Run(fmt.Sprintf("batch %d", count), func(b *testing.B) {
			f := start(b, func(s *setup) { s.options.Heartbeat = time.Hour })
			p := f.publisher(b, count)
			p.run(b, 1000)
			b.ReportAllocs()
			began := cpu(b)
			b.ResetTimer()
			p.run(b, max(1, b.N/count))
			b.ReportMetric(float64(cpu(b)-began)/float64(b.N), "cpu-ns/msg")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
}

// BenchmarkPublishBesideIdle compares the publish rate with and without ten thousand subscriptions that match nothing.
func BenchmarkPublishBesideIdle(b *testing.B) {
	for _, idle := range []int{0, 1, 10_000} {
		b.Run(fmt.Sprintf("idle %d", idle), func(b *testing.B) {
			f := start(b, func(s *setup) {
				s.options.Heartbeat = time.Hour
				s.stream.Tip = tipstore.Options{SizeBytes: 512 << 20} // not turned over between two progress ticks
			})
			for n := 0; n < idle; n += 1000 {
				q := f.connect()
				for i := range min(1000, idle) {
					q.subscribe(uint32(i+1), wire.Subscribe{Filters: []string{topicName("idle", n+i, "**")}})
				}
				go q.drop()
			}
			eventually(b, "all are open", func() bool { return f.metric("subscriptions") == float64(idle) })
			p := f.publisher(b, 64)
			p.run(b, 1000)
			began := cpu(b)
			b.ResetTimer()
			p.run(b, max(1, b.N/64))
			b.ReportMetric(float64(cpu(b)-began)/float64(b.N), "cpu-ns/msg")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mmsg/s")
		})
	}
}

// BenchmarkCopyOrDirect decides Options.CopyBelow: stretches of a size, copied into the write buffer or written from the ring.
func BenchmarkCopyOrDirect(b *testing.B) {
	for _, part := range []int{512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 32 << 10} {
		for _, way := range []struct {
			name  string
			below int
		}{{"copied", 1 << 30}, {"direct", 1}} {
			b.Run(fmt.Sprintf("part %d/%s", part, way.name), func(b *testing.B) {
				f := start(b, func(s *setup) {
					s.stream.Tip = tipstore.Options{SizeBytes: 256 << 20}
					s.options.CopyBelow = way.below
				})
				for range 32 << 20 / part {
					f.publish(message{"wanted", strings.Repeat("x", part-record.HeaderSize)}, message{"foreign", "x"})
				}
				f.benchRead(b, []string{"wanted"}, false)
				b.ReportMetric(float64(b.N)*(32<<20)/b.Elapsed().Seconds()/1e6, "MB/s")
			})
		}
	}
}
