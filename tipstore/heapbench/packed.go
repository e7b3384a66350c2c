package heapbench

import "math/bits"

// packed merges with a tournament whose players are single words.
type packed struct {
	feed
	first []item
	tree  packedTree
}

func (m *packed) Reset(l *Lists) {
	m.reset(l)
	m.first = m.firsts(m.first[:0])
	m.tree.Reset(len(m.first))
	for _, it := range m.first {
		m.tree.Add(it.key, it.id)
	}
	m.tree.Build()
}

func (m *packed) Fill(dst []uint64) int {
	for i := range dst {
		if m.tree.Empty() {
			return i
		}
		key, id := m.tree.Top()
		dst[i] = key
		if next := m.take(id); next != none {
			m.tree.Replace(next)
		} else {
			m.tree.Pop()
		}
	}
	return len(dst)
}

// packedTree is a tournament of losers in which a player is one word: its key above, its leaf below. The winner of a game
// is the lesser word and the loser the greater, so that a game is two conditional moves and no branch. A branch there goes
// wrong every other time when lists alternate, and costs more than all else at that level.
//
// Keys are kept less the least of all, so that the leaf's bits are free.
//
// Invariant after Build: nodes[0] is the least of all; a player out of the game is ^0; live counts the others.
type packedTree struct {
	nodes  []uint64 // [1, width) losers, [0] winner
	ids    []uint32 // by leaf
	joined []uint64 // keys by leaf, before Build
	live   int
	shift  uint   // bits of a leaf
	low    uint64 // least key
}

const outOfGame = ^uint64(0)

func (t *packedTree) Reset(n int) {
	t.live = 0
	if cap(t.joined) < n {
		t.joined, t.ids = make([]uint64, 0, n), make([]uint32, 0, n)
	}
	t.joined, t.ids = t.joined[:0], t.ids[:0]
}

func (t *packedTree) Add(key uint64, id uint32) {
	t.joined, t.ids = append(t.joined, key), append(t.ids, id)
}

func (t *packedTree) Build() {
	t.live = len(t.joined)
	if t.live == 0 {
		return
	}
	t.shift = uint(bits.Len(uint(t.live - 1)))
	t.low = outOfGame
	for _, key := range t.joined {
		t.low = min(t.low, key)
	}
	width := 1 << t.shift
	if cap(t.nodes) < width {
		t.nodes = make([]uint64, width)
	}
	t.nodes = t.nodes[:width]
	t.nodes[0] = t.play(1)
}

// play plays the games below a node, leaves the loser there and returns the winner.
func (t *packedTree) play(node int) uint64 {
	if leaf := node - len(t.nodes); leaf >= len(t.joined) {
		return outOfGame
	} else if leaf >= 0 {
		return t.pack(t.joined[leaf], uint64(leaf))
	}
	a, b := t.play(2*node), t.play(2*node+1)
	t.nodes[node] = max(a, b)
	return min(a, b)
}

func (t *packedTree) pack(key, leaf uint64) uint64 {
	delta := key - t.low
	if delta>>(63-t.shift&63) != 0 {
		panic("heapbench: keys too far apart")
	}
	return delta<<(t.shift&63) | leaf
}

func (t *packedTree) leaf() uint64 { return t.nodes[0] & uint64(len(t.nodes)-1) }

func (t *packedTree) Empty() bool { return t.live == 0 }

func (t *packedTree) Top() (key uint64, id uint32) {
	return t.low + t.nodes[0]>>(t.shift&63), t.ids[t.leaf()]
}

func (t *packedTree) Pop() {
	t.live--
	t.replay(outOfGame, t.leaf())
}

func (t *packedTree) Replace(key uint64) {
	leaf := t.leaf()
	t.replay(t.pack(key, leaf), leaf)
}

// replay plays the games on the way from the leaf up.
func (t *packedTree) replay(p, leaf uint64) {
	nodes := t.nodes
	for i := (uint64(len(nodes)) + leaf) / 2; i > 0; i /= 2 {
		loser := nodes[i]
		nodes[i] = max(loser, p)
		p = min(loser, p)
	}
	nodes[0] = p
}
