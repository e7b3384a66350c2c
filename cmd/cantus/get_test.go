package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestGet(t *testing.T) {
	s := startServer(t, "--dev")
	for _, m := range [][]string{{"app/x", "one", "--header", "k=v"}, {"app/y", "two"}, {"app/x", "three"}, {"other", "four"}} {
		must(t, cantus(t, s.env, append([]string{"pub"}, m...)...))
	}
	for line, want := range map[string]string{
		"get app/x --raw":                        "three\n",
		"get app/x --raw --seq 2":                "one\n",
		"get --seq 2 --raw":                      "two\n",
		"get other --raw --linearizable":         "four\n",
		"get app/y --raw --min-seq 4 --wait 10s": "two\n",
		"get none/** --raw":                      "",
	} {
		if r := must(t, cantus(t, s.env, strings.Fields(line)...)); r.out != want {
			t.Errorf("cantus %s: %q, want %q", line, r.out, want)
		}
	}
	r := must(t, cantus(t, s.env, "get", "--seq", "1", "--json"))
	if m := decode[received](t, r); m.Seq != 1 || m.Topic != "app/x" || *m.Payload != "one" || m.Headers["k"] != "v" || m.Size != 3 || m.Time == "" {
		t.Errorf("message 1: %+v", m)
	}
	var seqs []uint64
	r = must(t, cantus(t, s.env, "get", "app/**", "other", "--json"))
	for line := range strings.Lines(r.out) {
		var m received
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		seqs = append(seqs, m.Seq)
	}
	if slices.Sort(seqs); !slices.Equal(seqs, []uint64{2, 3, 4}) {
		t.Errorf("last of each: %v", seqs)
	}
	for line, part := range map[string]string{
		"get app/none":                  "not found",
		"get app":                       "not found",
		"get --seq 99 --wait 1ms":       "not yet",
		"get a//b":                      "bad topic",
		"get a/* b":                     "bad filter",
		"get app/x --seq 99 --wait 1ms": "not yet",
	} {
		if r := cantus(t, s.env, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, part) || r.out != "" {
			t.Errorf("cantus %s: exit code %d, %q, %q: want %q", line, r.code, r.out, r.err, part)
		}
	}
}
