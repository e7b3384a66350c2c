package tipstore

import "time"

// Stats for metrics. Figures are of one moment each, not all of the same.
type Stats struct {
	FirstSeq, LastSeq  uint64
	FirstTime          time.Time // of the oldest record; zero if there is none
	RingBytes          int64     // the ring's size
	UsedBytes          int64     // of it, visible
	MappedBytes        int64     // memory taken for it, spares included
	Chunks             int       // the ring's size in chunks
	PinnedChunks       int       // chunks that views or running reads keep
	SpareChunks        int       // chunks taken beyond the ring's size
	HeldChunks         int       // of these, live because they are not archived yet
	Blocks, FreeBlocks int       // cells of the index's pool, and how many are free
	IndexBytes         int64     // memory of the index
	Watches            int

	IndexReads, LinearReads uint64 // passes by the one and the other way
	Wakes                   uint64
	Fallen                  uint64 // reads that ended in a GoneError
	Copied                  uint64 // reads that copied because too many chunks were pinned

	FloorWaits  uint64        // times that Append waited for the floor
	FloorWaited time.Duration // in all
}

// Stats returns the store's figures.
func (s *Store) Stats() Stats {
	first, last := s.Bounds()
	r := &s.ring
	_, tailPos := r.tail.load()
	_, fencePos := s.fence.load()
	mapped, chunk := r.mapped.Load(), int64(r.chunkBytes())
	x := &s.lists
	st := Stats{
		FirstSeq: first, LastSeq: last,
		RingBytes: int64(r.size) * chunk, UsedBytes: max(0, int64(fencePos-tailPos)), MappedBytes: mapped * chunk,
		Chunks: r.size, PinnedChunks: max(0, int(r.pinnedCount.Load())), SpareChunks: max(0, int(mapped)-r.size),
		Blocks: int(x.pool.total.Load()), FreeBlocks: int(x.pool.spare.Load()), IndexBytes: x.bytes(),
		Watches:    int(s.watches.count.Load()),
		IndexReads: s.indexReads.Load(), LinearReads: s.linearReads.Load(),
		HeldChunks: max(0, int(fencePos>>r.shift-tailPos>>r.shift)+1-r.size),
		FloorWaits: uint64(r.floor.waits.Load()), FloorWaited: time.Duration(r.floor.waited.Load()),
		Wakes: s.watches.wakes.Load(), Fallen: s.fallen.Load(), Copied: s.copied.Load(),
	}
	if c := r.pin(tailPos >> r.shift); c != nil && last >= first {
		st.FirstTime = time.Unix(0, c.firstTime.Load())
		r.unpin(c)
	} else if c != nil {
		r.unpin(c)
	}
	return st
}

// bytes of the index: pool, lists, and the chunks' notes of what to clean.
func (x *lists) bytes() int64 {
	return x.pool.bytes() + int64(len(*x.pages.Load()))*listsPerPage*32 + x.touched.Load()
}
