package fsm

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"

	"github.com/cantus-bus/cantus/internal/record"
)

// maxCheckpoints is how many digests are kept for those who ask.
const maxCheckpoints = 16

// Digest is the whole state at one place of the log, in parts so that a difference can be named:
//
//	"stream"     every stored byte of every message, in order
//	"topics"     names in order of creation, counts and last seqs
//	"producers"  ids, epochs, last use, what their numbers became
//	"config"     the configuration in force
//	"windows"    where the stream was cut, and what lies in the open window
//	"plans"      how windows are split into stores
//
// Two nodes with the same log have equal digests. The hashes find faults, not forgers.
type Digest struct {
	Index uint64            // of the last applied entry
	Seq   uint64            // of the newest message
	Time  int64             // of the last applied entry
	Parts map[string]string // hex
}

// Digest of now; Apply's goroutine only. It reads the names of all topics and all producers: a part of a second at a million.
func (m *Machine) Digest() Digest {
	topics := m.table.Digest()
	c := m.config.Load()
	return Digest{Index: m.index, Seq: m.seq, Time: m.time, Parts: map[string]string{
		"stream":    hexSum(m.stored.Sum64()),
		"topics":    hex.EncodeToString(topics[:]),
		"producers": m.producers.digest(),
		"config":    hexSum(xxhash.Sum64(ConfigBody(*c))),
		"windows":   m.windows.digest(),
		"plans":     m.generations.digest(),
	}}
}

// Checkpoint returns the digest taken when checkpoint id was applied, if it is among the last maxCheckpoints. What is kept is not
// part of the state. Any goroutine.
func (m *Machine) Checkpoint(id uint64) (Digest, bool) {
	c := &m.checkpoints
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.mu.kept) - 1; i >= 0; i-- {
		if c.mu.kept[i].id == id {
			return c.mu.kept[i].digest, true
		}
	}
	return Digest{}, false
}

func (c *checkpoints) add(id uint64, d Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.kept) == maxCheckpoints {
		c.mu.kept = append(c.mu.kept[:0], c.mu.kept[1:]...)
	}
	c.mu.kept = append(c.mu.kept, checkpoint{id: id, digest: d})
}

// digest adds up a hash per producer, which gives the same whatever the order of the map.
func (t *producers) digest() string {
	var sum uint64
	var buf []byte
	for id, p := range t.byID {
		buf = p.appendTo(buf[:0], id)
		sum += xxhash.Sum64(buf)
	}
	buf = binary.LittleEndian.AppendUint64(buf[:0], sum)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(len(t.byID)))
	buf = binary.LittleEndian.AppendUint32(buf, t.floor)
	return hexSum(xxhash.Sum64(buf))
}

// appendTo writes all that is remembered of a producer, for the digest only.
func (p *producer) appendTo(b []byte, id record.ProducerID) []byte {
	le := binary.LittleEndian
	b = append(b, id[:]...)
	b = le.AppendUint32(b, p.epoch)
	b = le.AppendUint64(b, uint64(p.lastUsed))
	b = le.AppendUint64(b, p.refused)
	for i := range p.ring {
		r := p.at(i)
		b = le.AppendUint64(b, r.first)
		b = le.AppendUint64(b, r.place)
		b = le.AppendUint32(b, r.count)
		b = le.AppendUint16(b, r.index)
		b = append(b, byte(r.code))
	}
	return b
}

func hexSum(n uint64) string {
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
}
