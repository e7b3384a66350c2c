package record

import (
	"fmt"
	"hash/crc32"
)

// An entry: what the raft log holds (little-endian):
//
//	 0 u32 magic "CNTE"   4 u8 version 1   5 u8 kind   6 u8 codec   7 u8 0
//	 8 u32 crc32c of bytes 12 to end, then of 0 to 8
//	12 u32 raw body size (before compression), <= MaxEntryRaw
//	16 i64 time proposed, unix nanoseconds
//	24 u64 proposer (random per leadership)
//	32 u64 proposal number
//	40 u64 reserved 0 (tenant)
//	48 body, compressed if codec is not 0
const (
	entryMagic   = 0x45544e43 // "CNTE" as a little-endian number
	entryVersion = 1

	entryVersionAt  = 4
	entryKindAt     = 5
	entryCodecAt    = 6
	entryZeroAt     = 7
	entryCRCAt      = 8
	entryRawSizeAt  = 12
	entryTimeAt     = 16
	entryProposerAt = 24
	entryProposalAt = 32
	entryReservedAt = 40
)

// Kind is what an entry's body is. Kinds are written to disk: never renumber.
type Kind uint8

const (
	KindPublish         Kind = 1 + iota // batches and the names of new topics, see publish.go
	KindOpenProducer                    // 16 bytes: the producer's id
	KindExpireProducers                 // i64 cutoff time: producers last used before are forgotten
	KindConfig                          // the stream's settings, fsm's encoding
	KindCheckpoint                      // u64 id: every replica computes its digest here
	KindPlan                            // how windows are split into stores, fsm's encoding
	KindRetain                          // u64 window: it and all before are dropped
)

var kindNames = [...]string{"", "publish", "open-producer", "expire-producers", "config", "checkpoint", "plan", "retain"}

// String is the kind's name in logs and metrics.
func (k Kind) String() string {
	if k == 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return kindNames[k]
}

// EntryHeader is the fixed part of an entry without magic, version and checksum.
type EntryHeader struct {
	Kind     Kind
	Codec    Codec
	RawSize  uint32 // bytes of the body before compression; set by the encoders
	Time     int64  // unix nanoseconds, by the proposer's clock, never decreasing
	Proposer uint64 // random per leadership: a leader knows its own entries by it
	Proposal uint64 // number of the proposal within that leadership
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// entryCRC protects all but the four bytes that hold it.
func entryCRC(data []byte) uint32 {
	crc := crc32.Checksum(data[entryRawSizeAt:], castagnoli)
	return crc32.Update(crc, castagnoli, data[:entryCRCAt])
}

// EncodeEntry returns a fresh slice with an uncompressed entry: for the small kinds, whose bodies are at most MaxEntryBody.
func EncodeEntry(h EntryHeader, body []byte) []byte {
	h.Codec, h.RawSize = CodecNone, uint32(len(body))
	return sealEntry(h, body)
}

// sealEntry lays out header and stored body in one allocation of exactly the bytes used.
func sealEntry(h EntryHeader, stored []byte) []byte {
	out := make([]byte, EntryHeaderSize+len(stored))
	le.PutUint32(out, entryMagic)
	out[entryVersionAt] = entryVersion
	out[entryKindAt] = byte(h.Kind)
	out[entryCodecAt] = byte(h.Codec)
	le.PutUint32(out[entryRawSizeAt:], h.RawSize)
	le.PutUint64(out[entryTimeAt:], uint64(h.Time))
	le.PutUint64(out[entryProposerAt:], h.Proposer)
	le.PutUint64(out[entryProposalAt:], h.Proposal)
	copy(out[EntryHeaderSize:], stored)
	le.PutUint32(out[entryCRCAt:], entryCRC(out))
	return out
}

// PeekEntry decodes the header and checks its fields, but neither the checksum nor the body.
func PeekEntry(data []byte) (EntryHeader, error) {
	h, off, rule := peekEntry(data)
	return h, corrupt("entry", off, rule)
}

func peekEntry(data []byte) (h EntryHeader, off int, rule string) {
	if len(data) < EntryHeaderSize {
		return h, 0, "entry header is cut short"
	}
	h = EntryHeader{
		Kind:     Kind(data[entryKindAt]),
		Codec:    Codec(data[entryCodecAt]),
		RawSize:  le.Uint32(data[entryRawSizeAt:]),
		Time:     int64(le.Uint64(data[entryTimeAt:])),
		Proposer: le.Uint64(data[entryProposerAt:]),
		Proposal: le.Uint64(data[entryProposalAt:]),
	}
	stored := len(data) - EntryHeaderSize
	switch {
	case le.Uint32(data) != entryMagic:
		return h, 0, "no entry begins here: wrong magic"
	case data[entryVersionAt] != entryVersion:
		return h, entryVersionAt, "entry has a version that this build does not know"
	case h.Kind == 0 || int(h.Kind) >= len(kindNames):
		return h, entryKindAt, "entry has a kind that this build does not know"
	case h.Codec > CodecZstd:
		return h, entryCodecAt, "entry has a codec that this build does not know"
	case data[entryZeroAt] != 0:
		return h, entryZeroAt, "reserved byte of the entry is not zero"
	case h.RawSize > MaxEntryRaw:
		return h, entryRawSizeAt, "raw size of the entry is " + overLimit
	case h.Codec == CodecNone && int(h.RawSize) != stored:
		return h, entryRawSizeAt, "raw size of an uncompressed entry differs from the bytes that are there"
	case h.Codec != CodecNone && int(h.RawSize) <= stored:
		return h, entryRawSizeAt, "compressed body is not smaller than the raw one"
	case le.Uint64(data[entryReservedAt:]) != 0:
		return h, entryReservedAt, "reserved bytes of the entry are not zero"
	}
	return h, 0, ""
}

// DecodeEntry verifies the checksum and decompresses into scratch, which grows if needed and is returned to be given again.
// The body aliases scratchOut, or data if it was not compressed: the caller must not change a body that aliases data.
func DecodeEntry(data, scratch []byte) (h EntryHeader, body, scratchOut []byte, err error) {
	h, off, rule := peekEntry(data)
	if rule == "" && le.Uint32(data[entryCRCAt:]) != entryCRC(data) {
		off, rule = entryCRCAt, "checksum of the entry does not match its bytes"
	}
	if rule != "" {
		return h, nil, scratch, corrupt("entry", off, rule)
	}
	stored := data[EntryHeaderSize:]
	if h.Codec == CodecNone {
		return h, stored, scratch, nil
	}
	if cap(scratch) < int(h.RawSize) {
		scratch = make([]byte, pad(int(h.RawSize)))
	}
	body = scratch[:h.RawSize]
	if rule := h.Codec.decompress(body, stored); rule != "" {
		return h, nil, scratch, corrupt("entry", EntryHeaderSize, rule)
	}
	return h, body, scratch, nil
}
