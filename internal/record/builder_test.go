package record

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestAppendRecordLimits(t *testing.T) {
	header := func(key, value int) []Header {
		return []Header{{Key: strings.Repeat("k", key), Value: strings.Repeat("v", value)}}
	}
	tests := []struct {
		name    string
		headers []Header
		payload int
		want    error
	}{
		{"empty", nil, 0, nil},
		{"largest payload", nil, MaxPayload, nil},
		{"payload too large", nil, MaxPayload + 1, ErrTooLarge},
		{"largest headers", header(1, MaxHeaderBytes-4), 1, nil},
		{"headers too large", header(1, MaxHeaderBytes-3), 1, ErrTooLarge},
		{"value over 16 bits", header(1, 1<<16), 1, ErrTooLarge},
		{"longest key", header(MaxHeaderKey, 0), 1, nil},
		{"key too long", header(MaxHeaderKey+1, 0), 1, ErrBadHeader},
		{"key empty", header(0, 1), 1, ErrBadHeader},
		{"key not UTF-8", []Header{{Key: "\xff"}}, 1, ErrBadHeader},
		{"value not UTF-8", []Header{{Key: "k", Value: "\xff"}}, 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := mustRecord(t, nil, 1, nil, "before")
			out, err := AppendRecord(before, 2, tt.headers, make([]byte, tt.payload))
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if err != nil {
				if len(out) != len(before) {
					t.Fatal("a refused message changed the run")
				}
				return
			}
			if err := ValidateRun(out, 2); err != nil {
				t.Fatal(err)
			}
			if len(out)-len(before) != PaddedSize(tt.headers, tt.payload) {
				t.Fatalf("added %d, PaddedSize says %d", len(out)-len(before), PaddedSize(tt.headers, tt.payload))
			}
		})
	}
}

func TestStamp(t *testing.T) {
	run := mustRecord(t, nil, 1, []Header{{Key: "k", Value: "v"}}, "payload")
	Stamp(run, 9, 100, -5)
	r, _, err := Next(run)
	if err != nil || r.Topic() != 9 || r.Seq() != 100 || r.Time() != -5 || string(r.Payload()) != "payload" {
		t.Fatalf("%v: topic %d seq %d time %d payload %q", err, r.Topic(), r.Seq(), r.Time(), r.Payload())
	}
	if want := len("payload") + 2 + 3 + 2; r.BodyBytes() != want {
		t.Fatalf("BodyBytes is %d, want %d", r.BodyBytes(), want)
	}
}

// TestLargestMessageFits: one message at all limits, with all preconditions, is a valid batch and entry.
func TestLargestMessageFits(t *testing.T) {
	var b BatchBuilder
	b.Reset(nil, make([]Precondition, MaxPreconditions))
	headers := []Header{{Key: "k", Value: strings.Repeat("v", MaxHeaderBytes-4)}}
	if err := b.Add(1, headers, make([]byte, MaxPayload)); err != nil {
		t.Fatal(err)
	}
	batch := b.Finish(ProducerID{1}, 1, 1, false)
	if err := batch.Validate(); err != nil {
		t.Fatal(err)
	}
	if !batch.Header().Atomic {
		t.Fatal("preconditions did not make the batch atomic")
	}
}

func TestBatchBuilderLimits(t *testing.T) {
	var b BatchBuilder
	b.Reset(nil, make([]Precondition, MaxPreconditions+1))
	if err := b.Add(1, nil, nil); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("too many preconditions: %v", err)
	}
	if out := b.Finish(ProducerID{}, 0, 0, false); out != nil {
		t.Fatal("a batch without records")
	}
	b.Reset(nil, nil)
	for {
		err := b.Add(1, nil, make([]byte, 100))
		if err != nil {
			if !errors.Is(err, ErrBatchFull) {
				t.Fatal(err)
			}
			break
		}
	}
	if free := MaxBatchBytes - b.Size(); free >= PaddedSize(nil, 100) {
		t.Fatalf("full with %d bytes free", free)
	}
	out := b.Finish(ProducerID{}, 3, 4, false) // epoch and number mean nothing without a producer
	if err := out.Validate(); err != nil {
		t.Fatal(err)
	}
}

// TestLargestEntryFits names as many new topics of the longest name as one batch can: what a proposer builds, every node must
// take, or all of them would stop at it.
func TestLargestEntryFits(t *testing.T) {
	name := func(i int) string { return fmt.Sprintf("%0*d", MaxTopicBytes, i) }
	var b BatchBuilder
	b.Reset(nil, make([]Precondition, MaxPreconditions))
	for b.Add(0, nil, nil) == nil {
	}
	var e EntryBuilder
	e.Reset()
	batch := Batch(e.AddBatch(b.Finish(ProducerID{}, 0, 0, true)))
	n := 0
	ref := func() uint32 { n++; return e.NewTopicRef(name(n)) }
	for i := range MaxPreconditions {
		batch.SetPreconditionTopic(i, ref())
	}
	for run := batch.Records(); len(run) > 0; run = run[Scan(run):] {
		SetTopic(run, ref())
	}
	size := e.Size()
	_, body, _, err := DecodeEntry(e.Finish(CodecNone, EntryHeader{}), nil)
	if err == nil {
		_, _, err = PublishBody(body, nil)
	}
	if err != nil {
		t.Fatalf("an entry of %d bytes with %d new topics: %v", size, n, err)
	}
	if free := MaxEntryRaw - size; free >= HeaderSize+2+MaxTopicBytes {
		t.Errorf("MaxEntryRaw has %d bytes that no entry needs", free)
	}
}

