package nemesis

import (
	"context"
	"errors"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// lagFor is how long some nodes are behind before the leader's disk is lost: much is acknowledged without them meanwhile.
const lagFor = 1200 * time.Millisecond

// lostVoteFault makes a node with an empty disk answer at the address of a voter, while only nodes that are behind could profit
// from its vote. Counted as the voter's, its vote would make one of them leader, and what was acknowledged without it is gone.
//
//	others   behind   leader
//	  x        |        x       acknowledged by leader and others
//	paused     x      wiped     no majority of those who voted before: nobody may lead
//	  x        x        x       others hold everything and must win
func lostVoteFault() Fault {
	return Fault{Name: "lost-vote", About: "the leader loses its disk and returns empty while the up-to-date others are paused and the rest is behind", aims: []aim{leader},
		inject: func(a *attack) (*injury, error) {
			lead := a.targets[0]
			rest := without(a.shuffled(), lead)
			if len(rest) < 2 || !a.claim(rest) || !a.claimOnce(&a.n.network) {
				return nil, nil
			}
			a.targets = append([]*node.Node{lead}, rest...)
			if !a.alone() {
				return nil, nil
			}
			behind, others := rest[:len(rest)/2], rest[len(rest)/2:]
			err := a.cluster().Cut(both(behind, append([]*node.Node{lead}, others...))...)
			pause.For(a.ctx, lagFor)
			old := lead.ID()
			each(others, (*node.Node).Pause)
			lead.Kill()
			err = errors.Join(err, lead.Wipe(), a.cluster().Heal(), lead.Start())
			return &injury{targets: a.targets, hold: 4 * time.Second, heal: func(ctx context.Context) error {
				each(others, (*node.Node).Resume)
				return a.cluster().Adopt(ctx, lead, old)
			}}, err
		}}
}
