package tipstore

import (
	"errors"
	"fmt"
	"math/bits"
)

const (
	// DefaultChunkBytes is the size of a chunk if Options leave it open.
	DefaultChunkBytes = 16 << 20
	// MinChunks is the fewest chunks of a ring: one retires whole, so with fewer the tip would shrink by too much at once.
	MinChunks = 4

	minChunkBytes = 4 << 10
	maxChunkBytes = 1 << 30
)

// Options of a Store.
type Options struct {
	SizeBytes  int64 // ring size, rounded up to whole chunks, at least MinChunks of them
	ChunkBytes int   // 0: DefaultChunkBytes; rounded up to a power of two, 4 KiB to 1 GiB; no run may be larger
	IndexOff   bool  // keep no index: every read is a linear pass, for comparison

	// SpareChunks bounds the distinct chunks that Views may keep pinned, and with it the memory beyond the ring; a Read that
	// would exceed it copies instead. 0: a quarter of the ring, at least MinChunks.
	SpareChunks int

	// OverflowChunks bounds the chunks beyond the ring's size that messages above the floor take before Append waits for the
	// floor. 0: a quarter of the ring, at least MinChunks.
	OverflowChunks int

	heap bool // memory from the Go heap instead of mmap, so that the race detector sees it
}

// normalise fills defaults and rounds; chunks is the ring's size in chunks.
func (o *Options) normalise() (chunks int, err error) {
	if o.ChunkBytes == 0 {
		o.ChunkBytes = DefaultChunkBytes
	}
	if o.ChunkBytes < minChunkBytes || o.ChunkBytes > maxChunkBytes {
		return 0, fmt.Errorf("tipstore: open: chunk of %d bytes is not between %d and %d", o.ChunkBytes, minChunkBytes, maxChunkBytes)
	}
	if o.SizeBytes < 0 || o.SpareChunks < 0 || o.OverflowChunks < 0 {
		return 0, errors.New("tipstore: open: negative size, spare or overflow chunks")
	}
	o.ChunkBytes = 1 << bits.Len(uint(o.ChunkBytes-1))
	chunks = max(MinChunks, int((o.SizeBytes+int64(o.ChunkBytes)-1)/int64(o.ChunkBytes)))
	if o.SpareChunks == 0 {
		o.SpareChunks = max(MinChunks, chunks/4)
	}
	if o.OverflowChunks == 0 {
		o.OverflowChunks = max(MinChunks, chunks/4)
	}
	return chunks, nil
}
