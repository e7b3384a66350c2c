package cluster

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

func (m *metrics) observeSnapshots(n *Node) {
	gauge := func(name, help string, f func() float64) {
		keep(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cantus_" + name, Help: help}, f))
	}
	newest := func(f func(*snapManifest) float64) func() float64 {
		return func() float64 {
			s, ok := n.snaps.newest()
			if !ok {
				return 0
			}
			return f(s)
		}
	}
	gauge("snapshot_index", "Newest log entry in the last snapshot; 0: there is none.", newest(func(s *snapManifest) float64 { return float64(s.index) }))
	gauge("snapshot_seq", "Newest message in the last snapshot.", newest(func(s *snapManifest) float64 { return float64(s.seq) }))
	gauge("snapshot_state_bytes", "Bytes of the last snapshot's state file.", newest(func(s *snapManifest) float64 { return float64(s.stateSize) }))
	gauge("snapshot_age_seconds", "Time since the last snapshot was made.", newest(func(s *snapManifest) float64 { return time.Since(time.Unix(0, s.time)).Seconds() }))
	gauge("log_first_index", "Index of the first entry in the log here.", func() float64 { return float64(n.logFirst()) })
	gauge("log_known_bytes", "Bytes of the entries in the log that were stored since the node started.", func() float64 { return float64(n.guard.sizes.known()) })
	gauge("log_since_snapshot_bytes", "Bytes of entries applied since the last snapshot.", func() float64 { return float64(n.adapter.since.Load()) })
}

// logFirst is the index of the log's first entry, 0 if it has none or cannot be read.
func (n *Node) logFirst() uint64 {
	first, err := n.logs.FirstIndex()
	if err != nil {
		return 0
	}
	return first
}
