package fsm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// ErrInvariant is the family of entries that are whole but cannot follow this state: the log or this node's state is broken, or a
// newer version wrote the entry.
var ErrInvariant = errors.New("the log breaks an invariant of the state machine")

// Log is where applied messages go: tipstore.Store, or a model in tests.
type Log interface {
	// Append stores a run of records with topic, seq and time filled in and returns the stored bytes, valid until the next call.
	// Topic numbers with record.NewTopic set are indexes into newTopics.
	Append(run []byte, count int, newTopics []topic.ID, firstSeq uint64, time int64) []byte
	// Publish makes all that was appended visible.
	Publish()
}

// Options of a machine. Table and Log are the machine's to write from New on. The table's limit and MaxProducers hold until the log
// says otherwise: nodes of a cluster must begin with the same.
type Options struct {
	Table        *topic.Table
	Log          Log
	MaxProducers int // > 0, at most math.MaxUint32

	// Sealed, Planned and Retained are called from Apply when a window is sealed, when a plan comes into force, and when windows up
	// to one are no longer retained; they must not block. nil: nobody asks. CheckPlan tells whether a plan can be read and is this partition's; it must be pure. nil: any bytes will do.
	Sealed    func(Window)
	Planned   func(Generation)
	Retained  func(through Window)
	CheckPlan func(partition string, plan []byte) error
}

// Machine is the state machine. Apply, Digest and the state belong to one goroutine; the methods that say so are any's.
type Machine struct {
	table *topic.Table
	log   Log

	// State: all that an entry's outcome depends on, with table.

	producers   producers
	index       uint64        // of the last applied entry; only grows
	seq         uint64        // of the newest message; only grows, by one
	time        int64         // of the last applied entry; never less than the one before
	stored      xxhash.Digest // over every byte that the log stored, in order
	storedBytes uint64        // how many these are; only grows
	config      atomic.Pointer[StreamConfig]

	windows     windows
	generations generations

	// Visible to other goroutines, stored at the end of each entry. Invariant: each is what the log has made visible, or less.

	visibleSeq, visibleIndex atomic.Uint64
	visibleTime, messageTime atomic.Int64
	checkpoints              checkpoints

	// Scratch of Apply, kept for its memory only.

	now      int64  // time of the entry in hand
	body     []byte // decompressed
	names    [][]byte
	newNames []newName
	newIDs   []topic.ID // by index of newNames; 0 until resolved
	volumes  volumes
}

// New makes the empty machine that a log's first entry is applied to.
func New(o Options) *Machine {
	m := &Machine{table: o.Table, log: o.Log}
	m.producers.init(o.MaxProducers)
	m.volumes.init()
	m.stored.Reset()
	m.windows.init(o.Sealed, o.Retained)
	m.generations.init(o.Planned, o.CheckPlan)
	m.config.Store(&StreamConfig{
		ProducerLease: DefaultProducerLease, MaxTopics: uint32(o.Table.MaxTopics()), MaxProducers: uint32(o.MaxProducers),
		WindowBytes: DefaultWindowBytes, WindowCount: DefaultWindowCount, WindowAge: DefaultWindowAge,
		RetainAge: Unlimited, RetainBytes: Unlimited, RetainCount: Unlimited,
	})
	return m
}

// Apply applies one log entry and appends its results to dst: one per batch, in order, or one for an entry of another kind. data
// is not changed and not kept. An error (record.ErrCorrupt or ErrInvariant) means that nothing was applied and that the
// caller must stop the node: what follows in the log cannot be applied either.
func (m *Machine) Apply(index uint64, data []byte, dst []Result) (record.EntryHeader, []Result, error) {
	h, results, err := m.apply(index, data, dst)
	if err != nil {
		return h, dst, fmt.Errorf("fsm: apply entry %d: %w", index, err)
	}
	return h, results, nil
}

func (m *Machine) apply(index uint64, data []byte, dst []Result) (h record.EntryHeader, _ []Result, err error) {
	if index <= m.index {
		return h, nil, fmt.Errorf("entry %d was applied before: %w", m.index, ErrInvariant)
	}
	h, body, scratch, err := record.DecodeEntry(data, m.body)
	if err != nil {
		return h, nil, err
	}
	m.body = scratch
	m.now = max(m.time, h.Time)
	switch h.Kind {
	case record.KindPublish:
		dst, err = m.applyPublish(index, body, dst)
	case record.KindOpenProducer, record.KindExpireProducers, record.KindConfig, record.KindCheckpoint, record.KindRetain:
		dst, err = m.applyCommand(index, h.Kind, body, dst)
	case record.KindPlan:
		dst, err = m.applyPlan(index, body, dst)
	default:
		err = fmt.Errorf("entry of kind %v is not known here: %w: is this node older than the others?", h.Kind, ErrInvariant)
	}
	if err != nil {
		return h, nil, err
	}
	m.visibleSeq.Store(m.seq)
	m.visibleTime.Store(m.time)
	m.visibleIndex.Store(m.index)
	m.sealIfDue()
	return h, dst, nil
}

// begin is the point after which an entry cannot fail.
func (m *Machine) begin(index uint64) {
	m.index, m.time = index, m.now
}

// LastSeq is the seq of the newest message, 0 if there is none. Any goroutine.
func (m *Machine) LastSeq() uint64 { return m.visibleSeq.Load() }

// LastTime is the time of the last applied entry of any kind, unix nanoseconds: no later message has less. Any goroutine.
func (m *Machine) LastTime() int64 { return m.visibleTime.Load() }

// LastMessageTime is the time of the newest message, unix nanoseconds, 0 if there is none. Any goroutine.
func (m *Machine) LastMessageTime() int64 { return m.messageTime.Load() }

// AppliedIndex is the log index of the last applied entry; what it published is visible. Any goroutine.
func (m *Machine) AppliedIndex() uint64 { return m.visibleIndex.Load() }

// Producers is the number of producers remembered. Any goroutine.
func (m *Machine) Producers() int { return int(m.producers.count.Load()) }

// Config is the stream's configuration in force. Any goroutine.
func (m *Machine) Config() StreamConfig { return *m.config.Load() }

// checkpoints keeps the last digests taken.
type checkpoints struct {
	mu struct {
		sync.Mutex
		kept []checkpoint // oldest first. Invariant: len <= maxCheckpoints
	}
}

type checkpoint struct {
	id     uint64
	digest Digest
}
