package wire

import (
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
)

// benchBatch is n records of 128 bytes.
func benchBatch(b *testing.B, n int) record.Batch {
	var bb record.BatchBuilder
	bb.Reset(nil, nil)
	for i := range n {
		if err := bb.Add(uint32(i), nil, make([]byte, 128)); err != nil {
			b.Fatal(err)
		}
	}
	return bb.Finish(record.ProducerID{1}, 1, 1, false)
}

func benchReader(b *testing.B, frame []byte, records int, use func(*Reader, Frame)) {
	r := NewReader(&loop{b: frame}, 0)
	defer r.Close()
	b.SetBytes(int64(len(frame)))
	b.ReportAllocs()
	for b.Loop() {
		f, err := r.Next()
		if err != nil {
			b.Fatal(err)
		}
		use(r, f)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}

func BenchmarkReader(b *testing.B) {
	b.Run("ack", func(b *testing.B) {
		benchReader(b, AppendAck(nil, 1, &Ack{Count: 1}), 1, func(_ *Reader, f Frame) {
			if _, err := DecodeAck(f.Body); err != nil {
				b.Fatal(err)
			}
		})
	})
	for name, n := range map[string]int{"publish-1": 1, "publish-100": 100, "publish-1000": 1000} {
		b.Run(name, func(b *testing.B) {
			benchReader(b, AppendPublish(nil, 1, benchBatch(b, n)), n, func(r *Reader, f Frame) {
				if _, err := DecodePublish(f.Body); err != nil {
					b.Fatal(err)
				}
				r.Take().Free()
			})
		})
	}
	b.Run("data-1000", func(b *testing.B) {
		run := benchBatch(b, 1000).Records()
		frame := append(AppendDataHeader(nil, 1, 0, 1000, [][]byte{run}), run...)
		benchReader(b, frame, 1000, func(_ *Reader, f Frame) {
			if _, err := DecodeData(f.Body); err != nil {
				b.Fatal(err)
			}
		})
	})
}

func BenchmarkAppendAck(b *testing.B) {
	buf := make([]byte, 0, 64)
	a := Ack{Count: 1, FirstSeq: 100}
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendAck(buf[:0], 1, &a)
	}
}

func BenchmarkAppendDataHeader(b *testing.B) {
	run := benchBatch(b, 400).Records()
	parts := [][]byte{run}
	buf := make([]byte, 0, 64)
	b.SetBytes(int64(len(run)))
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendDataHeader(buf[:0], 1, 0, 400, parts)
	}
}
