package fsm

import (
	"crypto/sha256"
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
	w, g := &m.windows, &m.generations
	return digestOf(m.index, m.seq, m.time, &m.stored, m.table.Digest(), m.producers.digest(), m.config.Load(),
		windowsState{w.sealed, w.open, w.sum}.digest(), plansState{sum: g.sum}.digest())
}

func digestOf(index, seq uint64, time int64, stored *xxhash.Digest, topics [sha256.Size]byte, producers string, c *StreamConfig, windows, plans string) Digest {
	return Digest{Index: index, Seq: seq, Time: time, Parts: map[string]string{
		"stream":    hexSum(stored.Sum64()),
		"topics":    hex.EncodeToString(topics[:]),
		"producers": producers,
		"config":    hexSum(xxhash.Sum64(ConfigBody(*c))),
		"windows":   windows,
		"plans":     plans,
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

// producersSum adds up a hash per producer, which gives the same whatever their order.
type producersSum struct {
	sum, count uint64
	buf        []byte
}

func (s *producersSum) add(id record.ProducerID, p *producer) {
	s.buf = p.appendTo(s.buf[:0], id)
	s.sum += xxhash.Sum64(s.buf)
	s.count++
}

func (s *producersSum) digest(floor uint32) string {
	buf := binary.LittleEndian.AppendUint64(s.buf[:0], s.sum)
	buf = binary.LittleEndian.AppendUint64(buf, s.count)
	buf = binary.LittleEndian.AppendUint32(buf, floor)
	return hexSum(xxhash.Sum64(buf))
}

func (t *producers) digest() string {
	var sum producersSum
	for id, p := range t.byID {
		sum.add(id, p)
	}
	return sum.digest(t.floor)
}

func (s *producersState) digest() string {
	var sum producersSum
	for i := range s.list {
		sum.add(s.list[i].id, &s.list[i].producer)
	}
	return sum.digest(s.floor)
}

// digest covers all windows ever sealed, which of them are retained, and the open one.
func (s windowsState) digest() string {
	_, _ = s.sum.Write(binary.LittleEndian.AppendUint64(s.open.appendTo(nil), oldest(s.sealed))) // of a copy: the running hash goes on
	return hexSum(s.sum.Sum64())
}

// digest covers every plan ever applied, which decides with the retained windows what is in force.
func (s plansState) digest() string { return hexSum(s.sum.Sum64()) }

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
