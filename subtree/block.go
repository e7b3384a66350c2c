package subtree

import (
	"github.com/pierrec/lz4/v4"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// A block holds records of one section, exactly as in the ring, back to back: seqs ascend. It is at most blockBytes long
// before compression, or one larger record. On disk it is
//
//	0 LZ4 block, or the records themselves if compression does not save an eighth: then its stored size is its raw size
//
// Its place, sizes, checksum and seqs stand in the section's block table. Where a block ends depends on the section's records
// alone: a record that would make it longer than blockBytes begins the next one.
const (
	blockBytes = 32 << 10
	// maxRawBlock bounds what a block may claim to decompress to.
	maxRawBlock = record.HeaderSize + 2 + record.MaxHeaderBytes + record.MaxPayload + record.Align
)

// blockCodec compresses blocks in reused memory. LZ4's encoder is plain Go: the same bytes on every machine.
type blockCodec struct {
	lz4 lz4.Compressor
	out []byte
}

// encode returns the stored form of a block, valid until the next call.
func (c *blockCodec) encode(raw []byte) []byte {
	if n := lz4.CompressBlockBound(len(raw)); cap(c.out) < n {
		c.out = make([]byte, n)
	}
	out := c.out[:cap(c.out)]
	n, err := c.lz4.CompressBlock(raw, out)
	if err != nil || n == 0 || n > len(raw)-len(raw)/8 {
		return raw
	}
	return out[:n]
}

// decodeBlock fills raw, which has the block's raw size, from what was read.
func decodeBlock(raw, stored []byte, row *blockRow) *fault {
	if checksum(stored) != row.crc {
		return &fault{0, "wrong checksum of a block"}
	}
	if len(stored) == len(raw) {
		copy(raw, stored)
	} else if n, err := lz4.UncompressBlock(stored, raw); err != nil || n != len(raw) {
		return &fault{0, "a block does not decompress to its raw size"}
	}
	return nil
}

// checkRecords checks the records of a block and all that the row says of them.
func checkRecords(raw []byte, row *blockRow, maxTopic topic.ID) *fault {
	if record.ValidateRun(raw, int(row.count)) != nil {
		return &fault{0, "a block holds malformed records"}
	}
	last := row.first - 1
	for rest := raw; len(rest) > 0; rest = rest[sizeOf(rest):] {
		seq := seqOf(rest)
		if topicOf(rest) > maxTopic {
			return &fault{0, "a block holds a topic beyond the file's highest"}
		}
		if seq <= last {
			return &fault{0, "seqs in a block do not ascend"}
		}
		last = seq
	}
	if seqOf(raw) != row.first || last != row.last {
		return &fault{0, "a block's seqs differ from its table's"}
	}
	return nil
}
