package record

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
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

func perRecord(b *testing.B, records int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}

func BenchmarkScan(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		for r := run; len(r) > 0; r = r[Scan(r):] {
			n++
		}
	}
	perRecord(b, 1000)
}

func BenchmarkNext(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	b.ReportAllocs()
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
	perRecord(b, 1000)
}

func BenchmarkStamp(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	b.ReportAllocs()
	for b.Loop() {
		seq := uint64(1)
		for r := run; len(r) > 0; r = r[Scan(r):] {
			Stamp(r, binary.LittleEndian.Uint32(r[4:]), seq, 1)
			seq++
		}
	}
	perRecord(b, 1000)
}

func BenchmarkValidateRun(b *testing.B) {
	run := eventBatch(b, 1, 1000).Records()
	b.ReportAllocs()
	for b.Loop() {
		if err := ValidateRun(run, 1000); err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b, 1000)
}

func BenchmarkValidateBatch(b *testing.B) {
	batch := eventBatch(b, 1, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if err := batch.Validate(); err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b, 1000)
}

func BenchmarkPublishBody(b *testing.B) {
	var e EntryBuilder
	fillEntry(b, &e)
	_, body, _, err := DecodeEntry(e.Finish(CodecNone, EntryHeader{}), nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var names [][]byte
	for b.Loop() {
		if names, _, err = PublishBody(body, names); err != nil {
			b.Fatal(err)
		}
	}
	perRecord(b, 100*e.Batches())
}

func BenchmarkBatchBuilder(b *testing.B) {
	payload := event(rand.New(rand.NewPCG(1, 1)), 1)
	buf := make([]byte, 0, 256<<10)
	var bb BatchBuilder
	b.ReportAllocs()
	for b.Loop() {
		bb.Reset(buf, nil)
		for i := range 1000 {
			if err := bb.Add(uint32(i), nil, payload); err != nil {
				b.Fatal(err)
			}
		}
		buf = bb.Finish(ProducerID{1}, 1, 1, false)
	}
	perRecord(b, 1000)
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
			b.ReportAllocs()
			for b.Loop() {
				e.body = e.body[:size] // as before Finish
				data = e.Finish(c, EntryHeader{})
			}
			b.ReportMetric(float64(len(e.body))/float64(len(data)), "ratio")
			perRecord(b, 100*e.Batches())
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
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := DecodeEntry(data, scratch); err != nil {
					b.Fatal(err)
				}
			}
			perRecord(b, 100*e.Batches())
		})
	}
}
