package fsm

import (
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
	// Version counts the configurations applied; 0: the defaults. In an entry it is the version that the entry makes, which must be the
	// next one; 0: whatever comes next.
	Version uint64
}

// Bodies of the small entries, little-endian, of exactly this size:
//
//	open producer    0 [16]byte id, not all zero
//	expire           0 i64 cutoff, unix nanoseconds
//	config           0 i64 producer lease, nanoseconds   8 u64 version
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
	b := binary.LittleEndian.AppendUint64(nil, uint64(c.ProducerLease))
	return binary.LittleEndian.AppendUint64(b, c.Version)
}

// CheckpointBody is the body of a record.KindCheckpoint entry.
func CheckpointBody(id uint64) []byte {
	return binary.LittleEndian.AppendUint64(nil, id)
}

// commandSize is the size of the body of each small kind.
func commandSize(k record.Kind) int {
	switch k {
	case record.KindOpenProducer, record.KindConfig:
		return 16
	default:
		return 8
	}
}

// applyCommand applies an entry of a small kind, which has one result.
func (m *Machine) applyCommand(index uint64, k record.Kind, body []byte, dst []Result) ([]Result, error) {
	if want := commandSize(k); len(body) != want {
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
	c := StreamConfig{
		ProducerLease: int64(binary.LittleEndian.Uint64(body)),
		Version:       binary.LittleEndian.Uint64(body[8:]),
	}
	r.Detail = m.config.Load().Version
	switch {
	case c.ProducerLease <= 0:
		r.Code = Invalid
	case c.Version != 0 && c.Version != r.Detail+1:
		r.Code = PreconditionFailed
	default:
		r.Detail++
		c.Version = r.Detail
		m.config.Store(&c)
	}
}
