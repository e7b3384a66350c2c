package http

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	nethttp "net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/fsm"
)

const producer = "000102030405060708090a0b0c0d0e0f"

func publish(t *testing.T, ts *httptest.Server, query string, lines ...string) []PublishAnswer {
	t.Helper()
	status, body := call(t, "POST", ts.URL+"/v1/publish?"+query, strings.Join(lines, "\n"))
	if status != 200 {
		t.Fatalf("publish: status %d: %s", status, body)
	}
	var out []PublishAnswer
	for line := range strings.Lines(body) {
		var a PublishAnswer
		if err := json.Unmarshal([]byte(line), &a); err != nil || strings.Contains(line, "error") {
			t.Fatalf("publish: answer line %q: %v", line, err)
		}
		out = append(out, a)
	}
	return out
}

type sse struct {
	id, event string
	data      string
}

// events reads a stream until it ends or stop says so.
func events(t *testing.T, url, lastID string, stop func(sse) bool) []sse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, _ := nethttp.NewRequestWithContext(ctx, "GET", url, nil)
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := nethttp.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: status %d, %s", url, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	var out []sse
	var e sse
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ": ")
		switch key {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if lines.Text() != "" || e == (sse{}) {
				continue // a comment, or the end of one
			}
			out = append(out, e)
			if stop != nil && stop(e) {
				return out
			}
			e = sse{}
		}
	}
	return out
}

func TestPublishAndSubscribe(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	answers := publish(t, ts, "",
		`{"topic":"app/one","payload":"héllo","headers":{"k":"v"}}`, "",
		`{"topic":"app/two","payload_base64":"/wA="}`,
		`{"topic":"other","payload":""}`,
		`{"topic":"app/one"}`)
	for i, a := range answers {
		if a.Seq != uint64(i+1) || a.Time == 0 || a.Duplicate {
			t.Errorf("answer %d: %+v", i, a)
		}
	}
	got := events(t, ts.URL+"/v1/subscribe?filter=app/**&filter=app/one&from=first&to=caught-up", "", nil)
	if len(got) != 4 || got[3].event != "caught-up" || got[3].data != `{"seq":4}` {
		t.Fatalf("%+v", got)
	}
	var first, second Event
	json.Unmarshal([]byte(got[0].data), &first)
	json.Unmarshal([]byte(got[1].data), &second)
	if first.Topic != "app/one" || *first.Payload != "héllo" || first.Headers["k"] != "v" || first.Size != 6 || got[0].id != "1" {
		t.Errorf("%+v", got[0])
	}
	if second.PayloadBase64 == nil || *second.PayloadBase64 != "/wA=" || got[1].id != "2" {
		t.Errorf("%+v", got[1])
	}
	if got := events(t, ts.URL+"/v1/subscribe?filter=**&from=first&count=2", "", nil); len(got) != 2 || got[1].id != "2" {
		t.Errorf("count=2: %+v", got)
	}
}

// TestResumeByLastEventID at every id, the ids of marks included, misses nothing and repeats nothing.
func TestResumeByLastEventID(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	for i := range 20 {
		publish(t, ts, "", fmt.Sprintf(`{"topic":"t/%d","payload":"%d"}`, i%3, i))
	}
	url := ts.URL + "/v1/subscribe?filter=t/1&from=first&to=caught-up"
	all := events(t, url, "", nil)
	for i := range all {
		rest := events(t, url, all[i].id, nil)
		messages := slices.DeleteFunc(slices.Clone(all[i+1:]), func(e sse) bool { return e.event != "message" })
		got := slices.DeleteFunc(rest, func(e sse) bool { return e.event != "message" })
		if !slices.Equal(messages, got) {
			t.Errorf("after id %s: %+v; want %+v", all[i].id, got, messages)
		}
	}
}

func TestLiveEventsAndProgress(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, func(o *Options) { o.Heartbeat = 10 * time.Millisecond })
	publish(t, ts, "", `{"topic":"a/x"}`, `{"topic":"b/x"}`)
	step := 0
	got := events(t, ts.URL+"/v1/subscribe?filter=a/**&from=first", "", func(e sse) bool {
		switch step++; {
		case e.event == "caught-up":
			publish(t, ts, "", `{"topic":"b/x"}`)
			publish(t, ts, "", `{"topic":"b/x"}`)
		case e.event == "progress" && e.id == "4":
			publish(t, ts, "", `{"topic":"a/y"}`)
		case e.event == "message" && e.id == "5":
			return true
		}
		return false
	})
	if last := got[len(got)-1]; last.id != "5" {
		t.Errorf("%+v", got)
	}
	var delivered string
	for _, e := range got {
		if e.event == "message" {
			delivered += e.id + " "
		}
	}
	if delivered != "1 5 " {
		t.Errorf("messages %s; want 1 5", delivered)
	}
}

