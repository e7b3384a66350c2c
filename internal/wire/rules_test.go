package wire

import (
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
)

// body is a frame without its header.
func body(frame []byte) []byte { return frame[HeaderSize:] }

func helloWith(f func(h *Hello)) []byte {
	h := Hello{MinVersion: 1, MaxVersion: 1}
	f(&h)
	return body(AppendHello(nil, &h))
}

func topologyWith(f func(t *Topology)) []byte {
	t := Topology{Nodes: []NodeInfo{{ID: "n"}}}
	f(&t)
	return body(AppendTopology(nil, &t))
}

func queryWith(change func(*Query)) []byte {
	q := Query{Kind: QueryLastEach, Filters: []string{"a", "b"}, After: 1, Count: 2, Bytes: 3}
	change(&q)
	return body(AppendQuery(nil, 1, &q))
}

func answerWith(change func(*Answer)) []byte {
	a := Answer{Count: 2, Run: sampleRun(), Topics: []string{"a", "b"}}
	change(&a)
	return body(AppendAnswer(nil, 1, &a))
}

func subscribeWith(f func(s *Subscribe)) []byte {
	s := Subscribe{Filters: []string{"a"}}
	f(&s)
	return body(AppendSubscribe(nil, 1, &s))
}

func defineWith(names ...string) []byte {
	return body(AppendDefineTopics(nil, &DefineTopics{Names: names}))
}

func dataBody(count uint32, run []byte) []byte {
	return append(body(AppendDataHeader(nil, 1, 0, count, [][]byte{run})), run...)
}

