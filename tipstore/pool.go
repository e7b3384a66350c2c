package tipstore

import (
	"sync/atomic"
	"unsafe"
)

// A block holds the positions of some of a partition's records:
//
//	 0 u64 base   bits 0-61 unit of its first record, less one; bits 62-63 class
//	 8 u32 next   reference of the list's next block; 0: none yet
//	12 u32 owner  partition
//	16 u32 delta  unit less base of each record, ascending, never 0; 0: not written yet
//	   ...
//
// Blocks of the largest class are cells of the pool. Smaller ones share a cell, so that a partition with one message costs
// 48 bytes and not 4 KiB. A reference counts units of 16 bytes: slab in the upper bits, place in the slab in the lower.
//
//	slab:  64 units of generations (u32 for each cell), cells of 257 units
//
// A cell's generation counts how often a block in it was freed. It stands apart from the blocks so that nothing else is
// ever stored there, however the cell is split later.
const (
	unitBytes   = 16
	slabUnits   = 1 << 16
	slabBytes   = slabUnits * unitBytes // 1 MiB
	genUnits    = 64
	headerUnits = 1
	cellUnits   = headerUnits + BlockEntries*4/unitBytes
	slabCells   = (slabUnits - genUnits) / cellUnits

	// BlockEntries is how many positions a full block holds.
	BlockEntries = 1024

	classShift = 62
	baseMask   = 1<<classShift - 1
)

// classEntries are the sizes of blocks, chosen so that 85, 15, 4 and 1 of them fill a cell. Invariant: ascending.
var classEntries = [...]uint32{8, 64, 252, BlockEntries}

const (
	classes  = 4
	topClass = classes - 1
)

func classUnits(class int) uint32 { return headerUnits + classEntries[class]*4/unitBytes }

// ref names a block; 0 is none.
type ref uint32

// blockPtr points at a block's header. It is safe to load through it at any time until Close, because slabs are never
// given back before; whether the values mean anything, the generation tells. Nothing may be used as a reference or as an
// index before the generation was found unchanged after the load.
type blockPtr struct{ p unsafe.Pointer }

func (b blockPtr) base() *uint64  { return (*uint64)(b.p) }
func (b blockPtr) next() *uint32  { return (*uint32)(unsafe.Add(b.p, 8)) }
func (b blockPtr) owner() *uint32 { return (*uint32)(unsafe.Add(b.p, 12)) }

func (b blockPtr) entry(i uint32) *uint32 {
	return (*uint32)(unsafe.Add(b.p, unitBytes+uintptr(i)*4))
}

func (b blockPtr) loadNext() ref             { return ref(atomic.LoadUint32(b.next())) }
func (b blockPtr) loadEntry(i uint32) uint32 { return atomic.LoadUint32(b.entry(i)) }

// loadBase returns the base and the number of entries there is room for.
func (b blockPtr) loadBase() (base uint64, room uint32) {
	v := atomic.LoadUint64(b.base())
	return v & baseMask, classEntries[v>>classShift]
}

// pool owns all blocks. One writer; readers only turn references into pointers.
//
// Invariant: a cell is in exactly one of: freeCells, use as a block of the top class, split among blocks of one class. A
// split cell with a free piece is in the partial list of its class; one without any used piece goes back to freeCells.
type pool struct {
	mem       memory
	slabs     atomic.Pointer[[]unsafe.Pointer]
	freeCells []uint32 // cell numbers
	cells     []cell   // by number: slab*slabCells + place
	partial   [classes]int32

	total atomic.Int64 // cells there are
	spare atomic.Int64 // cells in freeCells
}

// cell is what the writer knows of a cell.
type cell struct {
	freePiece  uint32 // reference of the first free piece, chained through the pieces' next; 0: none
	used       uint16 // pieces in use
	carved     uint16 // pieces ever handed out since the split; those above were never used
	class      int8
	prev, next int32 // neighbours in the partial list; -1: none
}

func (p *pool) open(heap bool) {
	p.mem.heap = heap
	p.slabs.Store(new([]unsafe.Pointer))
	for i := range p.partial {
		p.partial[i] = -1
	}
}

func (p *pool) ptr(r ref) blockPtr {
	slab := (*p.slabs.Load())[r/slabUnits]
	return blockPtr{unsafe.Add(slab, uintptr(r%slabUnits)*unitBytes)}
}

