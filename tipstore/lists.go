package tipstore

import (
	"math"
	"sync/atomic"

	"github.com/cantus-bus/cantus/internal/topic"
)

const listsPerPage = 1024

// list is the posting list of a partition: blocks from the oldest record in the ring to the newest. 32 bytes.
//
// Invariant: positions ascend along the list; head and tail are both 0 or both name blocks of it; every block holds an
// entry before it is linked.
type list struct {
	head   atomic.Uint32 // oldest block
	tail   atomic.Uint32 // newest block
	closed atomic.Uint32 // entries in blocks other than the newest: what readers estimate by

	// The rest is the writer's.
	count uint32 // entries in the newest block
	room  uint32 // entries it has room for; 0 when there is no block
	chunk uint32 // number of the last chunk that the partition was noted in, plus 1
	base  uint64 // of the newest block
}

type listPage [listsPerPage]list

// lists finds a partition's list: pages, made when first needed, that never move.
type lists struct {
	pages atomic.Pointer[[]*listPage]
	pool  pool

	touched atomic.Int64 // bytes of the chunks' lists of partitions
}

func (x *lists) open(heap bool) {
	x.pages.Store(new([]*listPage))
	x.pool.open(heap)
}

// get returns the list or nil while the partition has none.
func (x *lists) get(p topic.PartitionID) *list {
	pages := *x.pages.Load()
	if int(p/listsPerPage) >= len(pages) {
		return nil
	}
	return &pages[p/listsPerPage][p%listsPerPage]
}

// grow makes pages up to that of p. Writer only.
func (x *lists) grow(p topic.PartitionID) *list {
	pages := *x.pages.Load()
	for int(p/listsPerPage) >= len(pages) {
		pages = append(pages, new(listPage)) // in place where the capacity allows: beyond the length readers know
	}
	x.pages.Store(&pages)
	return x.get(p)
}

// add appends a record's unit to the partition's list. Writer only.
func (x *lists) add(p topic.PartitionID, unit uint64, c *chunk, number uint32) {
	l := x.get(p)
	if l == nil {
		l = x.grow(p)
	}
	if l.chunk != number+1 {
		l.chunk = number + 1
		before := cap(c.touched)
		c.touched = append(c.touched, uint32(p))
		x.touched.Add(int64(cap(c.touched)-before) * 4)
	}
	delta := unit - l.base
	if l.count == l.room || delta > math.MaxUint32 {
		x.extend(l, p, unit)
		return
	}
	storeEntry(x.pool.ptr(ref(l.tail.Load())).entry(l.count), uint32(delta))
	l.count++
}

// extend begins a new block with the record's unit.
func (x *lists) extend(l *list, p topic.PartitionID, unit uint64) {
	l.closed.Store(l.closed.Load() + l.count)
	class := classFor(l.closed.Load())
	r, b := x.pool.alloc(class, unit-1, uint32(p))
	storeEntry(b.entry(0), 1)
	if last := ref(l.tail.Load()); last != 0 {
		atomic.StoreUint32(x.pool.ptr(last).next(), uint32(r))
	} else {
		l.head.Store(uint32(r))
	}
	l.tail.Store(uint32(r))
	l.count, l.room, l.base = 1, classEntries[class], unit-1
}

// classFor is the class of the next block of a list that holds so many entries: the newest block is half empty on average,
// and so is the oldest, and they must be small beside the rest.
func classFor(entries uint32) int {
	class := topClass
	for class > 0 && 2*classEntries[class] > entries {
		class--
	}
	return class
}

// drop frees the blocks of a list that hold nothing at or above unit. The tail has passed them. Writer only.
func (x *lists) drop(p topic.PartitionID, unit uint64) {
	l := x.get(p)
	for {
		r := ref(l.head.Load())
		if r == 0 {
			return
		}
		b := x.pool.ptr(r)
		isLast := r == ref(l.tail.Load())
		entries := l.count
		if !isLast {
			entries = blockCount(b)
		}
		base, _ := b.loadBase()
		if base+uint64(b.loadEntry(entries-1)) >= unit {
			return
		}
		if isLast {
			l.head.Store(0)
			l.tail.Store(0)
			l.count, l.room, l.base = 0, 0, 0
		} else {
			l.head.Store(uint32(b.loadNext()))
			l.closed.Store(l.closed.Load() - entries)
		}
		x.pool.free(r)
	}
}

// blockCount counts the entries of a closed block; it is full unless a delta would have overflowed. Writer only.
func blockCount(b blockPtr) uint32 {
	_, n := b.loadBase()
	for b.loadEntry(n-1) == 0 {
		n--
	}
	return n
}
