package cluster

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cantus-bus/cantus/fsm"
	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/tipstore"
)

// StreamOptions size one stream. The limits decide what is refused, so every node must have the same at the same place of the log:
// a stream by itself begins with these; a node begins with the defaults and, when it leads and is told others, puts those
// into the log.
type StreamOptions struct {
	Tip          tipstore.Options
	MaxTopics    int // at most topic.LimitMaxTopics; 0: fsm.DefaultMaxTopics, of a node: what the log says
	MaxProducers int // at most math.MaxUint32; 0: fsm.DefaultMaxProducers, of a node: what the log says

	History *HistoryOptions // nil: nothing is kept beyond the tip
}

// Stream is one totally ordered stream on one node: the state machine, its topic table, the tip that readers read, and what of the
// stream lies on disk. Committed entries go in, readers come out; there is no raft inside, so that tests and benchmarks can drive a stream by themselves, and
// nothing global, so that a process can hold several.
type Stream struct {
	table   *topic.Table
	tip     *tipstore.Store
	machine *fsm.Machine
	history *history      // nil: there is none
	sealed  chan struct{} // capacity 1: a window was sealed since it was last looked at

	// readers is the number of Readers opened and not closed. Close refuses while it is not 0: a reader that outlived the tip would
	// read memory that is no longer there.
	readers atomic.Int64
}

// NewStream makes an empty stream. The caller owns it and must Close it.
func NewStream(o StreamOptions) (*Stream, error) {
	s, err := openStream(o)
	if err == nil {
		s.start()
	}
	return s, err
}

// start lets history follow what is applied from here on. Once, before the first Apply and after restore.
func (s *Stream) start() {
	if s.history != nil {
		s.history.start()
	}
}

// openStream makes an empty stream whose history does not follow yet, so that a state can be restored.
func openStream(o StreamOptions) (*Stream, error) {
	if o.MaxTopics <= 0 {
		o.MaxTopics = fsm.DefaultMaxTopics
	}
	if o.MaxProducers <= 0 {
		o.MaxProducers = fsm.DefaultMaxProducers
	}
	table := topic.NewTable(o.MaxTopics)
	tip, err := tipstore.Open(o.Tip, table)
	if err != nil {
		return nil, fmt.Errorf("cluster: open the stream's tip: %w", err)
	}
	s := &Stream{table: table, tip: tip, sealed: make(chan struct{}, 1)}
	mo := fsm.Options{Table: table, Log: tip, MaxProducers: o.MaxProducers, CheckPlan: checkPlan, Sealed: s.windowSealed}
	if o.History != nil {
		if s.history, err = openHistory(*o.History, table, tip); err != nil {
			return nil, errors.Join(err, tip.Close())
		}
		mo.Planned, mo.Retained = s.history.planned, s.history.retained
	}
	s.machine = fsm.New(mo)
	if s.history != nil {
		s.history.machine = s.machine
	}
	return s, nil
}

// Retire ends the archiving, so that Apply waits for it no more. What is applied from now on may not reach history before the next
// start. Close implies it; call it before waiting for whoever applies.
func (s *Stream) Retire() {
	if s.history != nil {
		s.history.stop()
	}
}

// Failed gets the error that makes history useless: its folder is not this stream's. nil if there is no history.
func (s *Stream) Failed() <-chan error {
	if s.history == nil {
		return nil
	}
	return s.history.failed
}

// Close frees the tip's memory. Every Reader must have been closed and Apply must have returned; with readers still open it
// refuses, changes nothing, and may be called again.
func (s *Stream) Close() error {
	if n := s.readers.Load(); n > 0 {
		return fmt.Errorf("cluster: close the stream: %d readers are still open: close them first", n)
	}
	s.Retire()
	if s.history != nil {
		return errors.Join(s.history.store.Close(), s.tip.Close())
	}
	return s.tip.Close()
}

// Bounds are the oldest seq that is retained and can be read, from history or the tip, and the newest visible one; (1, 0) in the beginning. Any
// goroutine.
func (s *Stream) Bounds() (first, last uint64) {
	oldest := s.machine.FirstSeq() // before last is: it is never beyond
	first, last = s.tip.Bounds()
	if s.history == nil {
		return max(first, oldest), last
	}
	// Never before the log is replayed up to there: what was not applied is not visible.
	if from, to := s.history.store.Bounds(); from <= to && from <= last {
		first = min(first, from)
	}
	return max(first, oldest), last
}

// windowSealed is the state machine's call, from Apply.
func (s *Stream) windowSealed(w fsm.Window) {
	if s.history != nil {
		s.history.windowSealed(w)
	}
	kick(s.sealed)
}

// Apply feeds one committed entry and appends its results to dst, as fsm.Machine.Apply. One goroutine. An error is fatal for the
// node: its log or its state is broken.
func (s *Stream) Apply(index uint64, data []byte, dst []fsm.Result) (record.EntryHeader, []fsm.Result, error) {
	return s.machine.Apply(index, data, dst)
}

// Table is the topic table; Apply's goroutine is its only writer.
func (s *Stream) Table() *topic.Table { return s.table }

// Machine is the state machine, for its readers.
func (s *Stream) Machine() *fsm.Machine { return s.machine }

// Tip is the store that Apply appends to, for metrics and for readers of its own kind.
func (s *Stream) Tip() *tipstore.Store { return s.tip }
