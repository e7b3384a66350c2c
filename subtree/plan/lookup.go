package plan

import "math/bits"

// index finds rules by path: an open hash table that is asked once per segment of a topic, with a hash that grows along
// the topic's bytes.
type index struct {
	// Invariant: a power of two long, at most half full, so that a search ends; slot.path "" is free.
	slots []slot
	// Invariant: no rule's path is longer.
	longest int
}

// slot is the rules of one path.
type slot struct {
	path  string
	hash  uint64
	exact int   // store of the Exact rule, -1: none
	below []int // stores of the Subtree or Spread rule, empty: none
}

const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

func newIndex(partition string, rules []Rule) index {
	x := index{slots: make([]slot, 1<<bits.Len(uint(2*len(rules))))}
	for _, r := range rules {
		h := uint64(fnvOffset)
		for i := len(partition); i < len(r.Path); i++ {
			h = (h ^ uint64(r.Path[i])) * fnvPrime
		}
		s := x.place(r.Path, h)
		if r.Kind == Exact {
			s.exact = r.Stores[0]
		} else {
			s.below = r.Stores
		}
		x.longest = max(x.longest, len(r.Path))
	}
	return x
}

// place finds the slot of a path, or takes a free one for it.
func (x *index) place(path string, hash uint64) *slot {
	mask := len(x.slots) - 1
	for i := home(hash) & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.path == "" {
			*s = slot{path: path, hash: hash, exact: -1}
		}
		if s.path == path {
			return s
		}
	}
}

// find returns the slot of a path, nil if no rule has it.
func (x *index) find(path string, hash uint64) *slot {
	mask := len(x.slots) - 1
	for i := home(hash) & mask; ; i = (i + 1) & mask {
		s := &x.slots[i]
		if s.path == "" {
			return nil
		}
		if s.hash == hash && s.path == path {
			return s
		}
	}
}

// home folds the better mixed high bits of the hash onto the low ones.
func home(hash uint64) int { return int(hash>>32 ^ hash) }

// StoreOf returns the index of a valid topic's store, -1 if the topic is not in the partition. It does not allocate.
func (p *Plan) StoreOf(name string) int {
	if !holds(p.partition, name) {
		return -1
	}
	return p.lookup(name, len(name), true)
}

// inherited is where a path of the partition, but not the partition's own, would go without rules of its own.
func (p *Plan) inherited(path string) int { return p.lookup(path, len(path)-1, false) }

// lookup applies the longest rule whose path is at most most bytes long; Exact rules only if exact.
func (p *Plan) lookup(name string, most int, exact bool) int {
	var best *slot
	end := 0
	most = min(most, p.index.longest)
	h := uint64(fnvOffset)
	for i := len(p.partition); i <= most; i++ {
		if i == len(name) || name[i] == '/' {
			if s := p.index.find(name[:i], h); s != nil {
				if exact && i == len(name) && s.exact >= 0 {
					return s.exact
				}
				if len(s.below) > 0 {
					best, end = s, i
				}
			}
		}
		if i < most {
			h = (h ^ uint64(name[i])) * fnvPrime
		}
	}
	return pick(best.below, name[end:])
}

// pick chooses among the stores of a Subtree or Spread rule by what follows its path in the topic: "" or "/segment...".
func pick(stores []int, rest string) int {
	if len(stores) == 1 || rest == "" {
		return stores[0]
	}
	return stores[part(rest, len(stores))]
}

// part maps the first segment of "/segment..." to [0, parts). With one part more, only the share of the new part moves.
func part(rest string, parts int) int { return jump(hashSegment(rest), parts) }

// hashSegment hashes the first segment of "/segment...".
func hashSegment(rest string) uint64 {
	h := uint64(fnvOffset)
	for i := 1; i < len(rest) && rest[i] != '/'; i++ {
		h = (h ^ uint64(rest[i])) * fnvPrime
	}
	return mix(h)
}

// mix is the finaliser of splitmix64: FNV leaves the last bytes in the low bits.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// jump is Lamping and Veach's "A Fast, Minimal Memory, Consistent Hash Algorithm" (2014) with its floating-point quotient
// replaced by the integer one, so that every processor agrees.
func jump(key uint64, parts int) int {
	bucket, next := uint64(0), uint64(0)
	for next < uint64(parts) {
		bucket = next
		key = key*2862933555777941757 + 1
		next = (bucket + 1) << 31 / (key>>33 + 1)
	}
	return int(bucket)
}
