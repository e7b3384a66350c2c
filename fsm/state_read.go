package fsm

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/cespare/xxhash/v2"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// Restore makes of a new machine the one whose state was written: it goes on with the log after State.Index. It reads exactly what
// WriteTo wrote, checks every byte, and compares the digest of what it made with the one that was written. Sealed, Planned and Retained
// are not called. The error wraps record.ErrCorrupt if the bytes are not a state or are damaged, and says at which offset; the machine
// and its table are of no use then. Apply's goroutine only.
func (m *Machine) Restore(r io.Reader) error {
	if m.index != 0 || m.table.Nodes() != 1 {
		return fmt.Errorf("fsm: restore: the machine is not new: it has applied entry %d: %w", m.index, ErrInvariant)
	}
	b := &blockReader{r: r}
	if err := m.restore(b); err != nil {
		return fmt.Errorf("fsm: restore: %w", err)
	}
	m.visibleSeq.Store(m.seq)
	m.visibleTime.Store(m.time)
	m.visibleIndex.Store(m.index)
	m.windows.show()
	m.generations.show()
	return nil
}

func (m *Machine) restore(b *blockReader) error {
	if err := b.header(); err != nil {
		return err
	}
	buf := bufio.NewReaderSize(b, blockSize)
	s := sectionReader{buf, b}
	for i, read := range [...]func(sectionReader) error{m.readHead, m.readTopics, m.readProducers, m.readWindows, m.readPlans, m.readDigest} {
		b.begin(byte(i) + sectionHead)
		buf.Reset(b)
		if err := read(s); err != nil {
			return err
		}
		if _, err := buf.ReadByte(); err == nil {
			return b.corrupt(b.offset, "section %d goes on behind its content", b.section)
		} else if err != io.EOF {
			return err
		}
	}
	return nil
}

// sectionReader reads numbers from one section. An end of the section is an error: what is to come is always known.
type sectionReader struct {
	*bufio.Reader
	blocks *blockReader
}

// corrupt says where in what was wrong: the offset is that of the end of the block in hand.
func (s sectionReader) corrupt(format string, a ...any) error {
	return s.blocks.corrupt(s.blocks.offset, "section %d up to here: "+format, append([]any{s.blocks.section}, a...)...)
}

// ended makes corruption of an early end.
func (s sectionReader) ended(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return s.corrupt("it ends too early")
	}
	return err
}

func (s sectionReader) bytes(p []byte) error {
	if _, err := io.ReadFull(s, p); err != nil {
		return s.ended(err)
	}
	return nil
}

// uvarints reads numbers, each at most the limit beside it.
func (s sectionReader) uvarints(list ...bounded) error {
	for _, n := range list {
		v, err := binary.ReadUvarint(s)
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return s.ended(io.EOF)
		case errors.Is(err, record.ErrCorrupt):
			return err
		case err != nil:
			return s.corrupt("%v", err)
		case v > n.most:
			return s.corrupt("%d is more than %d", v, n.most)
		}
		*n.to = v
	}
	return nil
}

type bounded struct {
	to   *uint64
	most uint64
}

func (s sectionReader) hash(h *xxhash.Digest) error {
	var p [hashSize]byte
	if err := s.bytes(p[:]); err != nil {
		return err
	}
	if err := h.UnmarshalBinary(p[:]); err != nil {
		return s.corrupt("running hash: %v", err)
	}
	return nil
}

func (m *Machine) readHead(s sectionReader) error {
	var p [headFixedSize + configSize]byte
	if err := s.bytes(p[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	m.index, m.seq, m.time = le.Uint64(p[:]), le.Uint64(p[8:]), int64(le.Uint64(p[16:]))
	m.messageTime.Store(int64(le.Uint64(p[24:])))
	m.storedBytes = le.Uint64(p[32:])
	c := decodeConfig(p[headFixedSize:], &StreamConfig{})
	if !c.valid() || m.messageTime.Load() > m.time {
		return s.corrupt("the configuration or the times cannot be")
	}
	m.putConfig(&c)
	return s.hash(&m.stored)
}

// valid holds a whole configuration against its invariants.
func (c *StreamConfig) valid() bool {
	return c.ProducerLease > 0 && c.WindowBytes > 0 && c.WindowCount > 0 && c.WindowAge > 0 &&
		c.MaxTopics > 0 && c.MaxTopics <= topic.LimitMaxTopics && c.MaxProducers > 0 &&
		c.RetainAge > 0 && c.RetainBytes > 0 && c.RetainCount > 0
}

func (m *Machine) readTopics(s sectionReader) error {
	err := m.table.Restore(s.Reader)
	if errors.Is(err, topic.ErrBadSnapshot) {
		return s.corrupt("%v", err)
	}
	return err
}

func (m *Machine) readDigest(s sectionReader) error {
	got, parts := m.Digest().Parts, map[string]string{}
	const most = 64 // parts, and bytes of a name or value
	var count uint64
	if err := s.uvarints(bounded{&count, most}); err != nil {
		return err
	}
	for range count {
		var text [2]string
		for i := range text {
			var size uint64
			if err := s.uvarints(bounded{&size, most}); err != nil {
				return err
			}
			p := make([]byte, size)
			if err := s.bytes(p); err != nil {
				return err
			}
			text[i] = string(p)
		}
		parts[text[0]] = text[1]
	}
	for name, want := range parts {
		if got[name] != want {
			return s.corrupt("the digest of %q is %s after restoring, but was %s", name, got[name], want)
		}
	}
	if !maps.Equal(got, parts) {
		return s.corrupt("it has %d parts of the digest, want %d", len(parts), len(got))
	}
	return nil
}
