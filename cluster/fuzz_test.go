package cluster

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzGreeting: whatever a stranger sends, a greeting that is accepted is the one that its id makes.
func FuzzGreeting(f *testing.F) {
	f.Add(greeting(greetRaft, "5d4a3c61-6b0f-4f0e-9a53-0d0f4c9f7a11", "0c6f"))
	f.Add(greeting(greetFiles, "x", ""))
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Add([]byte("CNTR\x01\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		magic, id, node, err := readGreeting(bytes.NewReader(b))
		if err == nil && !bytes.HasPrefix(b, greeting(magic, id, node)) {
			t.Fatalf("%q was read as %q %q", b, magic, id)
		}
	})
}

// FuzzIdentity: an identity that is accepted is written and read back the same.
func FuzzIdentity(f *testing.F) {
	f.Add([]byte(`{"format":1,"node_id":"5d4a3c61-6b0f-4f0e-9a53-0d0f4c9f7a11","cluster_id":"x","removed":["a"]}`))
	f.Add([]byte(`{"format":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := parseIdentity("dir/identity.json", b)
		if err != nil {
			return
		}
		again, err := json.Marshal(id)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := parseIdentity("dir/identity.json", again); err != nil || back.NodeID != id.NodeID || back.ClusterID != id.ClusterID {
			t.Fatalf("%+v came back as %+v, %v", id, back, err)
		}
	})
}

// FuzzGossipMessages: metadata and messages of others, whatever they are, are refused or understood, never a crash.
func FuzzGossipMessages(f *testing.F) {
	f.Add(envelope{From: "a", Ask: &ask{ID: 1, Op: askStatus}}.encode())
	f.Add(envelope{From: "a", Answer: &answer{ID: 1, Applied: 7}}.encode())
	f.Add(envelope{Removed: json.RawMessage(`["a","b"]`)}.encode())
	f.Add([]byte(`{"r":"h:1","i":"cluster","s":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := decodeMeta(b); err == nil {
			if enc, err := m.encode(); err == nil {
				if back, err := decodeMeta(enc); err != nil || back != m {
					t.Fatalf("%+v came back as %+v, %v", m, back, err)
				}
			}
		}
		g := gossip{inbox: make(chan []byte, 1)}
		g.MergeRemoteState(b, false)
		var e envelope
		if json.Unmarshal(b, &e) == nil {
			e.encode()
		}
	})
}
