package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
)

// sample is one frame of the protocol with the value that it says.
type sample struct {
	name  string
	t     Type
	id    uint32
	value any
	frame []byte
}

func sampleBatch() record.Batch {
	var b record.BatchBuilder
	b.Reset(nil, []record.Precondition{{Topic: 3, LastSeq: 41}})
	for _, m := range []struct {
		headers []record.Header
		payload string
	}{{nil, "hello"}, {[]record.Header{{Key: "k", Value: "v"}}, "world!"}} {
		if err := b.Add(3, m.headers, []byte(m.payload)); err != nil {
			panic(err)
		}
	}
	return b.Finish(record.ProducerID{1, 2, 3}, 1, 7, true)
}

// sampleRun is two records as applied.
func sampleRun() []byte {
	run := bytes.Clone(sampleBatch().Records())
	first := record.Scan(run)
	record.Stamp(run, 12, 100, 1e18)
	record.Stamp(run[first:], 12, 102, 1e18+1)
	return run
}

func samples() []sample {
	topology := Topology{ClusterID: "c1", LeaderID: "n1", Term: 5, Nodes: []NodeInfo{
		{ID: "n1", ClientAddr: "10.0.0.1:4790", HTTPAddr: "10.0.0.1:4791", Voter: true, Alive: true},
		{ID: "n2", Voter: true},
	}}
	hello := Hello{MinVersion: 1, MaxVersion: 3, Role: RolePeer, ClusterID: "c1", Client: "go/1.0", HeartbeatMS: 5000, Credentials: []byte("s3cret")}
	welcome := Welcome{Version: 1, NodeID: "n1", HeartbeatMS: 5000, MaxFrame: MaxFrame, MaxInflight: 8 << 20, FirstSeq: 1, LastSeq: 99, Topology: topology}
	define := DefineTopics{FirstAlias: 3, Names: []string{"app/ä/commits", "x"}}
	open := OpenProducer{ID: record.ProducerID{1, 2, 3}}
	opened := ProducerOpened{Code: CodeFenced, Detail: 4, Epoch: 2, LastNumber: 6, LastSeq: 99}
	ack := Ack{Code: CodePreconditionFailed, Index: 1, Count: 2, FirstSeq: 100, Time: 1e18, Detail: 42}
	subscribe := Subscribe{Filters: []string{"app/**", "x"}, Start: StartSeq, Value: 55, Prev: 54, MinSeq: 90, WaitMS: 100, Credit: 1 << 20}
	subscribed := Subscribed{Next: 55, Head: 99, Oldest: 1}
	names := []TopicName{{ID: 12, Name: "app/x"}, {ID: 13, Name: "app/y"}}
	data := Data{Prev: 54, Count: 2, Run: sampleRun()}
	query := Query{Kind: QueryLastEach, Linearizable: true, Filters: []string{"app/**", "x"}, WaitMS: 100, Seq: 99, MinSeq: 90, After: 12, Count: 50, Bytes: 4096}
	answer := Answer{Seq: 99, Next: 13, Count: 2, Run: sampleRun(), Topics: []string{"app/x", "app/y"}}
	failure := Error{Code: CodeGone, Detail: 17, Message: "seq 5 is not kept any more"}
	run := sampleRun()
	half := record.Scan(run)
	return []sample{
		{"hello", THello, 0, hello, AppendHello(nil, &hello)},
		{"welcome", TWelcome, 0, welcome, AppendWelcome(nil, &welcome)},
		{"topology", TTopology, 0, topology, AppendTopology(nil, &topology)},
		{"define-topics", TDefineTopics, 0, define, AppendDefineTopics(nil, &define)},
		{"open-producer", TOpenProducer, 8, open, AppendOpenProducer(nil, 8, open)},
		{"producer-opened", TProducerOpened, 8, opened, AppendProducerOpened(nil, 8, opened)},
		{"publish", TPublish, 9, sampleBatch(), AppendPublish(nil, 9, sampleBatch())},
		{"ack", TAck, 9, ack, AppendAck(nil, 9, &ack)},
		{"subscribe", TSubscribe, 1, subscribe, AppendSubscribe(nil, 1, &subscribe)},
		{"subscribed", TSubscribed, 1, subscribed, AppendSubscribed(nil, 1, &subscribed)},
		{"credit", TCredit, 1, uint64(65536), AppendCredit(nil, 1, 65536)},
		{"topic-names", TTopicNames, 0, names, AppendTopicNames(nil, names)},
		{"data", TData, 1, data, append(AppendDataHeader(nil, 1, 54, 2, [][]byte{run[:half], run[half:]}), run...)},
		{"progress", TProgress, 1, uint64(120), AppendSeq(nil, TProgress, 1, 120)},
		{"caught-up", TCaughtUp, 1, uint64(99), AppendSeq(nil, TCaughtUp, 1, 99)},
		{"unsubscribe", TUnsubscribe, 1, nil, AppendEmpty(nil, TUnsubscribe, 1)},
		{"query", TQuery, 10, query, AppendQuery(nil, 10, &query)},
		{"query-seq", TQuery, 11, Query{Seq: 5}, AppendQuery(nil, 11, &Query{Seq: 5})},
		{"answer", TAnswer, 10, answer, AppendAnswer(nil, 10, &answer)},
		{"ended", TEnded, 1, failure, AppendError(nil, TEnded, 1, &failure)},
		{"error", TError, 0, failure, AppendError(nil, TError, 0, &failure)},
		{"ping", TPing, 0, nil, AppendEmpty(nil, TPing, 0)},
		{"pong", TPong, 0, nil, AppendEmpty(nil, TPong, 0)},
		{"goodbye", TGoodbye, 0, nil, AppendEmpty(nil, TGoodbye, 0)},
	}
}

