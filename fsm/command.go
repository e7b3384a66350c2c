package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// DefaultProducerLease is how long a producer that is not heard of is remembered, until configured otherwise.
const DefaultProducerLease = int64(7 * 24 * time.Hour)

// Limits of a stream whose log says nothing of them. Like all that outcomes depend on they are the same on every node, in every
// run and version: a node's own settings must not reach the machine but by an entry.
const (
	DefaultMaxTopics    = topic.DefaultMaxTopics
	DefaultMaxProducers = 1_000_000
)

// StreamConfig is what the log says about the stream as a whole.
type StreamConfig struct {
	// ProducerLease is how long, in nanoseconds, a producer is remembered after its last batch. Invariant: > 0. The leader proposes
	// expiry with it; the machine itself has no clock.
	ProducerLease int64
	// A window is sealed by the entry that brings it to WindowBytes of stored records or WindowCount messages, or whose time is WindowAge
	// nanoseconds after the window's first message. In an entry, 0 leaves what is in force. Invariant: > 0.
	WindowBytes, WindowCount uint64
	WindowAge                int64
	// Version counts the configurations applied; 0: the defaults. In an entry it is the version that the entry makes, which must be the
	// next one; 0: whatever comes next.
	Version uint64
	// MaxTopics and MaxProducers are the limits from here on; less than there are refuses new ones only. In an entry 0 leaves one
	// as it is. Invariant: 1 to topic.LimitMaxTopics; > 0.
	MaxTopics, MaxProducers uint32
	// How much of the stream is to be kept, in windows that are sealed: the leader drops the oldest ones whose newest message is RetainAge
	// nanoseconds older than the log's newest time, or as long as those behind them hold RetainBytes of stored records or RetainCount
	// messages. In an entry 0 leaves what is in force. Invariant: > 0; Unlimited, as in the beginning, drops nothing.
	RetainAge                int64
	RetainBytes, RetainCount uint64
}

// Bodies of the small entries, little-endian, of exactly this size, but for config:
//
//	open producer    0 [16]byte id, not all zero
//	expire           0 i64 cutoff, unix nanoseconds
//	config           0 i64 producer lease, nanoseconds   8 u64 version   16 u64 window bytes   24 u64 window count   32 i64 window age
//	                 40 u32 topics at most   44 u32 producers at most   48 i64 retained age, nanoseconds   56 u64 retained bytes   64 u64 retained count
//	                 or the first 48 bytes, which older versions wrote: what they do not name stays
//	checkpoint       0 u64 id
//	retain           0 u64 window: it and all before it are dropped

// OpenProducerBody is the body of a record.KindOpenProducer entry. id must not be zero.
func OpenProducerBody(id record.ProducerID) []byte { return id[:] }

// ExpireBody is the body of a record.KindExpireProducers entry: producers last used before cutoff (unix nanoseconds) are
// forgotten.
func ExpireBody(cutoff int64) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(cutoff))
}

// ConfigBody is the body of a record.KindConfig entry.
func ConfigBody(c StreamConfig) []byte {
	var b []byte
	for _, n := range [...]uint64{uint64(c.ProducerLease), c.Version, c.WindowBytes, c.WindowCount, uint64(c.WindowAge)} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	b = binary.LittleEndian.AppendUint32(b, c.MaxTopics)
	b = binary.LittleEndian.AppendUint32(b, c.MaxProducers)
	for _, n := range [...]uint64{uint64(c.RetainAge), c.RetainBytes, c.RetainCount} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// CheckpointBody is the body of a record.KindCheckpoint entry.
func CheckpointBody(id uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, id)
}

const (
	configSize    = 72
	configSizeOld = 48 // without the settings of retention
)

// commandSize is the size of the body of each small kind.
func commandSize(k record.Kind) int {
	switch k {
	case record.KindOpenProducer:
		return 16
	case record.KindConfig:
		return configSize
	default:
		return 8
	}
}

// applyCommand applies an entry of a small kind, which has one result.
func (m *Machine) applyCommand(index uint64, k record.Kind, body []byte, dst []Result) ([]Result, error) {
	if want := commandSize(k); len(body) != want && (k != record.KindConfig || len(body) != configSizeOld) {
		return nil, fmt.Errorf("entry of kind %v has a body of %d bytes, this version knows %d: %w", k, len(body), want, record.ErrCorrupt)
	}
	m.begin(index)
	var r Result
	switch k {
	case record.KindOpenProducer:
		m.openProducer(record.ProducerID(body), &r)
	case record.KindExpireProducers:
		r.Detail = m.producers.expire(int64(binary.LittleEndian.Uint64(body)))
	case record.KindConfig:
		m.configure(body, &r)
	case record.KindCheckpoint:
		r.Detail = binary.LittleEndian.Uint64(body)
		m.checkpoints.add(r.Detail, m.Digest())
	case record.KindRetain:
		m.retain(binary.LittleEndian.Uint64(body), &r)
	}
	return append(dst, r), nil
}

func (m *Machine) openProducer(id record.ProducerID, r *Result) {
	if id == (record.ProducerID{}) {
		r.Code = Invalid
		return
	}
	m.producers.open(id, m.now, r)
}

// configure replaces the configuration, unless it was made from another one than is in force.
func (m *Machine) configure(body []byte, r *Result) {
	old := m.config.Load()
	c := decodeConfig(body, old)
	r.Detail = old.Version
	switch {
	case c.ProducerLease <= 0 || c.WindowAge < 0 || c.RetainAge < 0 || c.MaxTopics > topic.LimitMaxTopics:
		r.Code = Invalid
	case c.Version != 0 && c.Version != r.Detail+1:
		r.Code = PreconditionFailed
	default:
		r.Detail++
		c.Version = r.Detail
		m.putConfig(&c)
	}
}

// putConfig puts a configuration in force.
func (m *Machine) putConfig(c *StreamConfig) {
	m.config.Store(c)
	m.table.SetMaxTopics(int(c.MaxTopics))
	m.producers.max = int(c.MaxProducers)
}

// decodeConfig reads the body of a config entry; what it leaves open is as in old.
func decodeConfig(body []byte, old *StreamConfig) StreamConfig {
	le := binary.LittleEndian
	var full [configSize]byte
	copy(full[:], body)
	body = full[:]
	return StreamConfig{
		ProducerLease: int64(le.Uint64(body)),
		Version:       le.Uint64(body[8:]),
		WindowBytes:   cmp.Or(le.Uint64(body[16:]), old.WindowBytes),
		WindowCount:   cmp.Or(le.Uint64(body[24:]), old.WindowCount),
		WindowAge:     cmp.Or(int64(le.Uint64(body[32:])), old.WindowAge),
		MaxTopics:     cmp.Or(le.Uint32(body[40:]), old.MaxTopics),
		MaxProducers:  cmp.Or(le.Uint32(body[44:]), old.MaxProducers),
		RetainAge:     cmp.Or(int64(le.Uint64(body[48:])), old.RetainAge),
		RetainBytes:   cmp.Or(le.Uint64(body[56:]), old.RetainBytes),
		RetainCount:   cmp.Or(le.Uint64(body[64:]), old.RetainCount),
	}
}
