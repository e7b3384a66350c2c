package control

import (
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"
)

const text = "0123456789"

func TestOpenFromAnOffset(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/file":
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		case "/stubborn": // sends everything whatever was asked for
			io.WriteString(w, text)
		default:
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, `{"error":{"code":"not_found","message":"gone"}}`)
		}
	})
	c := ask(t, base)
	for _, offset := range []int64{0, 4, 9} {
		r, err := c.Open(t.Context(), "/file", offset)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err != nil || string(got) != text[offset:] {
			t.Errorf("from %d: %q, %v", offset, got, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.Open(t.Context(), "/stubborn", 4); err == nil {
		t.Error("the whole file was taken for its end")
	}
	var refused *Refused
	if _, err := c.Open(t.Context(), "/none", 0); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &refused) || refused.Code != "not_found" {
		t.Errorf("no file: %v", err)
	}
	if _, err := ask(t, dead()).Open(t.Context(), "/file", 0); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no node: %v", err)
	}
}

func TestOneIsTheFirstThatAnswers(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "{}") })
	one, err := ask(t, dead(), base, dead()).One(t.Context())
	if err != nil || one.Base() != base {
		t.Errorf("%v, %v", one, err)
	}
	if _, err := ask(t, dead(), dead()).One(t.Context()); err == nil {
		t.Error("a client of nobody")
	}
}
