package wire

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
)

// encode is the inverse of decode: the frame that says a value.
func encode(t Type, id uint32, v any) []byte {
	switch v := v.(type) {
	case Hello:
		return AppendHello(nil, &v)
	case Welcome:
		return AppendWelcome(nil, &v)
	case Topology:
		return AppendTopology(nil, &v)
	case DefineTopics:
		return AppendDefineTopics(nil, &v)
	case OpenProducer:
		return AppendOpenProducer(nil, id, v)
	case ProducerOpened:
		return AppendProducerOpened(nil, id, v)
	case record.Batch:
		return append(AppendPublishHeader(nil, id, v), v...)
	case Ack:
		return AppendAck(nil, id, &v)
	case Subscribe:
		return AppendSubscribe(nil, id, &v)
	case Subscribed:
		return AppendSubscribed(nil, id, &v)
	case []TopicName:
		return AppendTopicNames(nil, v)
	case Data:
		return append(AppendDataHeader(nil, id, v.Prev, v.Count, [][]byte{v.Run}), v.Run...)
	case Query:
		return AppendQuery(nil, id, &v)
	case Answer:
		return AppendAnswer(nil, id, &v)
	case Error:
		return AppendError(nil, t, id, &v)
	case uint64:
		if t == TCredit {
			return AppendCredit(nil, id, v)
		}
		return AppendSeq(nil, t, id, v)
	}
	return AppendEmpty(nil, t, id)
}

// FuzzBody gives any bytes to the decoder of a type: refused with a coded error, or accepted and encoded to the same bytes.
func FuzzBody(f *testing.F) {
	for _, s := range samples() {
		f.Add(byte(s.t), body(s.frame))
	}
	f.Fuzz(func(t *testing.T, ty byte, b []byte) {
		if !Type(ty).known() {
			return
		}
		v, err := decode(Type(ty), b)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("not a coded error: %v", err)
			}
			return
		}
		if got := body(encode(Type(ty), 0, v)); !bytes.Equal(got, b) {
			t.Fatalf("%s: second encoding of %+v:\n%x\n%x", Type(ty), v, got, b)
		}
	})
}

// FuzzFrame reads arbitrary bytes as a stream of frames: the error is a coded one or the stream's end, and what was accepted is
// encoded to the same bytes.
func FuzzFrame(f *testing.F) {
	var all []byte
	for _, s := range samples() {
		f.Add(s.frame)
		all = append(all, s.frame...)
	}
	f.Add(all)
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewReader(bytes.NewReader(stream), 0)
		defer r.Close()
		for {
			from := r.Offset()
			frame, err := r.Next()
			if err != nil {
				var e *Error
				if err != io.EOF && err != io.ErrUnexpectedEOF && !errors.As(err, &e) {
					t.Fatalf("neither coded nor an end: %v", err)
				}
				return
			}
			again := end(append(begin(nil), frame.Body...), 0, frame.Type, frame.ID)
			if !bytes.Equal(again, stream[from:r.Offset()]) {
				t.Fatalf("second encoding of a %s", frame.Type)
			}
			if _, err := decode(frame.Type, frame.Body); err != nil && !errors.As(err, new(*Error)) {
				t.Fatalf("%s: not a coded error: %v", frame.Type, err)
			}
		}
	})
}
