package nemesis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cantus-bus/cantus/internal/pause"
	"github.com/cantus-bus/cantus/jepsen/history"
	"github.com/cantus-bus/cantus/jepsen/network"
	"github.com/cantus-bus/cantus/jepsen/node"
)

// Need is what a fault needs of the run.
type Need int

// Needs.
const (
	NeedNothing Need = iota
	NeedShaping      // a network that delays and resets: proxy
	NeedImages       // disks that lose power and run full: root, ext4
	NeedHooks        // a binary built with the tag faults
)

// String is the need for people.
func (n Need) String() string {
	return [...]string{"", "--network proxy", "root and ext4", "a binary built with -tags faults"}[n]
}

// Fault is a way to hurt a cluster.
type Fault struct {
	Name  string
	About string
	Need  Need
	aims  []aim // to choose from; none: the fault chooses itself
	// inject hurts. nil without an error: it is not possible now.
	inject func(*attack) (*injury, error)
}

// injury is a fault in force.
type injury struct {
	targets   []*node.Node
	detail    string
	momentary bool          // nothing to heal
	hold      time.Duration // 0: as the run holds faults
	heal      func(context.Context) error
}

// Options of a run of faults.
type Options struct {
	Cluster *node.Cluster
	Record  node.Recorder
	Seed    uint64
	Mix     []Fault
	// Beside is how many faults are in force at once, at most. 0: 1.
	Beside int
	// Each is how often each fault of Mix is injected, in turn; then the run is over. 0: chance chooses, and only time ends the run.
	Each int
	// Hold and Rest are how long faults last and how long the time between is, on average.
	Hold, Rest time.Duration
	// ElectionTimeout is the nodes', for pauses just below it.
	ElectionTimeout time.Duration
	// Patience bounds the healing of one fault.
	Patience time.Duration
}

// Nemesis is a run of faults.
type Nemesis struct {
	o   Options
	ids atomic.Int64

	network atomic.Bool // links are somebody's

	mu     sync.Mutex
	counts map[string]int // by name and aim. Guarded by mu
	tries  turns          // Guarded by mu
	kinds  map[string]int // of files that were damaged, by name. Guarded by mu
	failed []string       // faults that could not be injected or healed. Guarded by mu
}

// New makes a nemesis at rest.
func New(o Options) *Nemesis {
	o.Beside = max(1, o.Beside)
	return &Nemesis{o: o, counts: map[string]int{}, tries: turns{tried: map[string]int{}, done: map[string]int{}, aimed: map[string]int{}}, kinds: map[string]int{}}
}

// Counts says how often each fault was injected.
func (n *Nemesis) Counts() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	counts := map[string]int{}
	for k, v := range n.counts {
		counts[k] = v
	}
	return counts
}

// Failed lists what went wrong with injecting and healing: findings about the harness, or a node that did not come back.
func (n *Nemesis) Failed() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.failed)
}

// Run injects faults until ctx ends, or each was injected as often as it should be, and returns when all are healed.
func (n *Nemesis) Run(ctx context.Context) {
	var wg sync.WaitGroup
	for i := range n.o.Beside {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(n.o.Seed, 0x6e656d+uint64(i)))
			for n.rest(ctx, r) {
				f, ok := n.choose(r)
				if !ok {
					return
				}
				n.one(ctx, r, f)
			}
		})
	}
	wg.Wait()
}

func (n *Nemesis) rest(ctx context.Context, r *rand.Rand) bool {
	return pause.For(ctx, pause.About(r, n.o.Rest))
}

// one injects one fault and heals it.
func (n *Nemesis) one(ctx context.Context, r *rand.Rand, f Fault) {
	a := &attack{n: n, ctx: ctx, r: r}
	defer a.release()
	if len(f.aims) > 0 {
		a.aim = f.aims[r.IntN(len(f.aims))]
		if !a.take() {
			return
		}
	}
	in, err := f.inject(a)
	if err != nil {
		n.fail("inject %s: %v", f.Name, err)
	}
	if in == nil {
		return
	}
	id := int(n.ids.Add(1))
	n.count(f.Name, a.aim)
	n.o.Record.Write(&history.Fault{
		At: n.o.Record.Now(), ID: id, Name: f.Name, Aim: string(a.aim), Targets: node.Names(in.targets), Detail: in.detail, Momentary: in.momentary,
	})
	if in.momentary {
		return
	}
	hold := in.hold
	if hold == 0 {
		hold = pause.About(r, n.o.Hold)
	}
	pause.For(ctx, hold)
	// The end of the run does not leave a cluster broken.
	healing, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.o.Patience)
	defer cancel()
	if err := in.heal(healing); err != nil {
		n.fail("heal %s on %v: %v", f.Name, node.Names(in.targets), err)
	}
	n.o.Record.Write(&history.FaultEnd{At: n.o.Record.Now(), ID: id})
}

func (n *Nemesis) count(name string, at aim) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[named(name, at)]++
	n.tries.done[name]++
}

// note tells the history something, and returns it.
func (n *Nemesis) note(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	n.o.Record.Write(&history.Note{At: n.o.Record.Now(), Text: text})
	return text
}

func (n *Nemesis) fail(format string, args ...any) {
	text := n.note(format, args...)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = append(n.failed, text)
}

// aim is whom a fault hits.
type aim string

const (
	leader   aim = "leader"
	follower aim = "follower"
	minority aim = "minority"
	majority aim = "majority"
	all      aim = "all"
)

var anyone = []aim{leader, leader, follower, minority, majority, all}

// attack is one fault in the making.
type attack struct {
	n        *Nemesis
	ctx      context.Context
	r        *rand.Rand
	aim      aim
	targets  []*node.Node // claimed
	releases []func()
}

func (a *attack) cluster() *node.Cluster { return a.n.o.Cluster }

func (a *attack) release() {
	for _, f := range a.releases {
		f()
	}
}

// take chooses the targets by the aim and claims them; false: not possible now.
func (a *attack) take() bool {
	voters := a.cluster().Voters()
	a.r.Shuffle(len(voters), func(i, j int) { voters[i], voters[j] = voters[j], voters[i] })
	n := 1
	switch a.aim {
	case leader, follower:
		lead := a.cluster().Leader(a.ctx)
		if lead == nil {
			return false
		}
		i := slices.Index(voters, lead)
		if i < 0 {
			return false
		}
		voters[0], voters[i] = voters[i], voters[0]
		if a.aim == follower {
			voters = voters[1:]
		}
	case minority:
		n = (len(voters) - 1) / 2
	case majority:
		n = len(voters)/2 + 1
	case all:
		n = len(voters)
	}
	return len(voters) >= n && a.claim(voters[:n])
}

// claim makes nodes the attack's own; false: one is somebody else's.
func (a *attack) claim(nodes []*node.Node) bool {
	for _, n := range nodes {
		if !n.TryClaim() {
			return false
		}
		a.releases = append(a.releases, n.Release)
		if s := n.State(); s != history.NodeUp {
			return false
		}
	}
	a.targets = nodes
	return true
}

// claimOnce claims a thing of which there is one.
func (a *attack) claimOnce(flag *atomic.Bool) bool {
	if !flag.CompareAndSwap(false, true) {
		return false
	}
	a.releases = append(a.releases, func() { flag.Store(false) })
	return true
}

// revive starts dead nodes and waits until they are ready.
func revive(ctx context.Context, nodes []*node.Node) error {
	for _, n := range nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := n.WaitReady(ctx); err != nil {
			return err
		}
	}
	return nil
}

func link(from, to *node.Node) network.Link { return network.Link{From: from.Index, To: to.Index} }