func TestIdempotentPublish(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	var opened struct {
		Epoch      uint32
		LastNumber uint64 `json:"last_number"`
	}
	callJSON(t, "POST", ts.URL+"/v1/producers", `{"id":"`+producer+`"}`, 200, &opened)
	q := fmt.Sprintf("producer=%s&epoch=%d&number=1", producer, opened.Epoch)
	first := publish(t, ts, q, `{"topic":"a","payload":"1"}`, `{"topic":"a","payload":"2"}`)
	again := publish(t, ts, q, `{"topic":"a","payload":"1"}`, `{"topic":"a","payload":"2"}`)
	for i := range first {
		if !again[i].Duplicate || again[i].Seq != first[i].Seq {
			t.Errorf("retry of line %d: %+v; want a duplicate of %+v", i, again[i], first[i])
		}
	}
	var body errorBody
	callJSON(t, "POST", ts.URL+"/v1/publish?producer="+producer+"&epoch=1&number=9", `{"topic":"a"}`, 409, &body)
	if body.Error.Code != "out_of_order" || body.Error.Detail != 3 {
		t.Errorf("%+v", body.Error)
	}
	callJSON(t, "POST", ts.URL+"/v1/producers", `{"id":"`+producer+`"}`, 200, &opened)
	if opened.Epoch != 2 || opened.LastNumber != 2 {
		t.Errorf("reopened: %+v", opened)
	}
	callJSON(t, "POST", ts.URL+"/v1/publish?producer="+producer+"&epoch=1&number=3", `{"topic":"a"}`, 409, &body)
	if body.Error.Code != "fenced" || body.Error.Detail != 2 {
		t.Errorf("%+v", body.Error)
	}
}

func TestAtomicPublish(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	publish(t, ts, "atomic=true&if_last=acct/1@0&if_last=acct/2@0", `{"topic":"acct/1","payload":"-5"}`, `{"topic":"acct/2","payload":"+5"}`)
	var body errorBody
	callJSON(t, "POST", ts.URL+"/v1/publish?atomic=true&if_last=acct/1@0", `{"topic":"acct/1"}`, 412, &body)
	if body.Error.Code != "precondition_failed" || body.Error.Detail != 1 {
		t.Errorf("%+v", body.Error)
	}
	publish(t, ts, "atomic=true&if_last=acct/1@1", `{"topic":"acct/1"}`)
	// A bad second line: nothing of an atomic batch is published.
	callJSON(t, "POST", ts.URL+"/v1/publish?atomic=true", `{"topic":"acct/1"}`+"\n"+`{"topic":"a//b"}`, 400, &body)
	if body.Error.Line != 2 || body.Error.Code != "bad_name" || n.stream.Machine().LastSeq() != 3 {
		t.Errorf("%+v, last seq %d", body.Error, n.stream.Machine().LastSeq())
	}
}

func TestBadLineAfterGoodOnes(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	status, body := call(t, "POST", ts.URL+"/v1/publish", `{"topic":"a"}`+"\n"+`{"topic":"b"}`+"\n"+`{"topik":"c"}`+"\n"+`{"topic":"d"}`)
	lines := strings.Split(strings.TrimSpace(body), "\n")
	if status != 200 || len(lines) != 3 || !strings.Contains(lines[2], `"line":3`) || !strings.Contains(lines[2], "topik") {
		t.Errorf("status %d: %s", status, body)
	}
	if n.stream.Machine().LastSeq() != 2 {
		t.Errorf("last seq %d; want 2: the lines before the bad one", n.stream.Machine().LastSeq())
	}
}

