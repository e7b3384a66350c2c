package fsm

import (
	"bytes"
	"slices"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// State is all that outcomes depend on, as it was at one place of the log, detached from the machine: the machine goes on, the state
// stays. It shares with the machine only what never changes.
type State struct {
	index, seq  uint64
	time        int64
	messageTime int64 // of the newest message
	stored      xxhash.Digest
	storedBytes uint64
	config      StreamConfig

	topics    *topic.Snapshot
	producers producersState
	windows   windowsState
	plans     plansState

	digest func() Digest // once
	sort   func()        // once: orders the producers by id, before anyone looks at them
}

// producersState is the table of producers; in no order until State.sort.
type producersState struct {
	list  []namedProducer
	floor uint32
}

type namedProducer struct {
	id record.ProducerID
	producer
}

type windowsState struct {
	sealed []Window
	open   Window
	sum    xxhash.Digest
}

type plansState struct {
	list []Generation
	made uint64
	sum  xxhash.Digest
}

// Capture copies the state: 24 bytes a node of the topic table, and what each producer takes. Apply's goroutine only; what is returned is
// any goroutine's.
func (m *Machine) Capture() *State {
	s := &State{
		index: m.index, seq: m.seq, time: m.time, messageTime: m.messageTime.Load(),
		stored: m.stored, storedBytes: m.storedBytes, config: *m.config.Load(),
		topics:    m.table.Capture(),
		producers: m.producers.capture(),
		windows:   windowsState{m.windows.sealed, m.windows.open, m.windows.sum},
		plans:     plansState{m.generations.list, m.generations.made, m.generations.sum},
	}
	s.digest, s.sort = sync.OnceValue(s.takeDigest), sync.OnceFunc(s.producers.sort)
	return s
}

// capture copies all producers with their runs.
func (t *producers) capture() producersState {
	s := producersState{list: make([]namedProducer, 0, len(t.byID)), floor: t.floor}
	count := 0
	for id, p := range t.byID {
		s.list = append(s.list, namedProducer{id, *p})
		count += len(p.ring)
	}
	runs := make([]run, 0, count)
	for i := range s.list {
		p := &s.list[i].producer
		start := len(runs)
		runs = append(runs, p.ring...)
		p.ring = runs[start:len(runs):len(runs)]
	}
	return s
}

func (s *producersState) sort() {
	slices.SortFunc(s.list, func(a, b namedProducer) int { return bytes.Compare(a.id[:], b.id[:]) })
}

// Index is that of the last applied entry.
func (s *State) Index() uint64 { return s.index }

// Seq is that of the newest message, 0 if there is none.
func (s *State) Seq() uint64 { return s.seq }

// Time is that of the last applied entry, unix nanoseconds.
func (s *State) Time() int64 { return s.time }

// Sealed is the last sealed window; ok is false if there was none. The messages behind it are the tail.
func (s *State) Sealed() (w Window, ok bool) {
	if len(s.windows.sealed) == 0 {
		return Window{}, false
	}
	return s.windows.sealed[len(s.windows.sealed)-1], true
}

// First is the oldest seq retained, 1 in the beginning.
func (s *State) First() uint64 { return firstSeq(s.windows.sealed) }

// Digest is what the machine's was at that place. Any goroutine; the first call takes a part of a second at a million topics.
func (s *State) Digest() Digest { return s.digest() }

func (s *State) takeDigest() Digest {
	s.sort()
	topics := s.topics.Digest()
	return digestOf(s.index, s.seq, s.time, &s.stored, topics, s.producers.digest(), &s.config, s.windows.digest(), s.plans.digest())
}
