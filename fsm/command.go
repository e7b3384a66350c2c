package fsm

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/record"
)

// DefaultProducerLease is how long a producer that is not heard of is remembered, until configured otherwise.
const DefaultProducerLease = int64(7 * 24 * time.Hour)

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
}

// withDefaults fills in what is 0.
func (c StreamConfig) withDefaults() StreamConfig {
	c.ProducerLease = cmp.Or(c.ProducerLease, DefaultProducerLease)
	c.WindowBytes = cmp.Or(c.WindowBytes, DefaultWindowBytes)
	c.WindowCount = cmp.Or(c.WindowCount, DefaultWindowCount)
	c.WindowAge = cmp.Or(c.WindowAge, DefaultWindowAge)
	return c
}

// Bodies of the small entries, little-endian, of exactly this size:
//
//	open producer    0 [16]byte id, not all zero
//	expire           0 i64 cutoff, unix nanoseconds
//	config           0 i64 producer lease, nanoseconds   8 u64 version   16 u64 window bytes   24 u64 window count   32 i64 window age
//	                 (16 bytes in logs from before there were windows: these stay as they are)
//	checkpoint       0 u64 id

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
	return b
}

// CheckpointBody is the body of a record.KindCheckpoint entry.
func CheckpointBody(id uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, id)
}

// commandSize is the size of the body of each small kind.
func commandSize(k record.Kind) int {
	switch k {
	case record.KindConfig:
		return 40
	case record.KindOpenProducer:
		return 16
	default:
		return 8
	}
}

// oldConfigSize is the size of a configuration that says nothing of windows.
const oldConfigSize = 16

// applyCommand applies an entry of a small kind, which has one result.
func (m *Machine) applyCommand(index uint64, k record.Kind, body []byte, dst []Result) ([]Result, error) {
	if want := commandSize(k); len(body) != want && (k != record.KindConfig || len(body) != oldConfigSize) {
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
	le, now := binary.LittleEndian, *m.config.Load()
	c := now
	c.ProducerLease, c.Version = int64(le.Uint64(body)), le.Uint64(body[8:])
	if len(body) > oldConfigSize {
		c.WindowBytes = cmp.Or(le.Uint64(body[16:]), now.WindowBytes)
		c.WindowCount = cmp.Or(le.Uint64(body[24:]), now.WindowCount)
		c.WindowAge = cmp.Or(int64(le.Uint64(body[32:])), now.WindowAge)
	}
	r.Detail = now.Version
	switch {
	case c.ProducerLease <= 0 || c.WindowAge < 0:
		r.Code = Invalid
	case c.Version != 0 && c.Version != r.Detail+1:
		r.Code = PreconditionFailed
	default:
		r.Detail++
		c.Version = r.Detail
		m.config.Store(&c)
	}
}
