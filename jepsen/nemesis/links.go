package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/network"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// cutFault is a fault that cuts links which choose names.
func cutFault(name, about string, aims []aim, choose func(*attack, []*node.Node) []network.Link) Fault {
	return Fault{Name: name, About: about, aims: aims, inject: func(a *attack) (*injury, error) {
		if !a.claimOnce(&a.n.network) {
			return nil, nil
		}
		links := choose(a, a.shuffled())
		if len(links) == 0 {
			return nil, nil
		}
		err := a.cluster().Cut(links...)
		return &injury{targets: a.targets, detail: show(links), heal: func(context.Context) error { return a.cluster().Heal() }}, err
	}}
}

func (a *attack) shuffled() []*node.Node {
	voters := a.cluster().Voters()
	a.r.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	return voters
}

func show(links []network.Link) string {
	text := "cut"
	for _, l := range links {
		text += fmt.Sprintf(" n%d>n%d", l.From+1, l.To+1)
	}
	return text
}

// both are the two directions between each of some nodes and each of others.
func both(some, others []*node.Node) (links []network.Link) {
	for _, x := range some {
		for _, y := range others {
			links = append(links, link(x, y), link(y, x))
		}
	}
	return links
}

// without is nodes but for one.
func without(nodes []*node.Node, one *node.Node) (rest []*node.Node) {
	for _, n := range nodes {
		if n != one {
			rest = append(rest, n)
		}
	}
	return rest
}

func cutOneFault() Fault {
	return cutFault("cut-one", "one node cut off from all others", []aim{leader, follower}, func(a *attack, nodes []*node.Node) []network.Link {
		return both(a.targets, without(nodes, a.targets[0]))
	})
}

func cutHalvesFault() Fault {
	return cutFault("cut-halves", "a random half cut off from the other", nil, func(_ *attack, nodes []*node.Node) []network.Link {
		half := len(nodes) / 2
		return both(nodes[:half], nodes[half:])
	})
}

func cutRingFault() Fault {
	return cutFault("cut-ring", "every node sees a majority, no two see the same", nil, func(_ *attack, nodes []*node.Node) []network.Link {
		return ring(nodes)
	})
}

// ring leaves each node its nearest neighbours, which with it are a majority. Three nodes are a line.
func ring(nodes []*node.Node) (links []network.Link) {
	n := len(nodes)
	reach := (n/2 + 1) / 2 // neighbours on each side
	for i := range n {
		for j := i + 1; j < n; j++ {
			if d := min(j-i, n-(j-i)); d > reach || n == 3 && i == 0 && j == 2 {
				links = append(links, both(nodes[i:i+1], nodes[j:j+1])...)
			}
		}
	}
	return links
}

func cutOneWayFault() Fault {
	return cutFault("cut-one-way", "one node hears the others and is not heard, or the other way round", []aim{leader, follower}, func(a *attack, nodes []*node.Node) (links []network.Link) {
		deaf := a.r.IntN(2) == 0
		for _, other := range without(nodes, a.targets[0]) {
			if deaf {
				links = append(links, link(other, a.targets[0]))
			} else {
				links = append(links, link(a.targets[0], other))
			}
		}
		return links
	})
}

func bridgeFault() Fault {
	return cutFault("cut-bridge", "two halves that only one node sees both of", nil, func(_ *attack, nodes []*node.Node) []network.Link {
		return bridge(nodes)
	})
}

// bridge cuts all but the first node into two halves.
func bridge(nodes []*node.Node) []network.Link {
	rest := nodes[1:]
	half := len(rest) / 2
	return both(rest[:half], rest[half:])
}

// flapFault cuts and mends a node's links quickly.
func flapFault() Fault {
	return Fault{Name: "flap", About: "a node's links are cut and mended several times a second", aims: []aim{leader, follower}, inject: func(a *attack) (*injury, error) {
		if !a.claimOnce(&a.n.network) {
			return nil, nil
		}
		links := both(a.targets, without(a.shuffled(), a.targets[0]))
		times := 4 + a.r.IntN(10)
		var err error
		for range times {
			err = errors.Join(err, a.cluster().Cut(links...))
			pause.For(a.ctx, time.Duration(a.r.Int64N(int64(a.n.o.ElectionTimeout))))
			err = errors.Join(err, a.cluster().Heal())
			if !pause.For(a.ctx, time.Duration(a.r.Int64N(int64(a.n.o.ElectionTimeout)/2))) {
				break
			}
		}
		return &injury{targets: a.targets, momentary: true, detail: fmt.Sprintf("%d times", times)}, err
	}}
}

// shapeFault gives all links, or those of one node, a shape.
func shapeFault(name, about string, shape func(*attack) network.Shape) Fault {
	return Fault{Name: name, About: about, Need: NeedShaping, aims: []aim{leader, follower, all}, inject: func(a *attack) (*injury, error) {
		if !a.claimOnce(&a.n.network) {
			return nil, nil
		}
		s, voters := shape(a), a.shuffled()
		var err error
		for _, x := range voters {
			for _, y := range voters {
				if x != y && (len(a.targets) > 1 || x == a.targets[0] || y == a.targets[0]) {
					err = errors.Join(err, a.cluster().Network().Shape(link(x, y), s))
				}
			}
		}
		return &injury{targets: a.targets, detail: fmt.Sprintf("%+v", s), heal: func(context.Context) error { return a.cluster().Heal() }}, err
	}}
}

func slowFault() Fault {
	return shapeFault("slow", "delay and jitter on links", func(a *attack) network.Shape {
		return network.Shape{
			Delay:  time.Duration(a.r.Int64N(int64(150 * time.Millisecond))),
			Jitter: 1 + time.Duration(a.r.Int64N(int64(200*time.Millisecond))),
		}
	})
}

func narrowFault() Fault {
	return shapeFault("narrow", "links of 20 to 220 KiB a second", func(a *attack) network.Shape {
		return network.Shape{BytesPerSecond: (20 + a.r.IntN(200)) << 10}
	})
}

func lossyFault() Fault {
	return shapeFault("lossy", "connections reset every second or so, datagrams lost", func(a *attack) network.Shape {
		return network.Shape{
			ResetEvery:  200*time.Millisecond + time.Duration(a.r.Int64N(int64(2*time.Second))),
			DropPackets: 0.6 * a.r.Float64(),
		}
	})
}
