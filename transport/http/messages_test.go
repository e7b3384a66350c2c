package http

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestMessages(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	publish(t, ts, "", `{"topic":"a/b","payload":"one","headers":{"k":"v"}}`, `{"topic":"a/c","payload_base64":"/w=="}`)
	var e Event
	callJSON(t, "GET", ts.URL+"/v1/messages/1", "", 200, &e)
	if e.Seq != 1 || e.Topic != "a/b" || *e.Payload != "one" || e.Headers["k"] != "v" || e.Size != 3 || e.Time == 0 {
		t.Errorf("message 1: %+v", e)
	}
	e = Event{}
	callJSON(t, "GET", ts.URL+"/v1/messages/2", "", 200, &e)
	if e.Seq != 2 || e.Payload != nil || *e.PayloadBase64 != "/w==" {
		t.Errorf("message 2: %+v", e)
	}
	for path, want := range map[string]struct {
		status int
		code   string
		detail uint64
	}{
		"messages/3":                                {404, "not_yet", 2},
		"messages/3?wait_ms=5":                      {404, "not_yet", 2},
		"messages/0":                                {400, "bad_request", 0},
		"messages/x":                                {400, "bad_request", 0},
		"messages/1?wait_ms=x":                      {400, "bad_request", 0},
		"last":                                      {400, "bad_filter", 0},
		"last?filter=a//b":                          {400, "bad_filter", 0},
		"last?filter=a&limit=1025":                  {400, "bad_request", 0},
		"last?filter=a&seq=0":                       {400, "bad_request", 0},
		"last?filter=a&after=-1":                    {400, "bad_request", 0},
		"last?filter=a&linearizable=maybe":          {400, "bad_request", 0},
		"last?filter=a&min_seq=9&linearizable=true": {503, "not_yet", 2},
	} {
		t.Run(path, func(t *testing.T) {
			n := newFakeNode(t, "b")
			_, ts := serve(t, n, func(o *Options) { o.RequestTimeout = 20 * time.Millisecond })
			publish(t, ts, "", `{"topic":"a","payload":"x"}`, `{"topic":"a","payload":"y"}`)
			var body errorBody
			callJSON(t, "GET", ts.URL+"/v1/"+path, "", want.status, &body)
			if body.Error.Code != want.code || body.Error.Detail != want.detail || body.Error.Message == "" {
				t.Errorf("%+v", body.Error)
			}
		})
	}
}

func TestGoneMessage(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	line := fmt.Sprintf(`{"topic":"a","payload":"%0500000d"}`, 0)
	for range 40 {
		publish(t, ts, "", line)
	}
	oldest, _ := n.stream.Bounds()
	var body errorBody
	callJSON(t, "GET", ts.URL+"/v1/messages/1", "", 410, &body)
	if body.Error.Code != "gone" || body.Error.Detail != oldest || oldest == 1 {
		t.Errorf("%+v, the oldest is %d", body.Error, oldest)
	}
}

// TestLast follows the pages of a snapshot while messages come.
func TestLast(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	for i := range 10 {
		publish(t, ts, "", fmt.Sprintf(`{"topic":"a/%d","payload":"x"}`, i%5), `{"topic":"b","payload":"x"}`)
	}
	var seqs []uint64
	url := ts.URL + "/v1/last?filter=a/**&filter=b&limit=2"
	for page, next := (LastPage{}), ""; ; page = (LastPage{}) {
		callJSON(t, "GET", url+next, "", 200, &page)
		if page.Seq != 20 || len(page.Messages) > 2 {
			t.Fatalf("page: %+v", page)
		}
		for _, m := range page.Messages {
			seqs = append(seqs, m.Seq)
		}
		if page.Next == 0 {
			break
		}
		publish(t, ts, "", `{"topic":"a/4","payload":"later"}`, `{"topic":"a/new","payload":"later"}`, `{"topic":"b","payload":"later"}`)
		next = fmt.Sprintf("&seq=%d&after=%d", page.Seq, page.Next)
	}
	slices.Sort(seqs)
	if want := []uint64{11, 13, 15, 17, 19, 20}; !slices.Equal(seqs, want) {
		t.Errorf("last messages are %v, want %v", seqs, want)
	}
	var page LastPage
	callJSON(t, "GET", ts.URL+"/v1/last?filter=none&linearizable=true", "", 200, &page)
	if page.Messages == nil || len(page.Messages) != 0 || page.Next != 0 || !slices.Contains(n.done, "barrier") {
		t.Errorf("nothing: %+v after %v", page, n.done)
	}
}
