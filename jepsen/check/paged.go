package check

import (
	"maps"
	"slices"
)

const pageBits = 10

// paged is an array without a bound: numbers that lie close together share memory, and a wild one costs a page and not
// all that lies before it.
type paged[T any] struct {
	pages map[uint64]*[1 << pageBits]T
	keys  []uint64 // of pages, sorted; valid after sort
	// The page used last.
	key  uint64
	page *[1 << pageBits]T
}

// get returns the place of i, nil if nothing near it was ever made.
func (p *paged[T]) get(i uint64) *T {
	if key := i >> pageBits; p.page == nil || p.key != key {
		page := p.pages[key]
		if page == nil {
			return nil
		}
		p.key, p.page = key, page
	}
	return &p.page[i&(1<<pageBits-1)]
}

// at returns the place of i and makes it.
func (p *paged[T]) at(i uint64) *T {
	if v := p.get(i); v != nil {
		return v
	}
	if p.pages == nil {
		p.pages = map[uint64]*[1 << pageBits]T{}
	}
	p.pages[i>>pageBits] = new([1 << pageBits]T)
	return p.get(i)
}

// sort makes each possible. No page may be made after it.
func (p *paged[T]) sort() { p.keys = slices.Sorted(maps.Keys(p.pages)) }

// each calls do for the places from..to that have memory, in order, until it returns false.
func (p *paged[T]) each(from, to uint64, do func(i uint64, v *T) bool) {
	first, _ := slices.BinarySearch(p.keys, from>>pageBits)
	for _, key := range p.keys[first:] {
		low := key << pageBits
		if low > to {
			return
		}
		page := p.pages[key]
		for i := max(low, from); i-low < 1<<pageBits && i <= to; i++ {
			if !do(i, &page[i-low]) {
				return
			}
		}
	}
}

// bits is a set of numbers.
type bits struct{ words paged[uint64] }

func (b *bits) has(i uint64) bool {
	w := b.words.get(i >> 6)
	return w != nil && *w&(1<<(i&63)) != 0
}

func (b *bits) add(i uint64) { *b.words.at(i >> 6) |= 1 << (i & 63) }
