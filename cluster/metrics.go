package cluster

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cantus-bus/cantus/fsm"
)

// metrics are the node's, all named cantus_*. Without a registry they count for nobody.
type metrics struct {
	registry   prometheus.Registerer
	registered []prometheus.Collector

	outcomes         *prometheus.CounterVec
	codes            [256]prometheus.Counter // of outcomes, by code: no look-up per batch
	forwarded        prometheus.Counter
	links            prometheus.Counter
	entries          prometheus.Counter
	entryBatches     prometheus.Histogram
	entryRaw         prometheus.Counter
	entryBytes       prometheus.Counter
	swept            prometheus.Counter
	leaderships      prometheus.Counter
	snapshotsRefused prometheus.Counter
	snapshotsSent    prometheus.Counter
	fileBytesSent    prometheus.Counter
	fileBytesFetched prometheus.Counter
	catchUpErrors    prometheus.Counter
	repaired         prometheus.Counter
	strangers        prometheus.Counter
	snapshots        prometheus.Counter
	snapshotErrors   prometheus.Counter
	trimmed          prometheus.Counter
	storeSeconds     *prometheus.HistogramVec
	storeBytes       prometheus.Histogram
	storeEntries     prometheus.Histogram
	diskFree         prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{registry: r}
	counter := func(name, help string) prometheus.Counter {
		return keep(m, prometheus.NewCounter(prometheus.CounterOpts{Name: "cantus_" + name, Help: help}))
	}
	histogram := func(name, help string, start, factor float64, n int) prometheus.Histogram {
		return keep(m, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "cantus_" + name, Help: help, Buckets: prometheus.ExponentialBuckets(start, factor, n)}))
	}
	m.outcomes = keep(m, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cantus_publish_batches_total", Help: "Batches completed, by outcome."}, []string{"outcome"}))
	for c := range m.codes {
		if name := fsm.Code(c).String(); !strings.HasPrefix(name, "code ") {
			m.codes[c] = m.outcomes.WithLabelValues(strings.ReplaceAll(name, " ", "_"))
		}
	}
	m.forwarded = counter("publish_forwarded_batches_total", "Batches sent on to the leader.")
	m.links = counter("leader_links_total", "Connections made to leaders to forward publishes.")
	m.entries = counter("raft_entries_proposed_total", "Publish entries proposed here.")
	m.entryBatches = histogram("raft_entry_batches", "Batches per publish entry.", 1, 4, 8)
	m.entryRaw = counter("raft_entry_raw_bytes_total", "Bytes of proposed entries before compression.")
	m.entryBytes = counter("raft_entry_bytes_total", "Bytes of proposed entries as raft stores them.")
	m.swept = counter("raft_entries_swept_total", "Entries whose fate was unknown when the leadership ended.")
	m.leaderships = counter("raft_leaderships_total", "Times that this node became leader.")
	m.snapshotsRefused = counter("raft_snapshots_refused_total", "Snapshots of leaders that this node could not take.")
	m.snapshotsSent = counter("raft_snapshots_sent_total", "Times that a snapshot was sent to a node to which the log does not reach back.")
	m.fileBytesSent = counter("files_sent_bytes_total", "Bytes of files of history and snapshots given to others.")
	m.fileBytesFetched = counter("files_fetched_bytes_total", "Bytes of files of history and snapshots fetched from other nodes.")
	m.catchUpErrors = counter("catch_up_errors_total", "Attempts to fetch a snapshot and its history that failed.")
	m.repaired = counter("history_repaired_files_total", "Damaged files of history that were replaced by whole ones of other nodes.")
	m.strangers = counter("raft_strangers_total", "Raft connections from other clusters, refused.")
	m.snapshots = counter("snapshots_total", "Snapshots taken here.")
	m.snapshotErrors = counter("snapshot_errors_total", "Snapshots that could not be taken.")
	m.trimmed = counter("log_trimmed_entries_total", "Entries deleted from the beginning of the log.")
	m.storeSeconds = keep(m, prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "cantus_raft_store_seconds", Help: "Time of one write to raft's stores.", Buckets: prometheus.ExponentialBuckets(0.0001, 2.5, 12)}, []string{"op"}))
	m.storeBytes = histogram("raft_store_bytes", "Bytes of entries in one write to the log.", 256, 4, 10)
	m.storeEntries = histogram("raft_store_entries", "Entries in one write to the log.", 1, 2, 8)
	m.diskFree = keep(m, prometheus.NewGauge(prometheus.GaugeOpts{Name: "cantus_disk_free_bytes", Help: "Free bytes of the data folder's disk."}))
	return m
}

// keep registers a collector and remembers it for close.
func keep[C prometheus.Collector](m *metrics, c C) C {
	if m.registry != nil {
		m.registry.MustRegister(c)
		m.registered = append(m.registered, c)
	}
	return c
}

