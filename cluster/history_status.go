package cluster

import (
	"strings"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/subtree"
)

// HistoryStatus is what a node keeps of the stream on disk.
type HistoryStatus struct {
	FirstSeq           uint64   `json:"first_seq"` // LastSeq+1 if nothing is kept yet
	LastSeq            uint64   `json:"last_seq"`
	Windows            uint64   `json:"windows"`             // sealed by the log so far, dropped ones too
	PendingWindows     uint64   `json:"pending_windows"`     // of these, not archived here yet
	DroppedWindows     uint64   `json:"dropped_windows"`     // of these, no longer retained
	Generations        int      `json:"generations"`         // in force
	PendingGenerations int      `json:"pending_generations"` // of these, not written here yet
	Files              int      `json:"files"`
	Bytes              int64    `json:"bytes"`                // of the files
	ReadMessages       uint64   `json:"read_messages"`        // that readers got from here since the node started
	ReadDiskBytes      uint64   `json:"read_disk_bytes"`      // read from files for readers since then: compressed, with indexes
	ReadRecordBytes    uint64   `json:"read_record_bytes"`    // of records, decompressed for readers since then
	ScrubbedBytes      uint64   `json:"scrubbed_bytes"`       // checked by scrubs since then
	LastScrub          int64    `json:"last_scrub,omitempty"` // when the last one ended, unix nanoseconds; 0: none has since then
	Repaired           uint64   `json:"repaired"`             // damaged files that were replaced by other nodes' since then
	Damaged            []string `json:"damaged,omitempty"`
	Problem            string   `json:"problem,omitempty"`
}

// HistoryStatus tells what of the stream lies on disk; nil if no history is kept. Any goroutine.
func (s *Stream) HistoryStatus() *HistoryStatus {
	h := s.history
	if h == nil {
		return nil
	}
	st := &HistoryStatus{Windows: newestWindow(s.machine), ReadMessages: h.pastMessages.Load()}
	if windows := s.machine.Windows(); len(windows) > 0 {
		st.DroppedWindows = windows[0].Number - 1
	}
	st.FirstSeq, st.LastSeq = h.store.Bounds()
	st.ReadDiskBytes, st.ReadRecordBytes = h.store.ReadStats()
	st.PendingWindows = st.Windows - min(st.Windows, h.archiver.done.Load())
	for _, m := range h.store.Files() {
		st.Files++
		st.Bytes += m.Size
	}
	for _, g := range s.machine.Generations() {
		st.Generations++
		if !h.written(g) {
			st.PendingGenerations++
		}
	}
	for _, e := range h.store.Damaged() {
		st.Damaged = append(st.Damaged, e.Error())
	}
	st.ScrubbedBytes, st.LastScrub = h.scrubber.bytes.Load(), h.scrubber.ended.Load()
	st.Problem = h.problem()
	return st
}

// newestWindow is the number of the last sealed window, 0 if there was none.
func newestWindow(m *fsm.Machine) uint64 {
	windows := m.Windows()
	if len(windows) == 0 {
		return 0
	}
	return windows[len(windows)-1].Number
}

// problem is what keeps history from being as it should, "" if nothing does.
func (h *history) problem() string {
	var list []string
	for _, t := range []*trouble{&h.archiver.problem, &h.rewriter.problem} {
		if p := t.get(); p != "" {
			list = append(list, p)
		}
	}
	if damaged := h.store.Damaged(); len(damaged) > 0 {
		list = append(list, "history is damaged: "+damaged[0].Error())
	}
	return strings.Join(list, "; ")
}

// HistoryFiles lists the files of history in the order of the stream; none if no history is kept. Any goroutine.
func (s *Stream) HistoryFiles() []subtree.Meta {
	if s.history == nil {
		return nil
	}
	return s.history.store.Files()
}
