package fsm

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// The sections of a state, little-endian; "uv" is a uvarint, "hash" the 76 bytes of a running xxhash (its MarshalBinary).
//
//	1 head       0 u64 index   8 u64 seq   16 i64 time   24 i64 time of the newest message   32 u64 stored bytes
//	            40 config, as in an entry   112 hash of the stream
//	2 topics     as topic.Snapshot.Encode draws it
//	3 producers  uv epoch floor   uv producers
//	             each, by id: [16]byte id   uv epoch   i64 last used   uv refused   uv runs   uv first number, if there are runs
//	               each run: u8 code   uv count   uv place   uv index
//	4 windows    0 hash of all that were sealed   76 the open window   124 uv retained windows   these, oldest first
//	             window: u64 number   u64 first seq   u64 last seq   u64 bytes   i64 first time   i64 last time
//	5 plans      0 hash of all that were applied   76 uv number of the last one applied   uv generations
//	             each: uv size   its plan, as in an entry
//	6 digest     uv parts   each, by name: uv size, name, uv size, value
const (
	sectionHead byte = 1 + iota
	sectionTopics
	sectionProducers
	sectionWindows
	sectionPlans
	sectionDigest
)

const (
	hashSize      = 76
	headFixedSize = 40
)

// WriteTo writes the state; Machine.Restore reads it. Equal states give equal bytes. It takes little memory, whatever the state's
// size. Any goroutine.
func (s *State) WriteTo(w io.Writer) (int64, error) {
	b := newBlockWriter(w)
	buf := bufio.NewWriterSize(b, blockSize)
	for i, write := range [...]func(*bufio.Writer) error{s.writeHead, s.topics.Encode, s.writeProducers, s.writeWindows, s.writePlans, s.writeDigest} {
		b.section = byte(i) + sectionHead
		if err := write(buf); err != nil {
			return b.written, fmt.Errorf("fsm: write state: %w", err)
		}
		if err := buf.Flush(); err != nil {
			return b.written, fmt.Errorf("fsm: write state: %w", err)
		}
		b.end()
	}
	if b.err != nil {
		return b.written, fmt.Errorf("fsm: write state: %w", b.err)
	}
	return b.written, nil
}

// appendHash adds a running hash.
func appendHash(p []byte, h *xxhash.Digest) []byte {
	sum, _ := h.MarshalBinary() // never fails
	return append(p, sum...)
}

func (s *State) writeHead(w *bufio.Writer) error {
	var p []byte
	for _, n := range [...]uint64{s.index, s.seq, uint64(s.time), uint64(s.messageTime), s.storedBytes} {
		p = binary.LittleEndian.AppendUint64(p, n)
	}
	p = append(p, ConfigBody(s.config)...)
	_, err := w.Write(appendHash(p, &s.stored))
	return err
}

func (s *State) writeProducers(w *bufio.Writer) error {
	s.sort()
	p := &s.producers
	buf := binary.AppendUvarint(nil, uint64(p.floor))
	buf = binary.AppendUvarint(buf, uint64(len(p.list)))
	for i := range p.list {
		if _, err := w.Write(buf); err != nil {
			return err
		}
		buf = p.list[i].encode(buf[:0])
	}
	_, err := w.Write(buf)
	return err
}

func (p *namedProducer) encode(buf []byte) []byte {
	buf = append(buf, p.id[:]...)
	buf = binary.AppendUvarint(buf, uint64(p.epoch))
	buf = binary.LittleEndian.AppendUint64(buf, uint64(p.lastUsed))
	buf = binary.AppendUvarint(buf, p.refused)
	buf = binary.AppendUvarint(buf, uint64(len(p.ring)))
	if len(p.ring) > 0 {
		buf = binary.AppendUvarint(buf, p.at(0).first)
	}
	for i := range p.ring {
		r := p.at(i)
		buf = append(buf, byte(r.code))
		buf = binary.AppendUvarint(buf, uint64(r.count))
		buf = binary.AppendUvarint(buf, r.place)
		buf = binary.AppendUvarint(buf, uint64(r.index))
	}
	return buf
}

func (s *State) writeWindows(w *bufio.Writer) error {
	buf := appendHash(nil, &s.windows.sum)
	buf = s.windows.open.appendTo(buf)
	buf = binary.AppendUvarint(buf, uint64(len(s.windows.sealed)))
	for i := range s.windows.sealed {
		if _, err := w.Write(buf); err != nil {
			return err
		}
		buf = s.windows.sealed[i].appendTo(buf[:0])
	}
	_, err := w.Write(buf)
	return err
}

func (s *State) writePlans(w *bufio.Writer) error {
	buf := appendHash(nil, &s.plans.sum)
	buf = binary.AppendUvarint(buf, s.plans.made)
	buf = binary.AppendUvarint(buf, uint64(len(s.plans.list)))
	for _, g := range s.plans.list {
		plan := PlanBody(g)
		buf = binary.AppendUvarint(buf, uint64(len(plan)))
		if _, err := w.Write(append(buf, plan...)); err != nil {
			return err
		}
		buf = buf[:0]
	}
	_, err := w.Write(buf)
	return err
}

func (s *State) writeDigest(w *bufio.Writer) error {
	parts := s.Digest().Parts
	buf := binary.AppendUvarint(nil, uint64(len(parts)))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		for _, text := range [...]string{name, parts[name]} {
			buf = binary.AppendUvarint(buf, uint64(len(text)))
			buf = append(buf, text...)
		}
	}
	_, err := w.Write(buf)
	return err
}
