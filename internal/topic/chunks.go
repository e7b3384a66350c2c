package topic

import (
	"sync/atomic"
	"unsafe"
)

// chunkRows is the number of rows of one chunk: a power of two, small enough that a small table stays small.
const (
	chunkBits = 12
	chunkRows = 1 << chunkBits
)

// chunked is an array that grows by whole chunks and never moves: one writer adds chunks, readers index without locks.
type chunked[T any] struct {
	// dir has its final length from the start, so that a look-up is two loads. Invariant: non-nil entries form a prefix,
	// and an entry never changes once it is set.
	dir []atomic.Pointer[[chunkRows]T]
}

func newChunked[T any](maxRows int) chunked[T] {
	return chunked[T]{dir: make([]atomic.Pointer[[chunkRows]T], (maxRows+chunkRows-1)/chunkRows)}
}

// at returns row i, which must have been reserved.
func (c *chunked[T]) at(i uint32) *T { return &c.dir[i>>chunkBits].Load()[i&(chunkRows-1)] }

// reserve makes rows [0, n) addressable and returns the bytes it took. Writer only.
func (c *chunked[T]) reserve(n int) (grown int64) {
	for i := (n - 1) >> chunkBits; i >= 0 && c.dir[i].Load() == nil; i-- {
		chunk := new([chunkRows]T)
		c.dir[i].Store(chunk)
		grown += int64(unsafe.Sizeof(*chunk))
	}
	return grown
}

func (c *chunked[T]) dirBytes() int64 { return int64(len(c.dir)) * int64(unsafe.Sizeof(c.dir[0])) }

const (
	arenaChunkBits  = 18
	arenaChunkBytes = 1 << arenaChunkBits // 256 KiB
	// arenaMaxChunks keeps every offset within 32 bits: 4 GiB of names.
	arenaMaxChunks = 1 << (32 - arenaChunkBits)
)

// arena holds the bytes of names. Bytes are written once, before anyone is told their offset, and never move, so a
// string may point at them for as long as it likes.
type arena struct {
	dir []atomic.Pointer[[arenaChunkBytes]byte] // invariant: as chunked.dir
	end uint64                                  // writer only: offset of the first free byte
}

// newArena has room for maxNames names of MaxBytes each, or for 4 GiB if that is less.
func newArena(maxNames int) arena {
	// A chunk ends with less than MaxBytes of waste, because a name never straddles two chunks.
	chunks := maxNames*MaxBytes/(arenaChunkBytes-MaxBytes) + 1
	return arena{dir: make([]atomic.Pointer[[arenaChunkBytes]byte], min(chunks, arenaMaxChunks))}
}

// place returns the offset at which n bytes would go. ok is false when they do not fit any more.
func (a *arena) place(n int) (off uint64, ok bool) {
	off = a.end
	if room := arenaChunkBytes - off&(arenaChunkBytes-1); uint64(n) > room {
		off += room
	}
	return off, off>>arenaChunkBits < uint64(len(a.dir))
}

// put copies b to the offset that place gave for its length and returns the bytes of memory it took. Writer only.
func (a *arena) put(off uint64, b []byte) (grown int64) {
	slot := &a.dir[off>>arenaChunkBits]
	if slot.Load() == nil {
		slot.Store(new([arenaChunkBytes]byte))
		grown = arenaChunkBytes
	}
	copy(slot.Load()[off&(arenaChunkBytes-1):], b)
	a.end = off + uint64(len(b))
	return grown
}

// str returns n bytes at off, without a copy.
func (a *arena) str(off uint32, n uint16) string {
	if n == 0 {
		return ""
	}
	chunk := a.dir[off>>arenaChunkBits].Load()
	return unsafe.String(&chunk[off&(arenaChunkBytes-1)], int(n))
}

func (a *arena) dirBytes() int64 { return int64(len(a.dir)) * int64(unsafe.Sizeof(a.dir[0])) }
