package subtree

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// A file, of a window or of a generation (all integers little-endian, all offsets from the file's beginning):
//
//	header                    64 bytes
//	partitions                in order of their nodes; each:
//	    blocks                of its sections in order of their stores, back to back, see block.go
//	    block tables          of its sections, see table.go
//	    directory             of its topics, see directory.go
//	footer                    see footer.go
//	tail                      36 bytes
//
// Header:
//
//	 0 u64 magic        "CNTSHIST"
//	 8 u32 version      1
//	12 u32 kind         1 window, 2 generation
//	16 u64 number       of the window or generation
//	24 u64 first window
//	32 u64 last window
//	40 u64 first seq
//	48 u64 last seq
//	56 u32 codec        1: blocks are LZ4 blocks
//	60 u32 crc          CRC-32C of bytes 0-59
//
// Tail:
//
//	 0 u64 offset       of the footer
//	 8 u64 size         of the footer
//	16 u32 footer crc   CRC-32C of the footer
//	20 u32 version      1
//	24 u64 magic        "CNTSTAIL"
//	32 u32 crc          CRC-32C of bytes 0-31
const (
	headerMagic = "CNTSHIST"
	tailMagic   = "CNTSTAIL"
	version     = 1
	codecLZ4    = 1

	headerSize = 64
	tailSize   = 36
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// fault is a broken rule and its offset in the bytes that were decoded; nil: none.
type fault struct {
	at   int64
	rule string
}

func encodeHeader(m *Meta) []byte {
	b := make([]byte, 0, headerSize)
	b = append(b, headerMagic...)
	b = le.AppendUint32(b, version)
	b = le.AppendUint32(b, uint32(m.Kind))
	b = le.AppendUint64(b, m.Number)
	b = le.AppendUint64(b, m.FirstWindow)
	b = le.AppendUint64(b, m.LastWindow)
	b = le.AppendUint64(b, m.FirstSeq)
	b = le.AppendUint64(b, m.LastSeq)
	b = le.AppendUint32(b, codecLZ4)
	return le.AppendUint32(b, checksum(b))
}

// decodeHeader checks a header and returns what it says.
func decodeHeader(b []byte) (Meta, *fault) {
	switch {
	case len(b) < headerSize:
		return Meta{}, &fault{int64(len(b)), "the file ends within its header"}
	case string(b[:8]) != headerMagic:
		return Meta{}, &fault{0, "not a history file: wrong magic"}
	case le.Uint32(b[8:]) != version:
		return Meta{}, &fault{8, "unknown version: written by a newer program"}
	case le.Uint32(b[60:]) != checksum(b[:60]):
		return Meta{}, &fault{60, "wrong checksum of the header"}
	case le.Uint32(b[56:]) != codecLZ4:
		return Meta{}, &fault{56, "unknown codec"}
	}
	m := Meta{
		Kind: Kind(le.Uint32(b[12:])), Number: le.Uint64(b[16:]),
		FirstWindow: le.Uint64(b[24:]), LastWindow: le.Uint64(b[32:]),
		FirstSeq: le.Uint64(b[40:]), LastSeq: le.Uint64(b[48:]),
	}
	if rule := m.validateRanges(); rule != "" {
		return Meta{}, &fault{12, rule}
	}
	return m, nil
}

// validateRanges returns the rule that kind, number and ranges break, or nothing.
func (m *Meta) validateRanges() string {
	switch {
	case m.Kind != KindWindow && m.Kind != KindGeneration:
		return "unknown kind of file"
	case m.Number == 0 || m.FirstWindow == 0 || m.FirstSeq == 0:
		return "a number, window or seq is 0"
	case m.FirstWindow > m.LastWindow || m.FirstSeq > m.LastSeq || m.LastSeq == ^uint64(0):
		return "a range ends before it begins"
	case m.Kind == KindWindow && (m.FirstWindow != m.Number || m.LastWindow != m.Number):
		return "a window's range is not its number"
	}
	return ""
}

// tail is the decoded end of a file.
type tail struct {
	offset, size uint64
	footerCRC    uint32
}

func (t tail) encode() []byte {
	b := make([]byte, 0, tailSize)
	b = le.AppendUint64(b, t.offset)
	b = le.AppendUint64(b, t.size)
	b = le.AppendUint32(b, t.footerCRC)
	b = le.AppendUint32(b, version)
	b = append(b, tailMagic...)
	return le.AppendUint32(b, checksum(b))
}

// decodeTail checks the tail of a file with a size.
func decodeTail(b []byte, fileSize int64) (tail, *fault) {
	switch {
	case len(b) != tailSize || fileSize < headerSize+tailSize:
		return tail{}, &fault{0, "the file is too short for a tail"}
	case string(b[24:32]) != tailMagic:
		return tail{}, &fault{24, "no tail: the file is cut or overwritten"}
	case le.Uint32(b[20:]) != version:
		return tail{}, &fault{20, "unknown version: written by a newer program"}
	case le.Uint32(b[32:]) != checksum(b[:32]):
		return tail{}, &fault{32, "wrong checksum of the tail"}
	}
	t := tail{offset: le.Uint64(b), size: le.Uint64(b[8:]), footerCRC: le.Uint32(b[16:])}
	room := uint64(fileSize) - tailSize
	if t.offset < headerSize || t.offset > room || t.size != room-t.offset {
		return tail{}, &fault{0, "the footer is not where the tail says"}
	}
	return t, nil
}

// seqOf, topicOf, timeOf and sizeOf read the fixed part of the record that begins b, which was validated.
func seqOf(b []byte) uint64     { return record.Record(b).Seq() }
func topicOf(b []byte) topic.ID { return topic.ID(record.Record(b).Topic()) }
func timeOf(b []byte) int64     { return record.Record(b).Time() }
func sizeOf(b []byte) int       { return record.Scan(b) }
