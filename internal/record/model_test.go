package record

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// message is a record as a user thinks of it: the slow model that encodings are held against.
type message struct {
	topic   uint32
	headers []Header
	payload []byte
}

func drawHeaders(t *rapid.T) []Header {
	key := rapid.StringN(1, 20, MaxHeaderKey)
	value := rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 40), func(b []byte) string { return string(b) })
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Header {
		return Header{Key: key.Draw(t, "key"), Value: value.Draw(t, "value")}
	}), 0, 4).Draw(t, "headers")
}

func drawMessages(t *rapid.T) []message {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) message {
		return message{
			topic:   rapid.Uint32Max(NewTopic-1).Draw(t, "topic"),
			headers: drawHeaders(t),
			payload: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "payload"),
		}
	}), 1, 20).Draw(t, "messages")
}

// checkRun walks a run with Next and with Scan and compares it with the messages.
func checkRun(t interface{ Fatalf(string, ...any) }, run []byte, want []message) {
	for i, m := range want {
		if got := Scan(run); got != PaddedSize(m.headers, len(m.payload)) {
			t.Fatalf("message %d: Scan says %d bytes, PaddedSize %d", i, got, PaddedSize(m.headers, len(m.payload)))
		}
		first := First(run)
		r, rest, err := Next(run)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if !bytes.Equal(first, r) || len(run)-len(rest) != Scan(run) {
			t.Fatalf("message %d: First, Next and Scan disagree", i)
		}
		if r.Topic() != m.topic || !bytes.Equal(r.Payload(), m.payload) || r.HasHeaders() != (len(m.headers) > 0) {
			t.Fatalf("message %d: got topic %d payload %x headers %v, want %+v", i, r.Topic(), r.Payload(), r.HasHeaders(), m)
		}
		got := r.Headers()
		if len(got) != len(m.headers) {
			t.Fatalf("message %d: %d headers, want %d", i, len(got), len(m.headers))
		}
		for j := range got {
			if got[j] != m.headers[j] {
				t.Fatalf("message %d: header %d is %q, want %q", i, j, got[j], m.headers[j])
			}
		}
		run = rest
	}
	if len(run) != 0 {
		t.Fatalf("%d bytes after the last message", len(run))
	}
}

func drawBatch(t *rapid.T) (Batch, BatchHeader, []Precondition, []message) {
	var p ProducerID
	copy(p[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "producer"))
	want := BatchHeader{Producer: p}
	if p != (ProducerID{}) {
		want.Epoch = rapid.Uint32Min(1).Draw(t, "epoch")
		want.Number = rapid.Uint64Range(1, 1<<63).Draw(t, "number")
	}
	pre := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Precondition {
		return Precondition{Topic: rapid.Uint32Max(NewTopic-1).Draw(t, "topic"), LastSeq: rapid.Uint64().Draw(t, "last")}
	}), 0, 3).Draw(t, "preconditions")
	want.Preconditions = len(pre)
	want.Atomic = rapid.Bool().Draw(t, "atomic") || len(pre) > 0
	messages := drawMessages(t)
	want.Count = uint32(len(messages))

	var b BatchBuilder
	b.Reset(nil, pre)
	for _, m := range messages {
		if err := b.Add(m.topic, m.headers, m.payload); err != nil {
			t.Fatalf("add: %v", err)
		}
	}
	want.Size = uint32(b.Size())
	if b.Count() != len(messages) {
		t.Fatalf("Count is %d after %d", b.Count(), len(messages))
	}
	return b.Finish(p, want.Epoch, want.Number, want.Atomic), want, pre, messages
}

func TestBatchRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, want, pre, messages := drawBatch(t)
		if err := b.Validate(); err != nil {
			t.Fatalf("validate: %v", err)
		}
		if got := b.Header(); got != want {
			t.Fatalf("header\n got %+v\nwant %+v", got, want)
		}
		for i, p := range pre {
			if b.Precondition(i) != p {
				t.Fatalf("precondition %d is %+v, want %+v", i, b.Precondition(i), p)
			}
		}
		checkRun(t, b.Records(), messages)
		if err := ValidateRun(b.Records(), len(messages)); err != nil {
			t.Fatalf("ValidateRun: %v", err)
		}
	})
}

func TestEntryRoundTrip(t *testing.T) {
	var e EntryBuilder // reused across runs: what is left over must not show
	var scratch []byte
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringN(1, 30, MaxTopicBytes), 0, 10, rapid.ID[string]).Draw(t, "names")
		h := EntryHeader{
			Time:     rapid.Int64().Draw(t, "time"),
			Proposer: rapid.Uint64().Draw(t, "proposer"),
			Proposal: rapid.Uint64().Draw(t, "proposal"),
		}
		codec := Codec(rapid.IntRange(0, 3).Draw(t, "codec"))
		e.Reset()
		var want [][]byte
		refs := map[uint32]string{}
		for range rapid.IntRange(1, 5).Draw(t, "batches") {
			b, _, _, _ := drawBatch(t)
			out := e.AddBatch(b)
			rewriteTopics(t, &e, out, names, refs)
			want = append(want, bytes.Clone(out))
		}
		size := e.Size()
		data := e.Finish(codec, h)
		if e.Batches() != len(want) {
			t.Fatalf("%d batches, added %d", e.Batches(), len(want))
		}
		scratch = checkEntry(t, data, scratch, size, h, want, refs)
	})
}

// rewriteTopics gives every third record, and every precondition, a new topic, and remembers which.
func rewriteTopics(t *rapid.T, e *EntryBuilder, out []byte, names []string, refs map[uint32]string) {
	if len(names) == 0 {
		return
	}
	b := Batch(out)
	for i := range b.Header().Preconditions {
		ref := e.NewTopicRef(names[i%len(names)])
		refs[ref] = names[i%len(names)]
		b.SetPreconditionTopic(i, ref)
	}
	i := 0
	for run := b.Records(); len(run) > 0; run = run[Scan(run):] {
		if i%3 == 0 {
			name := names[i%len(names)]
			ref := e.NewTopicRef(name)
			if again := e.NewTopicRef(strings.Clone(name)); again != ref || ref < NewTopic {
				t.Fatalf("ref of %q is %x, then %x", name, ref, again)
			}
			refs[ref] = name
			SetTopic(run, ref)
		}
		i++
	}
}

func checkEntry(t *rapid.T, data, scratch []byte, size int, want EntryHeader, batches [][]byte,
	refs map[uint32]string) []byte {
	h, body, scratch, err := DecodeEntry(data, scratch)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	peeked, err := PeekEntry(data)
	if err != nil || peeked != h {
		t.Fatalf("peek: %+v %v, decode: %+v", peeked, err, h)
	}
	want.Kind, want.Codec, want.RawSize = KindPublish, h.Codec, uint32(size)
	if h != want || len(body) != size {
		t.Fatalf("header %+v and %d bytes, want %+v", h, len(body), want)
	}
	names, run, err := PublishBody(body, nil)
	if err != nil {
		t.Fatalf("body: %v", err)
	}
	if len(names) != len(refs) {
		t.Fatalf("%d names, want %d", len(names), len(refs))
	}
	for ref, name := range refs {
		if string(names[ref-NewTopic]) != name {
			t.Fatalf("name %d is %q, want %q", ref-NewTopic, names[ref-NewTopic], name)
		}
	}
	for i, w := range batches {
		var b Batch
		if b, run = NextBatch(run); !bytes.Equal(b, w) {
			t.Fatalf("batch %d differs", i)
		}
	}
	if len(run) != 0 {
		t.Fatalf("%d bytes after the last batch", len(run))
	}
	return scratch
}