// decode decodes a body by its type.
func decode(t Type, b []byte) (any, error) {
	switch t {
	case THello:
		return DecodeHello(b)
	case TWelcome:
		return DecodeWelcome(b)
	case TTopology:
		return DecodeTopology(b)
	case TDefineTopics:
		return DecodeDefineTopics(b)
	case TOpenProducer:
		return DecodeOpenProducer(b)
	case TProducerOpened:
		return DecodeProducerOpened(b)
	case TPublish:
		return DecodePublish(b)
	case TAck:
		return DecodeAck(b)
	case TSubscribe:
		return DecodeSubscribe(b)
	case TSubscribed:
		return DecodeSubscribed(b)
	case TCredit:
		return DecodeCredit(b)
	case TTopicNames:
		return DecodeTopicNames(b)
	case TData:
		return DecodeData(b)
	case TProgress, TCaughtUp:
		return DecodeSeq(b)
	case TQuery:
		return DecodeQuery(b)
	case TAnswer:
		return DecodeAnswer(b)
	case TEnded, TError:
		return DecodeError(b)
	case TUnsubscribe, TPing, TPong, TGoodbye:
		return nil, DecodeEmpty(b)
	}
	return nil, errors.New("no decoder")
}

func TestRoundTrip(t *testing.T) {
	var stream []byte
	for _, s := range samples() {
		stream = append(stream, s.frame...)
	}
	r := NewReader(bytes.NewReader(stream), MaxFrame)
	defer r.Close()
	for _, s := range samples() {
		f, err := r.Next()
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if f.Type != s.t || f.ID != s.id {
			t.Fatalf("%s: got %s of id %d", s.name, f.Type, f.ID)
		}
		got, err := decode(f.Type, f.Body)
		if err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if !reflect.DeepEqual(got, s.value) {
			t.Fatalf("%s:\n got %+v\nwant %+v", s.name, got, s.value)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Fatalf("after the last frame: %v", err)
	}
	if r.Offset() != int64(len(stream)) {
		t.Fatalf("offset is %d of %d", r.Offset(), len(stream))
	}
}
