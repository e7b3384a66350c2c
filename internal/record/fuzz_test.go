package record

import (
	"bytes"
	"errors"
	"testing"
)

// readAll touches every view of a validated batch: none may panic, and laying it out again gives the same bytes.
func readAll(t *testing.T, b Batch) {
	h := b.Header()
	var pre []Precondition
	for i := range h.Preconditions {
		pre = append(pre, b.Precondition(i))
	}
	var again BatchBuilder
	again.Reset(nil, pre)
	for run := b.Records(); len(run) > 0; {
		r, rest, err := Next(run)
		if err != nil {
			t.Fatalf("a validated batch holds a bad record: %v", err)
		}
		if err := again.Add(r.Topic(), r.Headers(), r.Payload()); err != nil {
			t.Fatalf("a validated record cannot be encoded: %v", err)
		}
		run = rest
	}
	if !bytes.Equal(again.Finish(h.Producer, h.Epoch, h.Number, h.Atomic), b) {
		t.Fatal("a validated batch has a second encoding")
	}
}

func FuzzValidateBatch(f *testing.F) {
	f.Add([]byte(batchBytes(f)))
	run := mustRecord(f, nil, 3, []Header{{Key: "k", Value: "v"}}, "payload")
	var b BatchBuilder
	b.Reset(nil, nil)
	f.Add([]byte(append(b.buf, run...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Batch(data).Validate()
		if err == nil {
			readAll(t, data)
		} else if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("not of the family: %v", err)
		}
	})
}

func FuzzValidateRun(f *testing.F) {
	f.Add([]byte(batchBytes(f).Records()), 2)
	f.Add(mustRecord(f, nil, 3, []Header{{Key: "k", Value: "v"}}, "payload"), 1)
	f.Fuzz(func(t *testing.T, data []byte, count int) {
		if ValidateRun(data, count) != nil {
			return
		}
		n := 0
		for run := data; len(run) > 0; run = run[Scan(run):] {
			r := First(run)
			if len(r.Headers()) > 0 != r.HasHeaders() || r.BodyBytes() < len(r.Payload()) {
				t.Fatal("views disagree")
			}
			n++
		}
		if n != count {
			t.Fatalf("%d records, validated as %d", n, count)
		}
	})
}

// FuzzDecodeEntry makes the checksum right, so that the fuzzer reaches what is behind it.
func FuzzDecodeEntry(f *testing.F) {
	for c := CodecNone; c <= CodecZstd; c++ {
		f.Add(entryBytes(f, c))
	}
	f.Add(EncodeEntry(EntryHeader{Kind: KindCheckpoint}, make([]byte, 8)))
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= EntryHeaderSize {
			data = reseal(bytes.Clone(data))
			if le.Uint32(data[entryRawSizeAt:]) > 4<<20 {
				return // within bounds, but slow to try
			}
		}
		h, body, _, err := DecodeEntry(data, nil)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("not of the family: %v", err)
			}
			return
		}
		if len(body) != int(h.RawSize) {
			t.Fatalf("body of %d bytes, header says %d", len(body), h.RawSize)
		}
		checkPublishBody(t, body)
	})
}

func FuzzPublishBody(f *testing.F) {
	f.Add(bytes.Clone(entryBytes(f, CodecNone)[EntryHeaderSize:]))
	f.Fuzz(checkPublishBody)
}

func checkPublishBody(t *testing.T, body []byte) {
	names, batches, err := PublishBody(body, nil)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatalf("not of the family: %v", err)
		}
		return
	}
	total := 0
	for len(batches) > 0 {
		var b Batch
		b, batches = NextBatch(batches)
		readAll(t, b)
		total += len(b)
	}
	for _, name := range names {
		total += 2 + len(name)
	}
	if pad(total+publishHeaderSize) != len(body) {
		t.Fatalf("parts have %d bytes, the body %d", total, len(body))
	}
}
