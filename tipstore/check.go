package tipstore

import (
	"fmt"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// Check walks all structures and returns the first thing that is not as it must be. Only by the writer, for tests and the
// invariants build tag: it takes time in the order of the ring.
func (s *Store) Check() error {
	want, err := s.checkRing()
	if err != nil || !s.index {
		return err
	}
	used, err := s.checkLists(want)
	if err != nil {
		return err
	}
	return s.lists.pool.check(used)
}

func (s *Store) mustHold() {
	if err := s.Check(); err != nil {
		panic(err)
	}
}

// checkRing walks the records and returns the units of each partition.
func (s *Store) checkRing() (map[topic.PartitionID][]uint64, error) {
	units := map[topic.PartitionID][]uint64{}
	seq, _ := s.ring.tail.load()
	for number := s.ring.first; s.ring.live > 0 && number <= s.ring.last; number++ {
		c := s.ring.find(number)
		if got := c.state.Load() >> pinBits; got != number {
			return nil, fmt.Errorf("chunk %d of the stream says it is %d", number, got)
		}
		if c.firstSeq.Load() != seq {
			return nil, fmt.Errorf("chunk %d begins with seq %d, want %d", number, c.firstSeq.Load(), seq)
		}
		for off := 0; off < int(c.end.Load()); seq++ {
			rec := record.Record(c.mem[off:])
			if rec.Seq() != seq {
				return nil, fmt.Errorf("chunk %d, offset %d: seq %d, want %d", number, off, rec.Seq(), seq)
			}
			p := s.table.Partition(topic.ID(rec.Topic()))
			units[p] = append(units[p], unitOf(number<<s.ring.shift+uint64(off)))
			off += record.Scan(rec)
		}
	}
	if s.ring.live > 0 && seq != s.ring.nextSeq {
		return nil, fmt.Errorf("the ring ends with seq %d, want %d", seq-1, s.ring.nextSeq-1)
	}
	return units, nil
}

// checkLists compares each posting list with the units found in the ring; below the tail a list may have more. It returns
// the blocks in use by class.
func (s *Store) checkLists(want map[topic.PartitionID][]uint64) (used [classes]int, err error) {
	_, tailPos := s.ring.tail.load()
	for p := range topic.PartitionID(s.table.Partitions()) {
		l := s.lists.get(p)
		if l == nil || l.head.Load() == 0 {
			if len(want[p]) > 0 {
				return used, fmt.Errorf("partition %d: no list for %d records", p, len(want[p]))
			}
			continue
		}
		units, err := s.lists.checkList(p, l, &used)
		if err != nil {
			return used, err
		}
		for len(units) > 0 && units[0] < unitOf(tailPos) {
			units = units[1:]
		}
		if fmt.Sprint(units) != fmt.Sprint(want[p]) {
			return used, fmt.Errorf("partition %d: list %v, records %v", p, units, want[p])
		}
	}
	return used, nil
}

// checkList walks a list's blocks and returns its units.
func (x *lists) checkList(p topic.PartitionID, l *list, used *[classes]int) (units []uint64, err error) {
	closed := 0
	for r := ref(l.head.Load()); ; r = x.pool.ptr(r).loadNext() {
		b := x.pool.ptr(r)
		if owner := *b.owner(); owner != uint32(p) {
			return nil, fmt.Errorf("partition %d: block %d belongs to partition %d", p, r, owner)
		}
		used[x.pool.cells[cellOf(r)].class]++
		base, _ := b.loadBase()
		n := l.count
		isLast := r == ref(l.tail.Load())
		if !isLast {
			n = blockCount(b)
			closed += int(n)
		}
		for i := range n {
			unit := base + uint64(b.loadEntry(i))
			if len(units) > 0 && unit <= units[len(units)-1] {
				return nil, fmt.Errorf("partition %d: block %d, entry %d: unit %d does not ascend", p, r, i, unit)
			}
			units = append(units, unit)
		}
		if isLast {
			break
		}
	}
	if closed != int(l.closed.Load()) {
		return nil, fmt.Errorf("partition %d: %d entries in closed blocks, the list says %d", p, closed, l.closed.Load())
	}
	return units, nil
}

// check compares the pool's books with the blocks that lists use.
func (p *pool) check(used [classes]int) error {
	free := make([]bool, len(p.cells))
	for _, n := range p.freeCells {
		if free[n] {
			return fmt.Errorf("pool: cell %d is free twice", n)
		}
		free[n] = true
	}
	var got [classes]int
	for n := range p.cells {
		if !free[n] {
			got[p.cells[n].class] += int(p.cells[n].used)
		}
	}
	if got != used {
		return fmt.Errorf("pool: blocks in use by class %v, lists have %v", got, used)
	}
	if int(p.spare.Load()) != len(p.freeCells) || int(p.total.Load()) != len(p.cells) {
		return fmt.Errorf("pool: counts %d of %d free, books say %d of %d", p.spare.Load(), p.total.Load(), len(p.freeCells), len(p.cells))
	}
	return nil
}
