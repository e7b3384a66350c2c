package cluster

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/memberlist"
)

// meta is what a node says of itself in its gossip metadata: JSON with short keys, since memberlist allows 512 bytes.
type meta struct {
	Name    string `json:"n,omitempty"`
	Raft    string `json:"r"` // addresses, host:port
	Client  string `json:"c,omitempty"`
	HTTP    string `json:"h,omitempty"`
	Cluster string `json:"i,omitempty"` // cluster id, empty while it has none
	Replica bool   `json:"p,omitempty"` // never votes
	State   bool   `json:"s,omitempty"` // has a raft log
	Expect  int    `json:"e,omitempty"` // BootstrapExpect
	Ballot  string `json:"b,omitempty"` // cluster id that it would bootstrap, see bootstrap.go
	Version string `json:"v,omitempty"`
	Was     string `json:"w,omitempty"` // the id that it has given up for good, see aside.go
}

func (m meta) encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("the node's metadata takes %d bytes, gossip allows %d: use shorter names or addresses", len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

func decodeMeta(b []byte) (meta, error) {
	var m meta
	if err := json.Unmarshal(b, &m); err != nil {
		return meta{}, fmt.Errorf("node metadata: %w", err)
	}
	return m, nil
}

// member is a node as gossip knows it. A member is remembered after it is gone.
type member struct {
	id    string
	meta  meta
	addr  string // gossip address
	node  memberlist.Node
	alive bool
	left  bool      // gone by its own will
	since time.Time // of the last change of alive
}
