package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// AsideStatus says that a node has given its id up because its files were damaged, and where they lie.
type AsideStatus struct {
	Was     string    `json:"was,omitempty"` // the id before; "": it was lost
	At      time.Time `json:"at"`
	Part    string    `json:"part"`   // what was damaged: "identity", "raft", "snapshot" or "history manifest"
	Reason  string    `json:"reason"` // the error
	Folder  string    `json:"folder"` // where the damaged state lies
	History string    `json:"history"`
}

func (s *AsideStatus) String() string {
	return fmt.Sprintf("its files were damaged (%s) and lie in %s since %s: %s", s.Part, s.Folder, s.At.Format(time.RFC3339), s.Reason)
}

// asideStatus is nil for a node that has never stepped aside, and when the damaged files were removed since.
func (n *Node) asideStatus() *AsideStatus {
	a := n.folder.identity().Aside
	if a == nil {
		return nil
	}
	folder := filepath.Join(n.opts.DataDir, a.Folder)
	if _, err := os.Stat(folder); err != nil {
		return nil
	}
	return &AsideStatus{Was: a.Was, At: a.At, Part: a.Part, Reason: a.Reason, Folder: folder, History: a.History}
}

// maxAsideReason bounds, in bytes, the reason that a node gives others, which travels in one datagram with the rest of its answer.
const maxAsideReason = 300

// brief is what other nodes are told. The whole reason is in the node's own status and in its log.
func (s *AsideStatus) brief() *AsideStatus {
	if s == nil || len(s.Reason) <= maxAsideReason {
		return s
	}
	b := *s
	b.Reason = strings.ToValidUTF8(b.Reason[:maxAsideReason-len("…")], "") + "…"
	return &b
}

// waiting is what a node that has stepped aside waits for; "" if it has been taken in again.
func (n *Node) waiting() string {
	id := n.folder.identity()
	if id.Aside == nil || n.raft.LastIndex() > 0 || n.restores() {
		return ""
	}
	cluster := "its cluster, whose id was lost,"
	if id.ClusterID != "" {
		cluster = "cluster " + id.ClusterID
	}
	return fmt.Sprintf("its files were damaged (%s) and lie in %s: it waits, as a new node, for a leader of %s to add it, and never starts a cluster by itself; "+
		"a leader needs a majority of the voters from before, to which this node counted", id.Aside.Part, id.Aside.Folder, cluster)
}

// was is the id that the node has given up; "" if it has not.
func (id *identity) was() string {
	if id.Aside == nil {
		return ""
	}
	return id.Aside.Was
}

// notePeers remembers whom the cluster has besides this node, for a start that finds its state damaged. Housekeeping only.
func (n *Node) notePeers() {
	servers := n.servers()
	if len(servers) == 0 {
		return
	}
	before := n.folder.identity().Peers
	votes, peers := false, map[string]string{}
	for _, s := range servers {
		id := string(s.ID)
		switch {
		case s.Suffrage != raft.Voter:
		case id == n.NodeID():
			votes = true
		default:
			peers[id] = before[id]
			if m, ok := n.gossip.member(id); ok {
				peers[id] = m.addr
			}
		}
	}
	err := n.folder.change(func(id *identity) { id.Votes, id.Peers = votes, peers })
	if err != nil {
		n.log.Debug("cannot note who is in the cluster", "error", err)
	}
}

// joinAddrs are the gossip addresses to join: those configured, and for a node that has stepped aside those of its peers.
func (n *Node) joinAddrs() []string {
	addrs := slices.Clone(n.opts.Join)
	id := n.folder.identity()
	if id.Aside == nil {
		return addrs
	}
	for _, addr := range id.Peers {
		if addr != "" && !slices.Contains(addrs, addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// observeAside says for good that this node has stepped aside.
func (m *metrics) observeAside(n *Node) {
	g := keep(m, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "cantus_stepped_aside_timestamp_seconds",
		Help: "When this node gave its id up because a part of its files was damaged, and the folder to which they were moved; nothing if it never did.",
	}, []string{"part", "folder"}))
	if a := n.folder.identity().Aside; a != nil {
		g.WithLabelValues(a.Part, a.Folder).Set(float64(a.At.Unix()))
	}
}
