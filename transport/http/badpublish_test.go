package http

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/record"
)

// TestPublishRefusesWhatTheLogCannotTake: an entry that breaks a rule would stop every node, so none may be submitted.
func TestPublishRefusesWhatTheLogCannotTake(t *testing.T) {
	n := newFakeNode(t, "a")
	_, ts := serve(t, n, nil)
	callJSON(t, "POST", ts.URL+"/v1/producers", `{"id":"`+producer+`"}`, 200, new(any))
	before := n.stream.Machine().LastSeq()
	for _, query := range []string{
		"producer=" + producer + "&epoch=1&number=18446744073709551615",
		"producer=" + producer + "&epoch=1&number=18446744073709551614",
		"producer=" + producer + "&epoch=1&number=9223372036854775808",
		"atomic=true" + strings.Repeat("&if_last=a@0", record.MaxPreconditions+1),
	} {
		var body errorBody
		callJSON(t, "POST", ts.URL+"/v1/publish?"+query, `{"topic":"a"}`+"\n"+`{"topic":"a"}`, 400, &body)
		if body.Error.Code != "bad_request" {
			t.Errorf("%s: %+v", query, body.Error)
		}
	}
	if seq := n.stream.Machine().LastSeq(); seq != before {
		t.Errorf("seq %d, was %d: something was published", seq, before)
	}
	publish(t, ts, "producer="+producer+"&epoch=1&number=1", `{"topic":"a"}`)
}

// TestLargeLineAfterSmallOnes: lines that do not fit into one batch go in several.
func TestLargeLineAfterSmallOnes(t *testing.T) {
	_, ts := serve(t, newFakeNode(t, "a"), nil)
	small := `{"topic":"a","payload":"` + strings.Repeat("x", 100_000) + `"}`
	large := `{"topic":"a","payload":"` + strings.Repeat("y", record.MaxPayload) + `"}`
	for i, a := range publish(t, ts, "", small, large, small, large) {
		if a.Seq != uint64(i+1) {
			t.Errorf("line %d: %+v", i+1, a)
		}
	}
	var body errorBody
	callJSON(t, "POST", ts.URL+"/v1/publish?atomic=true", small+"\n"+large, 413, &body)
	if body.Error.Code != "too_large" || body.Error.Line != 2 {
		t.Errorf("atomic: %+v", body.Error)
	}
}

// TestBadLines are told by number; what stands before is published, nothing after.
func TestBadLines(t *testing.T) {
	for _, tt := range []struct{ name, line, code string }{
		{"text behind the object", `{"topic":"a","payload":"1"} x`, "bad_request"},
		{"two objects", `{"topic":"a","payload":"1"}{"topic":"a","payload":"2"}`, "bad_request"},
		{"no UTF-8", "{\"topic\":\"a\",\"payload\":\"\xff\"}", "bad_request"},
		{"no object", `7`, "bad_request"},
		{"empty header key", `{"topic":"a","headers":{"":"v"}}`, "bad_request"},
		{"headers too large", fmt.Sprintf(`{"topic":"a","headers":{"k":%q}}`, strings.Repeat("v", record.MaxHeaderBytes)), "too_large"},
		{"payload too large", fmt.Sprintf(`{"topic":"a","payload":%q}`, strings.Repeat("v", record.MaxPayload+1)), "too_large"},
		{"line too long", fmt.Sprintf(`{"topic":"a","payload":%q}`, strings.Repeat("v", maxLine)), "too_large"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newFakeNode(t, "a")
			_, ts := serve(t, n, nil)
			good := `{"topic":"a","payload":"good"}`
			_, text := call(t, "POST", ts.URL+"/v1/publish", good+"\n"+tt.line+"\n"+good)
			first, last, _ := strings.Cut(strings.TrimSpace(text), "\n")
			var ack PublishAnswer
			var refused errorBody
			if json.Unmarshal([]byte(first), &ack) != nil || json.Unmarshal([]byte(last), &refused) != nil || refused.Error == nil {
				t.Fatalf("answers %s", text)
			}
			if ack.Seq != 1 || refused.Error.Code != tt.code || refused.Error.Line != 2 {
				t.Errorf("answers %s; want seq 1, then %s of line 2", text, tt.code)
			}
			if seq := n.stream.Machine().LastSeq(); seq != 1 {
				t.Errorf("%d messages published", seq)
			}
		})
	}
}
