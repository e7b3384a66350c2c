package subtree

import "sync"

// View is one read's result. The bytes must not be changed and are valid until Release or the next read into it.
type View struct {
	Parts       [][]byte // whole padded records in seq order, as in the ring; empty or one piece
	Count       int      // records in Parts
	Bytes       int      // sum of Parts
	First, Last uint64   // seqs of the first and last record; 0 if there is none
	Scanned     uint64   // every match at or below has now been returned

	buf    *[]byte    // nil: nothing is held
	pool   *sync.Pool // the Store's, of buffers
	shared []byte     // records that other readers may have too; nil, or buf is
}

// Release gives the memory back. Calling it again, or on a View that was never filled, does nothing.
func (v *View) Release() {
	if v.buf != nil {
		*v.buf = (*v.buf)[:0]
		v.pool.Put(v.buf)
	}
	clear(v.Parts)
	v.buf, v.shared, v.Parts = nil, nil, v.Parts[:0]
}

// reset begins a read.
func (v *View) reset(pool *sync.Pool) {
	v.Release()
	*v = View{Parts: v.Parts, pool: pool}
}

// add appends records, the first and last of which have these seqs.
func (v *View) add(records []byte, count int, first, last uint64) {
	if v.buf == nil {
		v.buf = v.pool.Get().(*[]byte)
		v.First = first
	}
	*v.buf = append(*v.buf, records...)
	v.Bytes += len(records)
	v.Count += count
	v.Last = last
}

// share makes an empty view one of records that others may read too.
func (v *View) share(records []byte, count int, first, last uint64) {
	v.shared, v.Bytes, v.Count, v.First, v.Last = records, len(records), count, first, last
}

// finish ends a read.
func (v *View) finish(scanned uint64) {
	v.Scanned = scanned
	if v.buf != nil {
		v.Parts = append(v.Parts, *v.buf)
	} else if v.shared != nil {
		v.Parts = append(v.Parts, v.shared)
	}
}
