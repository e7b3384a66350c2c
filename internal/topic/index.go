package topic

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"unsafe"
)

const (
	shardBits     = 10
	shardCount    = 1 << shardBits
	shardMinSlots = 8
	slotBytes     = int64(unsafe.Sizeof(atomic.Uint64{}))
)

// index finds a node by the hash of its path: a hash table in shardCount independent shards, each an open-addressing
// array with linear probing. A shard doubles on its own, so growth costs at most the copy of one small array (256 KiB at
// 16 M nodes) inside one Intern, however large the table is. Entries are never removed.
//
//	hash   63......54 53......32 31...............0
//	       shard      unused     tag; its top bits are the place in the shard
//	slot   63.................32 31...............0
//	       tag                   id, 0: empty (the root is not in the index)
//
// The tag makes a foreign name cost no visit to its row (but for one in 2^32 / slots), and lets a shard grow without
// reading names. The hash is seeded per table against names chosen to collide; the seed decides only where an entry
// lies, never an id.
type index struct {
	seed   maphash.Seed
	shards [shardCount]atomic.Pointer[shard]
	used   [shardCount]uint32 // writer only: entries per shard. Invariant: at most 3/4 of the shard's slots
}

type shard struct {
	shift uint8           // place = tag >> shift
	slots []atomic.Uint64 // length is a power of two; a slot is set once
}

func newShard(slots int) *shard {
	return &shard{shift: uint8(32 - bits.Len(uint(slots-1))), slots: make([]atomic.Uint64, slots)}
}

func (x *index) hash(path string) uint64 { return maphash.String(x.seed, path) }

// put adds an entry that is not there yet and returns the bytes of memory it took. Writer only.
func (x *index) put(hash uint64, id ID) (grown int64) {
	n := hash >> (64 - shardBits)
	s := x.shards[n].Load()
	switch {
	case s == nil:
		s = newShard(shardMinSlots)
		x.shards[n].Store(s)
		grown = shardMinSlots * slotBytes
	case int(x.used[n]) >= len(s.slots)*3/4:
		grown = int64(len(s.slots)) * slotBytes
		s = s.doubled()
		x.shards[n].Store(s)
	}
	s.put(hash<<32 | uint64(id))
	x.used[n]++
	return grown
}

func (s *shard) put(entry uint64) {
	mask := len(s.slots) - 1
	i := int(uint32(entry>>32) >> s.shift)
	for s.slots[i].Load() != 0 {
		i = (i + 1) & mask
	}
	s.slots[i].Store(entry)
}

// doubled copies all entries into a shard of twice the size. Readers keep the old one until they look again: it stays
// complete for everything interned before.
func (s *shard) doubled() *shard {
	next := newShard(2 * len(s.slots))
	for i := range s.slots {
		if entry := s.slots[i].Load(); entry != 0 {
			next.put(entry)
		}
	}
	return next
}
