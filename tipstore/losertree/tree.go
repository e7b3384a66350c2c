// Package losertree merges ascending lists: a tournament over the lists' next keys that always knows the least.
//
// It promises no allocation once it has held as many lists, and ids that come back as they were given. It knows the keys
// only: lists, their ends and what a key means are the caller's. It does not keep equal keys of several lists in any order.
// Why this structure and not another: heapbench.
package losertree

// Tree is a tournament of losers (Knuth, TAOCP 5.4.1). Each inner node holds the loser of the game played there; the winner
// of all stands in slot 0. Replacing the winner replays the games on its way up: one comparison per level, always against
// the same cells.
//
// Reset, Add for every list, Build; then, until it is Empty, Top and either Replace or Pop.
//
// Invariant after Build: nodes[0] is the least of all; a player out of the game has the key ^0; live counts the others.
type Tree struct {
	nodes  []player // [1, width) losers, [0] winner
	width  int      // players, a power of two
	live   int
	joined []player // before Build
}

// player is a list's next key.
type player struct {
	key uint64
	id  uint32
	pos uint32 // its leaf
}

const outOfGame = ^uint64(0)

// Reset empties the tree and makes room for n lists.
func (t *Tree) Reset(n int) {
	t.live = 0
	if cap(t.joined) < n {
		t.joined = make([]player, 0, n)
	}
	t.joined = t.joined[:0]
}

// Add lets a list join with its first key, which must be below ^0.
func (t *Tree) Add(key uint64, id uint32) {
	t.joined = append(t.joined, player{key, id, uint32(len(t.joined))})
}

// Build plays all games.
func (t *Tree) Build() {
	t.live = len(t.joined)
	if t.live == 0 {
		return
	}
	t.width = 1
	for t.width < t.live {
		t.width *= 2
	}
	if cap(t.nodes) < t.width {
		t.nodes = make([]player, t.width)
	}
	t.nodes = t.nodes[:t.width]
	t.nodes[0] = t.play(1)
}

// play plays the games below a node, leaves the loser there and returns the winner.
func (t *Tree) play(node int) player {
	if node >= t.width {
		if leaf := node - t.width; leaf < len(t.joined) {
			return t.joined[leaf]
		}
		return player{key: outOfGame, pos: uint32(node - t.width)}
	}
	a, b := t.play(2*node), t.play(2*node+1)
	if b.key < a.key {
		a, b = b, a
	}
	t.nodes[node] = b
	return a
}

// Empty says that all lists are out.
func (t *Tree) Empty() bool { return t.live == 0 }

// Top is the least key and the list that it is of. Not for an empty tree.
func (t *Tree) Top() (key uint64, id uint32) { return t.nodes[0].key, t.nodes[0].id }

// Pop takes the list with the least key out. Not for an empty tree.
func (t *Tree) Pop() {
	t.live--
	t.Replace(outOfGame)
}

// Replace gives the list with the least key its next one. Not for an empty tree.
func (t *Tree) Replace(key uint64) {
	nodes := t.nodes
	p := nodes[0]
	p.key = key
	for i := (t.width + int(p.pos)) / 2; i > 0; i /= 2 {
		if nodes[i].key < p.key {
			nodes[i], p = p, nodes[i]
		}
	}
	nodes[0] = p
}
