package tipstore

// tree is a tournament of losers (Knuth, TAOCP 5.4.1) over the lists' next keys. Each inner node holds the loser of the
// game played there; the winner of all stands in slot 0. Replacing the winner replays the games on its way up: one
// comparison per level, always against the same cells. Of the queues measured it is the fastest at this job: DESIGN.md.
//
// Invariant after build: nodes[0] is the least of all; a player out of the game has the key ^0; live counts the others.
type tree struct {
	nodes  []player // [1, width) losers, [0] winner
	width  int      // players, a power of two
	live   int
	joined []player // before build
}

// player is a list's next key.
type player struct {
	key uint64
	id  uint32
	pos uint32 // its leaf
}

const outOfGame = ^uint64(0)

func (t *tree) reset(n int) {
	t.live = 0
	if cap(t.joined) < n {
		t.joined = make([]player, 0, n)
	}
	t.joined = t.joined[:0]
}

func (t *tree) add(key uint64, id uint32) {
	t.joined = append(t.joined, player{key, id, uint32(len(t.joined))})
}

// build plays all games.
func (t *tree) build() {
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
func (t *tree) play(node int) player {
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

func (t *tree) empty() bool { return t.live == 0 }

func (t *tree) top() (key uint64, id uint32) { return t.nodes[0].key, t.nodes[0].id }

// pop takes the winner out.
func (t *tree) pop() {
	t.live--
	t.replace(outOfGame)
}

// replace gives the winner its next key.
func (t *tree) replace(key uint64) {
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
