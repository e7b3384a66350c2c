package heapbench

import (
	"fmt"
	"math/rand/v2"
)

// none ends each list. It is above every key.
const none = ^uint64(0)

// keyEnd is above the keys of all lists.
const keyEnd = 1 << 40

// Lists are ascending lists of keys, as dense as the tip's: all keys in one array, each list ended by none.
type Lists struct {
	keys   []uint64
	starts []uint32 // places of the lists' first keys
}

// NewLists copies ascending lists of keys, each below keyEnd.
func NewLists(lists [][]uint64) *Lists {
	l := new(Lists)
	for _, keys := range lists {
		l.starts = append(l.starts, uint32(len(l.keys)))
		l.keys = append(append(l.keys, keys...), none)
	}
	return l
}

// Pattern says how the messages of the lists follow each other in the stream.
type Pattern string

// The patterns.
const (
	Uniform    Pattern = "uniform"     // each message's list is drawn, all alike
	RoundRobin Pattern = "round-robin" // list after list
	Skewed     Pattern = "skewed"      // drawn by Zipf's law with exponent 1.2: a few lists hold most
	Runs       Pattern = "runs"        // drawn, but 64 messages of a list follow each other
)

const runLength = 64

// Patterns are all of them.
func Patterns() []Pattern { return []Pattern{Uniform, RoundRobin, Skewed, Runs} }

// Spread distributes the keys 0..messages-1 over n lists. Equal arguments give equal lists.
func Spread(p Pattern, n, messages int) (*Lists, error) {
	draw, err := p.drawer(n)
	if err != nil {
		return nil, err
	}
	lists := make([][]uint64, n)
	for key := range uint64(messages) {
		id := draw(key)
		lists[id] = append(lists[id], key)
	}
	return NewLists(lists), nil
}

// drawer returns the function that gives each key, in ascending order, its list.
func (p Pattern) drawer(n int) (func(key uint64) int, error) {
	if n < 1 {
		return nil, fmt.Errorf("heapbench: spread over %d lists: at least 1 is needed", n)
	}
	random := rand.New(rand.NewPCG(1, uint64(n)))
	switch p {
	case Uniform:
		return func(uint64) int { return random.IntN(n) }, nil
	case RoundRobin:
		return func(key uint64) int { return int(key % uint64(n)) }, nil
	case Skewed:
		zipf, places := rand.NewZipf(random, 1.2, 1, uint64(n-1)), random.Perm(n)
		return func(uint64) int { return places[zipf.Uint64()] }, nil
	case Runs:
		id := 0
		return func(key uint64) int {
			if key%runLength == 0 {
				id = random.IntN(n)
			}
			return id
		}, nil
	}
	return nil, fmt.Errorf("heapbench: no pattern %q; there are %v", p, Patterns())
}

// feed hands out the keys of lists.
type feed struct {
	keys []uint64
	next []uint32 // of each list, the place of the key to hand out next
}

func (f *feed) reset(l *Lists) {
	f.keys = l.keys
	f.next = append(f.next[:0], l.starts...)
}

// take takes a list's next key; none at its end, after which it must not be asked again.
func (f *feed) take(id uint32) uint64 {
	place := f.next[id]
	f.next[id]++
	return f.keys[place]
}

// firsts appends the first key of each list that has one.
func (f *feed) firsts(items []item) []item {
	for id := range f.next {
		if key := f.take(uint32(id)); key != none {
			items = append(items, item{key, uint32(id)})
		}
	}
	return items
}

// item is a list's next key.
type item struct {
	key uint64
	id  uint32
}