func TestBadPublishes(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	big := strings.Repeat("x", 1<<20+1)
	for _, c := range []struct {
		query, line string
		status      int
		code        string
	}{
		{"", `{"topic":""}`, 400, "bad_name"},
		{"", `{"topic":"a/*/b"}`, 400, "bad_name"},
		{"", `{"topic":"a","payload":"x","payload_base64":"eA=="}`, 400, "bad_request"},
		{"", `{"topic":"a","payload_base64":"%"}`, 400, "bad_request"},
		{"", `not json`, 400, "bad_request"},
		{"", `{"topic":"a","payload":"` + big + `"}`, 413, "too_large"},
		{"", `{"topic":"a","payload":"` + big + big + big + `"}`, 413, "too_large"},
		{"producer=12", `{"topic":"a"}`, 400, "bad_request"},
		{"producer=" + producer, `{"topic":"a"}`, 400, "bad_request"},
		{"producer=" + producer + "&epoch=1", `{"topic":"a"}`, 400, "bad_request"},
		{"producer=" + producer + "&epoch=1&number=1", `{"topic":"a"}`, 409, "unknown_producer"},
		{"if_last=a@1", `{"topic":"a"}`, 400, "bad_request"},
		{"atomic=true&if_last=a", `{"topic":"a"}`, 400, "bad_request"},
		{"atomic=perhaps", `{"topic":"a"}`, 400, "bad_request"},
	} {
		var body errorBody
		callJSON(t, "POST", ts.URL+"/v1/publish?"+c.query, c.line, c.status, &body)
		if body.Error.Code != c.code {
			t.Errorf("%s %.60s: code %s (%s); want %s", c.query, c.line, body.Error.Code, body.Error.Message, c.code)
		}
	}
}

// TestFateIsSaidTruly: an outcome that may have been executed is never called "not executed", and the other way round.
func TestFateIsSaidTruly(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	for code := fsm.Code(1); code < 64; code++ {
		if strings.HasPrefix(code.String(), "Code(") || code == fsm.Duplicate {
			continue
		}
		n.refuse = code
		status, text := call(t, "POST", ts.URL+"/v1/publish", `{"topic":"a"}`)
		if status < 400 {
			t.Errorf("%v: status %d", code, status)
		}
		if executed, known := code.Executed(); strings.Contains(text, "not executed") != (known && !executed) && status != 500 {
			t.Errorf("%v: %s", code, text)
		}
	}
}

func TestBadSubscribes(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, func(o *Options) {
		o.MaxSubscriptions = 1
		o.RequestTimeout = 20 * time.Millisecond
		o.Heartbeat = 5 * time.Millisecond
	})
	for _, q := range []string{"", "filter=a/*/b", "filter=a&from=yesterday", "filter=a&to=x", "filter=a&count=0", "filter=a&min_seq=x"} {
		var body errorBody
		callJSON(t, "GET", ts.URL+"/v1/subscribe?"+q, "", 400, &body)
	}
	var body errorBody
	callJSON(t, "GET", ts.URL+"/v1/subscribe?filter=a&min_seq=9", "", 503, &body)
	if body.Error.Code != "not_yet" {
		t.Errorf("%+v", body.Error)
	}
	events(t, ts.URL+"/v1/subscribe?filter=a&from=first", "", func(sse) bool {
		callJSON(t, "GET", ts.URL+"/v1/subscribe?filter=a", "", 503, &body)
		return true
	})
	if body.Error.Code != "too_many_subscriptions" {
		t.Errorf("%+v", body.Error)
	}
}

// TestShutdownEndsStreams: open event streams do not keep a graceful shutdown waiting.
func TestShutdownEndsStreams(t *testing.T) {
	s, ts := serve(t, newFakeNode(t, "a"), nil)
	events(t, ts.URL+"/v1/subscribe?filter=a&from=first", "", func(e sse) bool {
		if e.event == "caught-up" {
			s.stop()
		}
		return false
	})
}

// TestQuietStreamOutlivesTheRing: a stream that nothing matches is not told that it lost something when the ring goes round.
func TestQuietStreamOutlivesTheRing(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, func(o *Options) { o.Heartbeat = time.Millisecond })
	big := `{"topic":"other","payload":"` + strings.Repeat("x", 1<<20) + `"}`
	marks := 0
	got := events(t, ts.URL+"/v1/subscribe?filter=mine&from=first", "", func(e sse) bool {
		switch e.event {
		case "caught-up", "progress":
			if marks++; marks <= 40 { // the ring holds 16 MiB
				publish(t, ts, "", big)
			} else {
				publish(t, ts, "", `{"topic":"mine"}`)
			}
			return false
		}
		return true
	})
	if last := got[len(got)-1]; last.event != "message" || last.id != "41" {
		t.Errorf("last event %+v; want message 41", last)
	}
}

// TestPublisherThatDoesNotRead: a client that sends for ever and reads no answers is let go.
func TestPublisherThatDoesNotRead(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), func(o *Options) { o.WriteTimeout = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(ts.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	fmt.Fprint(conn, "POST /v1/publish HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	lines := strings.Repeat(`{"topic":"a"}`+"\n", 4096)
	for err == nil {
		_, err = fmt.Fprintf(conn, "%x\r\n%s\r\n", len(lines), lines)
	}
	if timeout, ok := err.(net.Error); ok && timeout.Timeout() {
		t.Fatal("the server still holds the request")
	}
}
