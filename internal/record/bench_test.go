package record

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// event is a game event of 128 bytes of JSON with random values; the token takes what the other values leave.
func event(rng *rand.Rand, i int) []byte {
	events := [...]string{"score", "move", "clue_found", "join", "chest_open"}
	s := fmt.Sprintf(`{"player":"p-%d","event":"%s","points":%d,"level":%d,"ts":%d,"region":"eu-%d","token":"`,
		rng.IntN(100_000), events[rng.IntN(len(events))], rng.IntN(1000), rng.IntN(50),
		1_700_000_000_000+int64(i)*7, rng.IntN(4))
	for len(s) < 126 {
		s += string("0123456789abcdef"[rng.IntN(16)])
	}
	return []byte(s + `"}`)
}

// eventBatch is a batch of n events on 64 topics.
func eventBatch(b testing.TB, seed uint64, n int) Batch {
	b.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	var bb BatchBuilder
	bb.Reset(nil, nil)
	for i := range n {
		if err := bb.Add(uint32(1000+rng.IntN(64)), nil, event(rng, i)); err != nil {
			b.Fatal(err)
		}
	}
	return bb.Finish(ProducerID{1}, 1, seed*1000+1, false)
}

// fillEntry adds batches of 100 events up to the size of an entry.
func fillEntry(b testing.TB, e *EntryBuilder) {
	e.Reset()
	for seed := uint64(1); ; seed++ {
		batch := eventBatch(b, seed, 100)
		if e.Size()+len(batch) > MaxEntryBody {
			return
		}
		e.AddBatch(batch)
	}
}

// meter reports wall and processor time per record. The latter is what to compare on a machine that does other work too.
type meter struct {
	b     *testing.B
	begin time.Duration
}

func startMeter(b *testing.B) meter {
	b.ReportAllocs()
	return meter{b, cpuTime(b)}
}

func (m meter) stop(records int) {
	n := float64(m.b.N * records)
	m.b.ReportMetric(float64(m.b.Elapsed().Nanoseconds())/n, "ns/record")
	m.b.ReportMetric(float64((cpuTime(m.b)-m.begin).Nanoseconds())/n, "cpu-ns/record")
}

// cpuTime is what the process has used of all processors.
func cpuTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkScan(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	m := startMeter(b)
	n := 0
	for b.Loop() {
		for r := run; len(r) > 0; r = r[Scan(r):] {
			n++
		}
	}
	m.stop(1000)
}

func BenchmarkNext(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	m := startMeter(b)
	n := 0
	for b.Loop() {
		for rest := run; len(rest) > 0; {
			var r Record
			var err error
			if r, rest, err = Next(rest); err != nil {
				b.Fatal(err)
			}
			n += len(r.Payload())
		}
	}
	m.stop(1000)
}

func BenchmarkStamp(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	m := startMeter(b)
	for b.Loop() {
		seq := uint64(1)
		for r := run; len(r) > 0; r = r[Scan(r):] {
			Stamp(r, binary.LittleEndian.Uint32(r[4:]), seq, 1)
			seq++
		}
	}
	m.stop(1000)
}

func BenchmarkValidateRun(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	m := startMeter(b)
	for b.Loop() {
		if err := ValidateRun(run, 1000); err != nil {
			b.Fatal(err)
		}
	}
	m.stop(1000)
}

func BenchmarkValidateBatch(b *testing.B) {
	batch := eventBatch(b, 1, 1000)
	m := startMeter(b)
	for b.Loop() {
		if err := batch.Validate(); err != nil {
			b.Fatal(err)
		}
	}
	m.stop(1000)
}

func BenchmarkPublishBody(b *testing.B) {
	var e EntryBuilder
	fillEntry(b, &e)
	_, body, _, err := DecodeEntry(e.Finish(CodecNone, EntryHeader{}), nil)
	if err != nil {
		b.Fatal(err)
	}
	m := startMeter(b)
	var names [][]byte
	for b.Loop() {
		if names, _, err = PublishBody(body, names); err != nil {
			b.Fatal(err)
		}
	}
	m.stop(100 * e.Batches())
}

func BenchmarkBatchBuilder(b *testing.B) {
	payload := event(rand.New(rand.NewPCG(1, 1)), 1)
	buf := make([]byte, 0, 256<<10)
	var bb BatchBuilder
	m := startMeter(b)
	for b.Loop() {
		bb.Reset(buf, nil)
		for i := range 1000 {
			if err := bb.Add(uint32(i), nil, payload); err != nil {
				b.Fatal(err)
			}
		}
		buf = bb.Finish(ProducerID{1}, 1, 1, false)
	}
	m.stop(1000)
}

// BenchmarkCompress and BenchmarkDecompress print the speed over raw bytes and the ratio for entries of 256 KiB.
func BenchmarkCompress(b *testing.B) {
	for c := CodecNone; c <= CodecZstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			var e EntryBuilder
			fillEntry(b, &e)
			size := len(e.body)
			data := e.Finish(c, EntryHeader{})
			b.SetBytes(int64(len(e.body)))
			m := startMeter(b)
			for b.Loop() {
				e.body = e.body[:size] // as before Finish
				data = e.Finish(c, EntryHeader{})
			}
			b.ReportMetric(float64(len(e.body))/float64(len(data)), "ratio")
			m.stop(100 * e.Batches())
		})
	}
}

func BenchmarkDecompress(b *testing.B) {
	for c := CodecNone; c <= CodecZstd; c++ {
		b.Run(c.String(), func(b *testing.B) {
			var e EntryBuilder
			fillEntry(b, &e)
			data := e.Finish(c, EntryHeader{})
			scratch := make([]byte, len(e.body))
			b.SetBytes(int64(len(e.body)))
			m := startMeter(b)
			for b.Loop() {
				if _, _, _, err := DecodeEntry(data, scratch); err != nil {
					b.Fatal(err)
				}
			}
			m.stop(100 * e.Batches())
		})
	}
}