// TestBuilderReuse lays a second batch into the memory of the first, without traces of it.
func TestBuilderReuse(t *testing.T) {
	var b BatchBuilder
	b.Reset(nil, []Precondition{{Topic: 1, LastSeq: 2}})
	if err := b.Add(1, nil, bytes.Repeat([]byte{0xff}, 500)); err != nil {
		t.Fatal(err)
	}
	first := b.Finish(ProducerID{1}, 1, 1, true)
	b.Reset(first, nil)
	if err := b.Add(1, nil, []byte("x")); err != nil {
		t.Fatal(err)
	}
	second := b.Finish(ProducerID{}, 0, 0, false)
	if err := second.Validate(); err != nil {
		t.Fatal(err)
	}
	if &first[0] != &second[0] {
		t.Fatal("the buffer was not reused")
	}
}

// TestCompressionIsKeptOnlyIfItPays holds random bytes, which no codec makes smaller, against a repeated batch.
func TestCompressionIsKeptOnlyIfItPays(t *testing.T) {
	random := make([]byte, 4096)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for c := CodecNone; c <= CodecZstd; c++ {
		for _, tt := range []struct {
			payload []byte
			want    Codec
		}{{random, CodecNone}, {make([]byte, 4096), c}} {
			var b BatchBuilder
			b.Reset(nil, nil)
			if err := b.Add(1, nil, tt.payload); err != nil {
				t.Fatal(err)
			}
			var e EntryBuilder
			e.Reset()
			e.AddBatch(b.Finish(ProducerID{}, 0, 0, false))
			data := e.Finish(c, EntryHeader{})
			h, body, _, err := DecodeEntry(data, nil)
			if err != nil || h.Codec != tt.want || len(body) != e.Size() {
				t.Fatalf("%s: kept %s, want %s: %v", c, h.Codec, tt.want, err)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for c := CodecNone; c <= CodecZstd; c++ {
		if got, err := ParseCodec(c.String()); err != nil || got != c {
			t.Fatalf("codec %s parses as %s, %v", c, got, err)
		}
	}
	if _, err := ParseCodec("brotli"); err == nil || !strings.Contains(err.Error(), "zstd") {
		t.Fatalf("unknown codec: %v", err)
	}
	if s := Codec(9).String(); s != "codec(9)" {
		t.Fatal(s)
	}
	if KindPublish.String() != "publish" || KindCheckpoint.String() != "checkpoint" || Kind(0).String() != "kind(0)" {
		t.Fatal("names of kinds are shifted")
	}
}

func TestEncodeEntry(t *testing.T) {
	want := EntryHeader{Kind: KindCheckpoint, Codec: CodecZstd, Time: 5, Proposer: 6, Proposal: 7}
	data := EncodeEntry(want, []byte("12345678"))
	h, body, _, err := DecodeEntry(data, nil)
	want.Codec, want.RawSize = CodecNone, 8
	if err != nil || h != want || string(body) != "12345678" {
		t.Fatalf("%+v %q %v", h, body, err)
	}
}

// TestHotPathsDoNotAllocate covers what runs per message or per entry in a node.
func TestHotPathsDoNotAllocate(t *testing.T) {
	entries := map[string][]byte{}
	for c := CodecNone; c <= CodecZstd; c++ {
		entries[c.String()] = entryBytes(t, c)
	}
	batch := batchBytes(t)
	scratch := make([]byte, 1<<20)
	var names [][]byte
	var e EntryBuilder
	var b BatchBuilder
	buf := make([]byte, 0, 1024)
	payload := []byte("hello")
	works := map[string]func(){
		"validate": func() {
			if batch.Validate() != nil || ValidateRun(batch.Records(), 2) != nil {
				panic("bad batch")
			}
		},
		"scan and stamp": func() {
			for run := batch.Records(); len(run) > 0; run = run[Scan(run):] {
				Stamp(run, First(run).Topic(), 0, 0)
			}
		},
		"batch builder": func() {
			b.Reset(buf, nil)
			if b.Add(1, nil, payload) != nil || len(b.Finish(ProducerID{}, 0, 0, false)) == 0 {
				panic("bad batch")
			}
		},
		"entry builder": func() {
			e.Reset()
			SetTopic(Batch(e.AddBatch(batch)).Records(), e.NewTopicRef("a/b"))
		},
	}
	for codec, data := range entries {
		works["decode "+codec] = func() {
			_, body, out, err := DecodeEntry(data, scratch)
			if err != nil {
				panic(err)
			}
			scratch = out
			if names, _, err = PublishBody(body, names); err != nil {
				panic(err)
			}
		}
	}
	for name, work := range works {
		if n := testing.AllocsPerRun(100, work); n != 0 && !raceEnabled {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
