package record

import "fmt"

// A record (little-endian, begins at a multiple of 8 of its run, padded with zeros to the next):
//
//	 0 u32 size     bits 0-25 bytes of the record without padding; bit 31: headers follow; others 0
//	 4 u32 topic    number of the topic in its context, see Record.Topic
//	 8 u64 seq      0 until applied
//	16 i64 time     unix nanoseconds, 0 until applied
//	24 [headers]    only if bit 31 is set, see headers.go
//	.. payload
const (
	sizeMask     = 1<<26 - 1
	headersFlag  = 1 << 31
	sizeReserved = ^uint32(sizeMask | headersFlag)

	topicAt = 4
	seqAt   = 8
	timeAt  = 16
)

// Record is a view of one record's bytes without padding. Its methods may be called on what Next returned or on a part of
// a run that was validated; on other bytes they may panic.
type Record []byte

// Topic is the number of the record's topic: on the way from a publisher an alias of its connection; in an entry the id of
// the topic table or NewTopic|index of a name in the entry's own table; in the ring, on disk and towards readers the id.
func (r Record) Topic() uint32 { return le.Uint32(r[topicAt:]) }

// Seq is the message's place in the stream, 0 until applied.
func (r Record) Seq() uint64 { return le.Uint64(r[seqAt:]) }

// Time is when the message was proposed, in unix nanoseconds, 0 until applied.
func (r Record) Time() int64 { return int64(le.Uint64(r[timeAt:])) }

// HasHeaders says whether the record has headers.
func (r Record) HasHeaders() bool { return le.Uint32(r)&headersFlag != 0 }

// Payload is a view of the message's bytes.
func (r Record) Payload() []byte {
	if r.HasHeaders() {
		return r[HeaderSize+headerCountSize+int(le.Uint16(r[HeaderSize:])):]
	}
	return r[HeaderSize:]
}

// Headers decodes the message's headers; nil if it has none. Allocates.
func (r Record) Headers() []Header {
	if !r.HasHeaders() {
		return nil
	}
	return parseHeaders(r[HeaderSize:])
}

// BodyBytes is what a topic's volume counts: the payload and the headers as encoded, in bytes.
func (r Record) BodyBytes() int { return len(r) - HeaderSize }

// PaddedSize is what AppendRecord adds for these headers and this many bytes of payload.
func PaddedSize(headers []Header, payload int) int {
	return pad(HeaderSize + headerBlockSize(headers) + payload)
}

// AppendRecord adds a padded record to a run; len(dst) must be a multiple of Align. ErrTooLarge or ErrBadHeader, and dst as
// it was, if the message cannot be encoded.
func AppendRecord(dst []byte, topic uint32, headers []Header, payload []byte) ([]byte, error) {
	if len(payload) > MaxPayload {
		return dst, fmt.Errorf("record: append: payload of %d bytes: %w of %d", len(payload), ErrTooLarge, MaxPayload)
	}
	word := uint32(HeaderSize + len(payload))
	if len(headers) > 0 {
		if err := CheckHeaders(headers); err != nil {
			return dst, err
		}
		word += uint32(headerBlockSize(headers))
		word |= headersFlag
	}
	start := len(dst)
	dst = le.AppendUint32(dst, word)
	dst = le.AppendUint32(dst, topic)
	dst = le.AppendUint64(dst, 0)
	dst = le.AppendUint64(dst, 0)
	dst = appendHeaders(dst, headers)
	dst = append(dst, payload...)
	return appendPad(dst, start), nil
}

// Next checks and takes the first record off a run: records back to back, each padded. The record is a view.
func Next(run []byte) (r Record, rest []byte, err error) {
	padded, rule := checkRecord(run)
	if rule != "" {
		return nil, run, corrupt("run", 0, rule)
	}
	size := le.Uint32(run) & sizeMask
	return Record(run[:size:size]), run[padded:], nil
}

// Scan returns the padded size of the first record of a validated run; run[:Scan(run)] is the record with its padding.
func Scan(run []byte) int { return pad(int(le.Uint32(run) & sizeMask)) }

// First is Next without checks, for validated runs: the view of the first record.
func First(run []byte) Record {
	size := le.Uint32(run) & sizeMask
	return Record(run[:size:size])
}

// SetTopic changes the topic number of the record that begins rec.
func SetTopic(rec []byte, topic uint32) { le.PutUint32(rec[topicAt:], topic) }

// Stamp sets what applying decides, in the record that begins rec.
func Stamp(rec []byte, topic uint32, seq uint64, time int64) {
	_ = rec[HeaderSize-1]
	le.PutUint32(rec[topicAt:], topic)
	le.PutUint64(rec[seqAt:], seq)
	le.PutUint64(rec[timeAt:], uint64(time))
}
