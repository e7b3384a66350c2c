package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cantus-bus/cantus/internal/output"
	"github.com/cantus-bus/cantus/transport/http"
)

// TestVerificationInWords: replicas that differ are told from those that could not be asked.
func TestVerificationInWords(t *testing.T) {
	x := map[string]string{"stream": "11", "topics": strings.Repeat("2", 64)}
	y := map[string]string{"stream": "99", "topics": strings.Repeat("2", 64)}
	for name, c := range map[string]struct {
		v          http.Verification
		has, lacks []string
	}{
		"equal": {http.Verification{Seq: 7, Equal: true, Files: 2, Nodes: []http.NodeDigest{{ID: "a", Parts: x}, {ID: "b", Parts: x}}},
			[]string{"2 replicas are equal at seq 7", "the 2 files", "all 2"}, []string{"DIFFER", "NOT COMPARED"}},
		"alone": {http.Verification{Seq: 7, Equal: true, Nodes: []http.NodeDigest{{ID: "a", Parts: x}}}, []string{"one replica, at seq 7", "all 1"}, []string{"DIFFER", "are equal"}},
		"one is silent": {http.Verification{Seq: 7, Differences: []string{"node c: no digest: refused"}, Nodes: []http.NodeDigest{{ID: "a", Parts: x}, {ID: "b", Parts: x}, {ID: "c", Error: "refused"}}},
			[]string{"2 of 3 replicas were compared and are equal at seq 7", "NOT COMPARED:\n  - node c: no digest: refused"}, []string{"DIFFER"}},
		"one differs": {http.Verification{Seq: 7, Differences: []string{"node b: stream 99, but 11 on a"}, Nodes: []http.NodeDigest{{ID: "a", Parts: x}, {ID: "b", Parts: y}}},
			[]string{"DIFFER at seq 7", "  - node b: stream 99", " stream  99 ", "all 2"}, []string{"are equal"}},
		"one differs, one is silent": {http.Verification{Seq: 7, Differences: []string{"node b: stream 99", "node c: no digest"}, Nodes: []http.NodeDigest{{ID: "a", Parts: x}, {ID: "b", Parts: y}, {ID: "c", Error: "refused"}}},
			[]string{"DIFFER at seq 7", "node c: no digest"}, []string{"are equal"}},
	} {
		var out bytes.Buffer
		a := &app{Writer: output.Writer{Out: &out, Err: &out}}
		if err := a.printVerification(c.v); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.has {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s lacks %q:\n%s", name, want, out.String())
			}
		}
		for _, bad := range c.lacks {
			if strings.Contains(out.String(), bad) {
				t.Errorf("%s has %q:\n%s", name, bad, out.String())
			}
		}
	}
}
