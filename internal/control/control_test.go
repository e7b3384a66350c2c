package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, addrs ...string) *Client {
	t.Helper()
	c, err := New(addrs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// dead is an address where nobody listens: the server that had it is closed.
func dead() string {
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

func TestRequests(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		json.NewEncoder(w).Encode(map[string]string{"got": r.Method + " " + r.URL.RequestURI() + " " + string(body)})
	})
	c := ask(t, strings.TrimPrefix(base, "http://"))
	var v struct{ Got string }
	if err := c.Get(t.Context(), "/v1/topics?filter=a%2F**", &v); err != nil || v.Got != "GET /v1/topics?filter=a%2F** " {
		t.Errorf("get: %q, %v", v.Got, err)
	}
	if err := c.Post(t.Context(), "/v1/nodes", map[string]string{"id": "x"}, &v); err != nil || v.Got != `POST /v1/nodes {"id":"x"}` {
		t.Errorf("post: %q, %v", v.Got, err)
	}
	if err := c.Delete(t.Context(), "/v1/nodes/x", nil); err != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		if r.URL.Path == "/coded" {
			io.WriteString(w, `{"error":{"code":"fenced","message":"too old"}}`)
			return
		}
		io.WriteString(w, "<html>")
	})
	c := ask(t, base)
	var refused *Refused
	err := c.Get(t.Context(), "/coded", nil)
	if !errors.As(err, &refused) || refused.Code != "fenced" || !strings.Contains(err.Error(), "too old") || refused.Status != 409 {
		t.Errorf("coded refusal: %v", err)
	}
	err = c.Get(t.Context(), "/plain", nil)
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "<html>") || !strings.Contains(err.Error(), "/plain") {
		t.Errorf("plain refusal: %v", err)
	}
	ok := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	if err := ask(t, ok).Get(t.Context(), "/", &struct{}{}); err == nil || !strings.Contains(err.Error(), "not what a Cantus node says") {
		t.Errorf("not JSON: %v", err)
	}
}

func TestNextNode(t *testing.T) {
	var asked atomic.Int32
	base := serve(t, func(w http.ResponseWriter, _ *http.Request) { asked.Add(1); io.WriteString(w, "{}") })
	c := ask(t, dead(), base)
	if err := c.Post(t.Context(), "/", 1, nil); err != nil || asked.Load() != 1 {
		t.Errorf("a dead node stands in the way: %v", err)
	}
	err := ask(t, dead(), dead()).Get(t.Context(), "/", nil)
	if err == nil || !strings.Contains(err.Error(), "is the node up?") {
		t.Errorf("nobody there: %v", err)
	}
	// A request whose connection broke may have been executed: it is not sent to another node.
	cut := serve(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	asked.Store(0)
	if err := ask(t, cut, base).Post(t.Context(), "/", 1, nil); err == nil || asked.Load() != 0 {
		t.Errorf("sent twice: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Get(ctx, "/", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for _, addr := range []string{"", "ftp://x", "http://", "http://a b"} {
		if _, err := New([]string{addr}); err == nil {
			t.Errorf("address %q accepted", addr)
		}
	}
	if _, err := New(nil); err == nil {
		t.Error("no address accepted")
	}
}