// TestBodyRules has a body for each rule beyond the sizes, which TestBodySizes covers.
func TestBodyRules(t *testing.T) {
	long := strings.Repeat("x", MaxString+1)
	huge := strings.Repeat("x", 1<<17) // longer than a length can say
	tests := []struct {
		name string
		t    Type
		body []byte
		code Code
		part string
	}{
		{"no versions", THello, helloWith(func(h *Hello) { h.MinVersion = 0 }), CodeProtocol, "HELLO: range of versions is empty"},
		{"versions reversed", THello, helloWith(func(h *Hello) { h.MinVersion = 2 }), CodeProtocol, "range of versions is empty"},
		{"role", THello, helloWith(func(h *Hello) { h.Role = 2 }), CodeProtocol, "unknown role"},
		{"reserved", THello, change(helloWith(func(*Hello) {}), func(b []byte) { b[6] = 1 }), CodeProtocol, "reserved bytes are not zero"},
		{"cluster id long", THello, helloWith(func(h *Hello) { h.ClusterID = long }), CodeProtocol, "cluster id is over its limit"},
		{"client name huge", THello, helloWith(func(h *Hello) { h.Client = huge }), CodeProtocol, "client name is over its limit"},
		{"client name not UTF-8", THello, helloWith(func(h *Hello) { h.Client = "\xff" }), CodeProtocol, "client name is not UTF-8"},
		{"credentials long", THello, helloWith(func(h *Hello) { h.Credentials = make([]byte, MaxCredentials+1) }), CodeProtocol, "credentials is over its limit"},
		{"node flags", TTopology, change(topologyWith(func(*Topology) {}), func(b []byte) { b[14] = 4 }), CodeProtocol, "unknown flags of a node"},
		{"nodes promised", TTopology, change(topologyWith(func(*Topology) {}), func(b []byte) { b[12] = 200 }), CodeProtocol, "nodes are more than the body can hold"},
		{"too many nodes", TTopology, change(topologyWith(func(*Topology) {}), func(b []byte) { b[13] = 0xff }), CodeProtocol, "nodes are more than the limit"},
		{"leader long", TTopology, topologyWith(func(t *Topology) { t.LeaderID = long }), CodeProtocol, "leader id is over its limit"},
		{"no names", TDefineTopics, make([]byte, 8), CodeProtocol, "no names"},
		{"name empty", TDefineTopics, defineWith("a", "", "bcdef"), CodeBadTopic, "topic is empty"},
		{"name long", TDefineTopics, defineWith(long), CodeBadTopic, "topic is over its limit"},
		{"name not UTF-8", TDefineTopics, defineWith("a\xff"), CodeBadTopic, "topic is not UTF-8"},
		{"names promised", TDefineTopics, change(defineWith("a"), func(b []byte) { b[4] = 2 }), CodeProtocol, "names are more than the body can hold"},
		{"too many names", TDefineTopics, change(defineWith("a"), func(b []byte) { b[5] = 0xff }), CodeProtocol, "names are more than the limit"},
		{"reserved after count", TDefineTopics, change(defineWith("a"), func(b []byte) { b[6] = 1 }), CodeProtocol, "reserved bytes"},
		{"zero producer", TOpenProducer, make([]byte, 16), CodeProtocol, "producer id is zero"},
		{"bad batch", TPublish, make([]byte, 48), CodeProtocol, "PUBLISH: record: corrupt batch at byte 0"},
		{"batch over a limit", TPublish, change(sampleBatch(), func(b []byte) { b[30] = record.MaxPreconditions + 1 }), CodeTooLarge, "over the limit"},
		{"no filters", TSubscribe, subscribeWith(func(s *Subscribe) { s.Filters = nil }), CodeBadFilter, "no filters"},
		{"filter empty", TSubscribe, subscribeWith(func(s *Subscribe) { s.Filters = []string{"a", ""} }), CodeProtocol, "filters are more than the body can hold"},
		{"filter empty, body long enough", TSubscribe, subscribeWith(func(s *Subscribe) { s.Filters = []string{"", "ab"} }), CodeBadFilter, "filter is empty"},
		{"filter long", TSubscribe, subscribeWith(func(s *Subscribe) { s.Filters = []string{long + "/**"} }), CodeBadFilter, "filter is over its limit"},
		{"too many filters", TSubscribe, subscribeWith(func(s *Subscribe) { s.Filters = make([]string, MaxFilters+500) }), CodeTooManyFilters, "filters are more than the limit"},
		{"start kind", TSubscribe, subscribeWith(func(s *Subscribe) { s.Start = StartAgo + 1 }), CodeProtocol, "unknown start kind"},
		{"no names of ids", TTopicNames, make([]byte, 8), CodeProtocol, "no names"},
		{"name of an id empty", TTopicNames, body(AppendTopicNames(nil, []TopicName{{1, ""}, {2, "abc"}})), CodeProtocol, "topic is empty"},
		{"no records", TData, dataBody(0, nil), CodeProtocol, "DATA: no records"},
		{"records promised", TData, dataBody(3, sampleRun()), CodeProtocol, "DATA: record: corrupt run"},
		{"bad record", TData, dataBody(1, make([]byte, 24)), CodeProtocol, "record size is less than its header"},
		{"message long", TError, append(change(make([]byte, 18), func(b []byte) { le.PutUint16(b[16:], MaxMessage+1) }), make([]byte, MaxMessage+1)...),
			CodeProtocol, "message is over its limit"},
		{"query of an unknown kind", TQuery, queryWith(func(q *Query) { q.Kind = 3 }), CodeProtocol, "unknown kind"},
		{"query flag", TQuery, change(queryWith(func(*Query) {}), func(b []byte) { b[1] = 2 }), CodeProtocol, "linearizable is neither 0 nor 1"},
		{"query of a seq with filters", TQuery, queryWith(func(q *Query) { q.Kind, q.After, q.Count, q.Bytes = QueryMessage, 0, 0, 0 }), CodeProtocol, "filters with a seq"},
		{"query of a topic with two", TQuery, queryWith(func(q *Query) { q.Kind, q.After, q.Count, q.Bytes = QueryLast, 0, 0, 0 }), CodeProtocol, "not one topic"},
		{"query of a topic with a page", TQuery, queryWith(func(q *Query) { q.Kind, q.Filters = QueryLast, []string{"a"} }), CodeProtocol, "a page of one message"},
		{"query without filters", TQuery, queryWith(func(q *Query) { q.Filters = nil }), CodeBadFilter, "no filters"},
		{"query with too many filters", TQuery, queryWith(func(q *Query) { q.Filters = make([]string, MaxFilters+500) }), CodeTooManyFilters, "filters are more than the limit"},
		{"answer promises records", TAnswer, answerWith(func(a *Answer) { a.Count, a.Topics = 3, append(a.Topics, "c") }), CodeProtocol, "ANSWER: record: corrupt run"},
		{"answer promises topics", TAnswer, change(answerWith(func(*Answer) {}), func(b []byte) { b[16] = 200 }), CodeProtocol, "topics are more than the body can hold"},
		{"answer has too many", TAnswer, change(answerWith(func(*Answer) {}), func(b []byte) { b[18] = 1 }), CodeProtocol, "messages are more than the limit"},
		{"answer promises bytes", TAnswer, change(answerWith(func(*Answer) {}), func(b []byte) { b[22] = 0xff }), CodeProtocol, "body is cut short"},
		{"answer with an empty topic", TAnswer, answerWith(func(a *Answer) { a.Topics = []string{"", "abcdef"} }), CodeProtocol, "topic is empty"},
		{"bytes in an empty frame", TPing, []byte{0}, CodeProtocol, "bytes after the last field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := decode(tt.t, tt.body)
			wantError(t, err, tt.code, tt.part)
		})
	}
}