// observe adds the values that are read from the node when they are asked for.
func (m *metrics) observe(n *Node) {
	gauge := func(name, help string, f func() float64) {
		keep(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cantus_" + name, Help: help}, f))
	}
	gauge("raft_is_leader", "1 while this node leads.", func() float64 { return flag(n.isLeader()) })
	gauge("raft_term", "Raft's current term.", func() float64 { return float64(n.raft.CurrentTerm()) })
	gauge("raft_commit_index", "Index of the last committed entry known here.", func() float64 { return float64(n.raft.CommitIndex()) })
	gauge("raft_last_index", "Index of the last entry in the log here.", func() float64 { return float64(n.raft.LastIndex()) })
	gauge("applied_index", "Index of the last entry applied here.", func() float64 { return float64(n.positions.index.Load()) })
	keep(m, prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "cantus_raft_entries_applied_total", Help: "Entries applied here since the node started, those of its log among them."},
		func() float64 { return float64(n.adapter.count.Load()) }))
	gauge("applied_seq", "Seq of the newest message applied here.", func() float64 { return float64(n.stream.Machine().LastSeq()) })
	gauge("producers", "Producers remembered.", func() float64 { return float64(n.stream.Machine().Producers()) })
	gauge("topics", "Topics.", func() float64 { return float64(n.stream.Table().Topics()) })
	gauge("topic_table_bytes", "Memory of the topic table.", func() float64 { return float64(n.stream.Table().MemoryBytes()) })
	gauge("publish_queued_batches", "Batches that wait to be proposed or forwarded.", func() float64 { c, _ := n.proposer.queued(); return float64(c) })
	gauge("publish_queued_bytes", "Bytes of those batches.", func() float64 { _, b := n.proposer.queued(); return float64(b) })
	gauge("gossip_alive_members", "Other nodes that gossip sees alive.", func() float64 { return float64(len(n.gossip.alive())) })
	gauge("disk_low", "1 while publishes are refused for want of disk space.", func() float64 { return flag(n.diskLow.Load()) })
	gauge("catching_up", "1 while a snapshot and history are fetched from other nodes.", func() float64 { return flag(n.catchup.status() != nil) })
	gauge("catch_up_remaining_bytes", "Bytes that are still to be fetched for that.", func() float64 {
		if s := n.catchup.status(); s != nil {
			return float64(s.Bytes - s.BytesDone)
		}
		return 0
	})
	m.observeTip(n)
	m.observeAside(n)
	if n.stream.history != nil {
		m.observeHistory(n.stream)
		m.observeSnapshots(n)
	}
}

func (m *metrics) observeTip(n *Node) {
	gauge := func(name, help string, f func() float64) {
		keep(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cantus_tip_" + name, Help: help}, f))
	}
	stats := n.stream.Tip().Stats
	gauge("first_seq", "Oldest seq in the tip.", func() float64 { return float64(stats().FirstSeq) })
	gauge("ring_bytes", "Size of the ring.", func() float64 { return float64(stats().RingBytes) })
	gauge("used_bytes", "Bytes of the ring in use.", func() float64 { return float64(stats().UsedBytes) })
	gauge("index_bytes", "Memory of the partition index.", func() float64 { return float64(stats().IndexBytes) })
	gauge("held_chunks", "Chunks beyond the ring's size that wait to be archived.", func() float64 { return float64(stats().HeldChunks) })
	gauge("floor_wait_seconds", "Time that applying has waited for the archiver, in all.", func() float64 { return stats().FloorWaited.Seconds() })
	gauge("watches", "Sleeping readers' watches.", func() float64 { return float64(stats().Watches) })
}

func (m *metrics) observeHistory(s *Stream) {
	gauge := func(name, help string, f func() float64) {
		keep(m, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cantus_history_" + name, Help: help}, f))
	}
	counter := func(name, help string, f func() uint64) {
		keep(m, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "cantus_history_" + name, Help: help}, func() float64 { return float64(f()) }))
	}
	h, status := s.history, func() *HistoryStatus { return s.HistoryStatus() }
	gauge("first_seq", "Oldest seq in history.", func() float64 { return float64(status().FirstSeq) })
	gauge("last_seq", "Newest seq in history.", func() float64 { return float64(status().LastSeq) })
	gauge("files", "Files of history.", func() float64 { return float64(status().Files) })
	gauge("bytes", "Bytes of these files.", func() float64 { return float64(status().Bytes) })
	gauge("damaged_files", "Files of history that failed a check.", func() float64 { return float64(len(status().Damaged)) })
	gauge("pending_windows", "Windows sealed by the log that are not archived here.", func() float64 { return float64(status().PendingWindows) })
	gauge("pending_generations", "Generations planned that are not written here.", func() float64 { return float64(status().PendingGenerations) })
	counter("archive_errors_total", "Attempts to archive a window that failed.", h.archiver.problem.count.Load)
	counter("rewrite_errors_total", "Passes of rewriting into stores that failed.", h.rewriter.problem.count.Load)
	counter("scrubbed_bytes_total", "Bytes of history that scrubs have checked.", h.scrubber.bytes.Load)
	gauge("last_scrub_timestamp_seconds", "When the last scrub ended, 0 if none has since the start.", func() float64 { return float64(h.scrubber.ended.Load()) / 1e9 })
	counter("read_messages_total", "Messages that readers got from history.", h.pastMessages.Load)
	counter("tip_read_messages_total", "Messages that readers got from the tip.", h.tipMessages.Load)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// outcome counts a completed batch.
func (m *metrics) outcome(c fsm.Code) {
	if k := m.codes[c]; k != nil {
		k.Inc()
	}
}

func (m *metrics) entry(raw, stored, batches int) {
	m.entries.Inc()
	m.entryRaw.Add(float64(raw))
	m.entryBytes.Add(float64(stored))
	m.entryBatches.Observe(float64(batches))
}

func (m *metrics) store(op string, d time.Duration) {
	m.storeSeconds.WithLabelValues(op).Observe(d.Seconds())
}

// close takes the metrics off the registry.
func (m *metrics) close() {
	for _, c := range m.registered {
		m.registry.Unregister(c)
	}
}