// gen points at the generation of the cell that a block stands in.
func (p *pool) gen(r ref) *uint32 {
	slab := (*p.slabs.Load())[r/slabUnits]
	return (*uint32)(unsafe.Add(slab, uintptr((r%slabUnits-genUnits)/cellUnits)*4))
}

func cellOf(r ref) uint32 {
	return uint32(r)/slabUnits*slabCells + (uint32(r)%slabUnits-genUnits)/cellUnits
}

func cellRef(n uint32) ref {
	return ref(n/slabCells*slabUnits + genUnits + n%slabCells*cellUnits)
}

// grow adds a slab of free cells.
func (p *pool) grow() {
	mem, err := p.mem.take(slabBytes)
	if err != nil {
		panic(err)
	}
	old := *p.slabs.Load()
	slabs := append(old[:len(old):len(old)], unsafe.Pointer(&mem[0]))
	p.slabs.Store(&slabs)
	first := uint32(len(old) * slabCells)
	for i := slabCells; i > 0; i-- {
		p.freeCells = append(p.freeCells, first+uint32(i-1))
	}
	p.cells = append(p.cells, make([]cell, slabCells)...)
	p.total.Add(slabCells)
	p.spare.Add(slabCells)
}

func (p *pool) takeCell() uint32 {
	if len(p.freeCells) == 0 {
		p.grow()
	}
	n := p.freeCells[len(p.freeCells)-1]
	p.freeCells = p.freeCells[:len(p.freeCells)-1]
	p.spare.Add(-1)
	return n
}

func (p *pool) giveCell(n uint32) {
	p.freeCells = append(p.freeCells, n)
	p.spare.Add(1)
}

// alloc returns a block without entries and next.
func (p *pool) alloc(class int, base uint64, owner uint32) (ref, blockPtr) {
	r := p.allocRef(class)
	b := p.ptr(r)
	atomic.StoreUint64(b.base(), base|uint64(class)<<classShift)
	atomic.StoreUint32(b.next(), 0)
	atomic.StoreUint32(b.owner(), owner)
	clearEntries(b, classEntries[class])
	return r, b
}

func (p *pool) allocRef(class int) ref {
	if class == topClass {
		n := p.takeCell()
		p.cells[n] = cell{class: topClass, used: 1, carved: 1}
		return cellRef(n)
	}
	n := p.partial[class]
	if n < 0 {
		n = int32(p.takeCell())
		p.cells[n] = cell{class: int8(class)}
		p.link(class, n)
	}
	c := &p.cells[n]
	var r ref
	if c.freePiece != 0 {
		r = ref(c.freePiece)
		c.freePiece = atomic.LoadUint32(p.ptr(r).next())
	} else {
		r = cellRef(uint32(n)) + ref(uint32(c.carved)*classUnits(class))
		c.carved++
	}
	c.used++
	if c.full() {
		p.unlink(class, n)
	}
	return r
}

// full says that no piece is free.
func (c *cell) full() bool {
	return c.freePiece == 0 && (uint32(c.carved)+1)*classUnits(int(c.class)) > cellUnits
}

// free takes a block back. The generation moves before anything else in it changes: whoever finds it unchanged after
// reading has read the block as it was.
func (p *pool) free(r ref) {
	b := p.ptr(r)
	atomic.AddUint32(p.gen(r), 1)
	n := cellOf(r)
	c := &p.cells[n]
	class := int(c.class)
	if class == topClass {
		p.giveCell(n)
		return
	}
	if c.full() {
		p.link(class, int32(n))
	}
	atomic.StoreUint32(b.next(), c.freePiece)
	c.freePiece = uint32(r)
	c.used--
	if c.used == 0 {
		p.unlink(class, int32(n))
		p.giveCell(n)
	}
}

func (p *pool) link(class int, n int32) {
	head := p.partial[class]
	p.cells[n].prev, p.cells[n].next = -1, head
	if head >= 0 {
		p.cells[head].prev = n
	}
	p.partial[class] = n
}

func (p *pool) unlink(class int, n int32) {
	c := &p.cells[n]
	if c.prev >= 0 {
		p.cells[c.prev].next = c.next
	} else {
		p.partial[class] = c.next
	}
	if c.next >= 0 {
		p.cells[c.next].prev = c.prev
	}
}

// bytes of memory that blocks take, free ones included.
func (p *pool) bytes() int64 { return int64(len(*p.slabs.Load())) * slabBytes }
