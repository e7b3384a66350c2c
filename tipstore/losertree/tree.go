// Package losertree merges ascending lists: a tournament over the lists' next keys that always knows the least.
//
// It promises no allocation once it has held as many lists, and ids that come back as they were given. It knows the keys
// only: lists, their ends and what a key means are the caller's. It does not keep equal keys of several lists in any order.
// Why this structure and not another: heapbench.
package losertree

import (
	"fmt"
	"math/bits"
)

// Tree is a tournament of losers (Knuth, TAOCP 5.4.1). Each inner node holds the loser of the game played there; the winner
// of all stands in slot 0. Replacing the winner replays the games on its way up: one comparison per level, always against
// the same cells.
//
// A player is one word: the list's next key, less the least possible one, above; its leaf below. So the winner of a game is
// the lesser word and the loser the greater, and a game is two conditional moves and no branch: a branch there goes wrong
// every other time when lists alternate, and costs more than all else at its level.
//
// Reset, Add for every list, Build; then, until it is Empty, Top and either Replace or Pop.
//
// Invariant after Build: nodes[0] is the least of all; a player out of the game is ^0.
type Tree struct {
	nodes  []uint64 // [1, width) losers, [0] winner; width is a power of two
	ids    []uint32 // by leaf
	joined []uint64 // keys less low, by leaf; before Build
	shift  uint     // bits of a leaf
	low    uint64   // no key is below
	end    uint64   // all keys are below
}

const outOfGame = ^uint64(0)

// Reset empties the tree and makes room for n lists with keys in [low, end).
func (t *Tree) Reset(n int, low, end uint64) {
	if cap(t.joined) < n {
		t.joined, t.ids = make([]uint64, 0, n), make([]uint32, 0, n)
	}
	t.joined, t.ids = t.joined[:0], t.ids[:0]
	t.low, t.end = low, end
}

// Add lets a list join with its first key.
func (t *Tree) Add(key uint64, id uint32) {
	t.joined, t.ids = append(t.joined, key-t.low), append(t.ids, id)
}

// Build plays all games. The bits of the keys' range and of the number of lists must not be more than 63 together.
func (t *Tree) Build() {
	t.shift = uint(bits.Len(uint(max(len(t.joined), 1) - 1)))
	if span := uint(bits.Len64(t.end - t.low)); span+t.shift > 63 {
		panic(fmt.Sprintf("losertree: keys of %d bits and %d lists do not fit a word", span, len(t.joined)))
	}
	width := 1 << t.shift
	if cap(t.nodes) < width {
		t.nodes = make([]uint64, width)
	}
	t.nodes = t.nodes[:width]
	t.nodes[0] = t.play(1)
}

// play plays the games below a node, leaves the loser there and returns the winner.
func (t *Tree) play(node int) uint64 {
	if leaf := node - len(t.nodes); leaf >= len(t.joined) {
		return outOfGame
	} else if leaf >= 0 {
		return t.joined[leaf]<<(t.shift&63) | uint64(leaf)
	}
	a, b := t.play(2*node), t.play(2*node+1)
	t.nodes[node] = max(a, b)
	return min(a, b)
}

// Empty says that all lists are out.
func (t *Tree) Empty() bool { return t.nodes[0] == outOfGame }

// leaf of the winner.
func (t *Tree) leaf() uint64 { return t.nodes[0] & uint64(len(t.nodes)-1) }

// Top is the least key and the list that it is of. Not for an empty tree.
func (t *Tree) Top() (key uint64, id uint32) {
	return t.low + t.nodes[0]>>(t.shift&63), t.ids[t.leaf()]
}

// Pop takes the list with the least key out. Not for an empty tree.
func (t *Tree) Pop() { t.replay(outOfGame, t.leaf()) }

// Replace gives the list with the least key its next one. Not for an empty tree.
func (t *Tree) Replace(key uint64) {
	leaf := t.leaf()
	t.replay((key-t.low)<<(t.shift&63)|leaf, leaf)
}

// Lead returns a key up to which, exclusively, the list with the least key stays the one: that of the second. Its further
// keys below may be taken without a Replace, which saves the games when a list has many keys in a row. Not for an empty
// tree.
func (t *Tree) Lead() uint64 {
	least := outOfGame
	for i := (uint64(len(t.nodes)) + t.leaf()) / 2; i > 0; i /= 2 {
		least = min(least, t.nodes[i]) // who is second has lost to the first
	}
	if least == outOfGame {
		return outOfGame
	}
	return t.low + least>>(t.shift&63)
}

// replay plays the games on the way from the leaf up.
func (t *Tree) replay(p, leaf uint64) {
	nodes := t.nodes
	for i := (uint64(len(nodes)) + leaf) / 2; i > 0; i /= 2 {
		loser := nodes[i]
		nodes[i] = max(loser, p)
		p = min(loser, p)
	}
	nodes[0] = p
}
