// Package record is the one encoding of messages, from the publisher's buffer to the disk: records, the batches that a
// publisher sends, and the entries that the raft log holds.
//
// It promises that what Next, ValidateRun, Batch.Validate, DecodeEntry and PublishBody accepted can be read through the
// views without a bounds error, that equal content has equal bytes (there is one valid encoding of everything), and that
// no length read from the input is trusted before it was compared with the bytes that are there. The hot loops do not
// allocate.
//
// It does not know topics (only their numbers and, in an entry's table of new names, their bytes), sockets or files.
// DESIGN.md beside this file draws every byte; a golden test keeps the drawing true.
package record

import "encoding/binary"

const (
	// Align is what records, batches and bodies are padded to, in bytes.
	Align = 8
	// HeaderSize is the fixed part of a record, BatchHeaderSize of a batch, EntryHeaderSize of an entry, in bytes.
	HeaderSize      = 24
	BatchHeaderSize = 48
	EntryHeaderSize = 48

	// MaxPayload bounds one message's payload in bytes.
	MaxPayload = 1 << 20
	// MaxHeaderBytes bounds one message's encoded headers in bytes, without the two bytes that count them.
	MaxHeaderBytes = 16 << 10
	// MaxHeaderKey bounds one header's key in bytes.
	MaxHeaderKey = 255
	// MaxTopicBytes bounds a name in an entry's table of new topics.
	MaxTopicBytes = 512
	// MaxPreconditions bounds the preconditions of one batch.
	MaxPreconditions = 64
	// MaxBatchBytes bounds one batch, header included. One message of the largest size with the largest headers and all
	// preconditions fits.
	MaxBatchBytes = MaxPayload + 64<<10
	// MaxEntryBody is how many bytes of batches and names a proposer gathers into one entry, before compression. A single
	// larger batch travels alone.
	MaxEntryBody = 256 << 10
	// MaxEntryRaw bounds what an entry's body may decompress to: one batch of the smallest records with all preconditions,
	// each on a new topic of the longest name. A proposer can build that, so no node may refuse it.
	MaxEntryRaw = publishHeaderSize + MaxBatchBytes + maxBatchTopics*(2+MaxTopicBytes) + Align

	maxBatchTopics = MaxPreconditions + (MaxBatchBytes-BatchHeaderSize-MaxPreconditions*preconditionSize)/HeaderSize

	// NewTopic marks, in a topic number of an entry, an index into the entry's table of new names.
	NewTopic = 1 << 31
)

var le = binary.LittleEndian

// pad rounds n up to a multiple of Align.
func pad(n int) int { return (n + Align - 1) &^ (Align - 1) }

// zeros is a source of padding.
var zeros [Align]byte

// appendPad pads dst with zeros so that what was added since from is a multiple of Align.
func appendPad(dst []byte, from int) []byte {
	n := len(dst) - from
	return append(dst, zeros[:pad(n)-n]...)
}
