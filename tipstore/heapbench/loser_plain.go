package heapbench

// loserPlain merges with a tournament whose games are branches.
type loserPlain struct {
	feed
	first []item
	tree  plainTree
}

func (m *loserPlain) Reset(l *Lists) {
	m.reset(l)
	m.first = m.firsts(m.first[:0])
	m.tree.Reset(len(m.first))
	for _, it := range m.first {
		m.tree.Add(it.key, it.id)
	}
	m.tree.Build()
}

func (m *loserPlain) Fill(dst []uint64) int {
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

// plainTree is a tournament of losers as in the books: players are structs, and a game is a comparison and a branch.
//
// Invariant after Build: nodes[0] is the least of all; a player out of the game has the key ^0; live counts the others.
type plainTree struct {
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
func (t *plainTree) Reset(n int) {
	t.live = 0
	if cap(t.joined) < n {
		t.joined = make([]player, 0, n)
	}
	t.joined = t.joined[:0]
}

// Add lets a list join with its first key, which must be below ^0.
func (t *plainTree) Add(key uint64, id uint32) {
	t.joined = append(t.joined, player{key, id, uint32(len(t.joined))})
}

// Build plays all games.
func (t *plainTree) Build() {
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
func (t *plainTree) play(node int) player {
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
func (t *plainTree) Empty() bool { return t.live == 0 }

// Top is the least key and the list that it is of. Not for an empty tree.
func (t *plainTree) Top() (key uint64, id uint32) { return t.nodes[0].key, t.nodes[0].id }

// Pop takes the list with the least key out. Not for an empty tree.
func (t *plainTree) Pop() {
	t.live--
	t.Replace(outOfGame)
}

// Replace gives the list with the least key its next one. Not for an empty tree.
func (t *plainTree) Replace(key uint64) {
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