// TestBodySizes cuts every sample at every byte and adds one: all are refused.
func TestBodySizes(t *testing.T) {
	for _, s := range samples() {
		whole := body(s.frame)
		for n := range len(whole) {
			if _, err := decode(s.t, whole[:n]); err == nil {
				t.Fatalf("%s: accepted with %d of %d bytes", s.name, n, len(whole))
			}
		}
		if _, err := decode(s.t, append(whole[:len(whole):len(whole)], 0)); err == nil {
			t.Fatalf("%s: accepted with a byte too many", s.name)
		}
	}
}

func TestLimitsFitIntoFrames(t *testing.T) {
	names := make([]TopicName, MaxNamesPerFrame+1)
	define := DefineTopics{FirstAlias: 10}
	for i := range names {
		names[i] = TopicName{ID: uint32(i), Name: strings.Repeat("n", record.MaxTopicBytes)}
		define.Names = append(define.Names, names[i].Name)
	}
	filters := make([]string, MaxFilters)
	for i := range filters {
		filters[i] = strings.Repeat("f", MaxFilterBytes)
	}
	s := strings.Repeat("s", MaxString)
	topology := Topology{ClusterID: s, LeaderID: s, Nodes: make([]NodeInfo, MaxNodes+1)}
	for i := range topology.Nodes {
		topology.Nodes[i] = NodeInfo{ID: s, ClientAddr: s, HTTPAddr: s}
	}
	stream := AppendDefineTopics(nil, &define)
	stream = AppendTopicNames(stream, names)
	stream = AppendSubscribe(stream, 1, &Subscribe{Filters: filters})
	stream = AppendWelcome(stream, &Welcome{NodeID: s, Topology: topology})
	stream = AppendError(stream, TError, 0, &Error{Message: strings.Repeat("ä", MaxMessage)})
	hello := AppendHello(nil, &Hello{MinVersion: 1, MaxVersion: 1, ClusterID: s, Client: s, Credentials: make([]byte, MaxCredentials)})
	if len(hello) > MaxHandshakeFrame {
		t.Fatalf("the largest HELLO has %d bytes", len(hello))
	}
	want := []Type{TDefineTopics, TDefineTopics, TTopicNames, TTopicNames, TSubscribe, TWelcome, TError}
	r := NewReader(strings.NewReader(string(stream)), 0)
	defer r.Close()
	for i, w := range want {
		f, err := r.Next()
		if err != nil || f.Type != w {
			t.Fatalf("frame %d: %s, %v; want %s", i, f.Type, err, w)
		}
		v, err := decode(f.Type, f.Body)
		if err != nil {
			t.Fatalf("frame %d: %v", i, err)
		}
		if d, ok := v.(DefineTopics); ok && int(d.FirstAlias) != 10+i*MaxNamesPerFrame {
			t.Fatalf("frame %d begins with alias %d", i, d.FirstAlias)
		}
	}
}

func TestErrorTextNeverSpoilsItsFrame(t *testing.T) {
	for _, text := range []string{"", "\xff\xfe", strings.Repeat("x", MaxMessage-1) + "ä", strings.Repeat("\xff", 5000)} {
		e, err := DecodeError(body(AppendError(nil, TError, 0, &Error{Code: CodeInternal, Message: text})))
		if err != nil || len(e.Message) > MaxMessage || (text != "" && e.Message == "") {
			t.Fatalf("%d bytes of text: %v, came as %q", len(text), err, e.Message)
		}
	}
}

func TestNames(t *testing.T) {
	for ty := THello; ty <= TAnswer; ty++ {
		if s := ty.String(); s == "" || strings.HasPrefix(s, "TYPE") {
			t.Fatalf("type %d is %q", ty, s)
		}
	}
	for _, tt := range []struct{ got, want string }{
		{TData.String(), "DATA"}, {TAnswer.String(), "ANSWER"}, {Type(0).String(), "TYPE(0)"}, {Type(200).String(), "TYPE(200)"},
		{CodeOK.String(), "ok"}, {CodeInvalid.String(), "invalid"}, {CodeNotLeader.String(), "not_leader"},
		{CodeShuttingDown.String(), "shutting_down"}, {CodeProtocol.String(), "protocol"}, {CodeShutdown.String(), "shutdown"},
		{Code(9).String(), "settled"}, {Code(10).String(), "code_10"}, {Code(38).String(), "code_38"}, {Code(80).String(), "code_80"},
		{(&Error{Code: CodeGone, Detail: 7}).Error(), "gone (7)"},
		{(&Error{Code: CodeGone, Message: "m"}).Error(), "gone: m"},
		{(&Error{Code: CodeGone}).Error(), "gone"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %q, want %q", tt.got, tt.want)
		}
	}
}
