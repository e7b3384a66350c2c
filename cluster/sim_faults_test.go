package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	trace "github.com/cantus-bus/cantus/jepsen/history"
)

const (
	simGap    = 1400 * time.Millisecond // between two faults, at most
	simCalmly = time.Second             // most runs have so long without faults in the beginning
	simStall  = 3 * time.Second         // a write that takes longer fails the node
	simChange = time.Minute             // in which a change of members must be over, once all is mended
)

// What runs come by besides faults, counted.
const (
	simSeenSnapshot    = "snapshot made"
	simSeenRestore     = "start from a snapshot"
	simSeenCatchUp     = "catch-up by files"
	simSeenWindow      = "history has windows"
	simSeenPlan        = "history has stores"
	simSeenHistoryRead = "history read"
	simSeenCut         = "log cut behind a snapshot"
	simSeenTail        = "log's end overwritten"
	simSeenLost        = "writes lost in a power cut"
	simSeenKept        = "unsynced writes that a power cut left"
	simSeenFull        = "write of history refused"
	simSeenFailed      = "node ended by its disk"
	simSeenPromoted    = "new node votes"
)

// simFault is one fault of a schedule. Its numbers mean what its kind makes of them.
type simFault struct {
	at     time.Duration
	kind   int // of simKinds
	node   int // of the first members
	other  int // another one
	lasts  time.Duration
	amount float64 // 0 to 1
}

func (f simFault) String() string {
	return fmt.Sprintf("at n%d, n%d for %v, %.3f", f.node+1, f.other+1, f.lasts, f.amount)
}

// simKind is a kind of fault. do begins one and returns what ends it, nil if it could not be done.
type simKind struct {
	name        string
	weight      int
	least, most time.Duration
	members     bool // only in runs in which members change
	do          func(c *simCluster, f simFault) (end func())
}

const simCutOfAll = "power cut of all"

func simKindOf(name string) int {
	return slices.IndexFunc(simKinds(), func(k simKind) bool { return k.name == name })
}

// simKinds are all kinds.
func simKinds() []simKind {
	const ms = time.Millisecond
	return []simKind{
		{name: "power cut", weight: 3, most: 2500 * ms, do: func(c *simCluster, f simFault) func() { return c.crash(f, c.nodes[f.node]) }},
		{name: simCutOfAll, weight: 1, most: 2000 * ms, do: func(c *simCluster, f simFault) func() { return c.crash(f, c.nodes...) }},
		{name: "power cut of the leader", weight: 2, most: 2500 * ms, do: func(c *simCluster, f simFault) func() {
			if n := c.leader(); n != nil {
				return c.crash(f, n)
			}
			return nil
		}},
		{name: "node cut off", weight: 2, least: 500 * ms, most: 4000 * ms, do: (*simCluster).isolate},
		{name: "cut one way", weight: 2, least: 500 * ms, most: 4000 * ms, do: (*simCluster).cutOneWay},
		{name: "pause below the election timeout", weight: 1, least: 700 * ms, most: 990 * ms, do: (*simCluster).pause},
		{name: "pause", weight: 2, least: 1000 * ms, most: 5000 * ms, do: (*simCluster).pause},
		{name: "clock jump", weight: 1, most: 3000 * ms, do: (*simCluster).jump},
		{name: "slow network", weight: 1, least: 300 * ms, most: 2500 * ms, do: (*simCluster).slowNetwork},
		{name: "slow disk", weight: 1, least: 300 * ms, most: 2500 * ms, do: (*simCluster).slowDisk},
		{name: "disk errors", weight: 1, most: 1500 * ms, do: (*simCluster).breakDisk},
		{name: "disk full", weight: 2, least: 500 * ms, most: 3000 * ms, do: (*simCluster).fillDisk},
		{name: "transfer of the leadership", weight: 1, do: (*simCluster).transfer},
		{name: "node added", weight: 6, members: true, do: (*simCluster).addNode},
		{name: "node removed", weight: 4, members: true, do: (*simCluster).removeNode},
		{name: "disk replaced", weight: 4, most: 1000 * ms, members: true, do: (*simCluster).replaceDisk},
	}
}

// simSchedule draws the faults of a run: a function of its arguments, and of nothing that happens in the run.
func simSchedule(seed uint64, limit time.Duration, members bool) (list []simFault) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var bag []int
	kinds := simKinds()
	for i, k := range kinds {
		if members || !k.members {
			bag = append(bag, slices.Repeat([]int{i}, k.weight)...)
		}
	}
	at := time.Duration(0)
	if rng.IntN(4) > 0 {
		at = simCalmly
	}
	for {
		if at += time.Duration(rng.Int64N(int64(simGap))); at >= limit {
			return list
		}
		f := simFault{at: at, kind: bag[rng.IntN(len(bag))], node: rng.IntN(simFounders), amount: rng.Float64()}
		f.other = (f.node + 1 + rng.IntN(simFounders-1)) % simFounders
		k := kinds[f.kind]
		f.lasts = k.least + time.Duration(rng.Float64()*float64(k.most-k.least))
		list = append(list, f)
	}
}

// nemesis does what the schedule says and takes all of it back in the end.
func (c *simCluster) nemesis(schedule []simFault, limit time.Duration) {
	var going sync.WaitGroup
	over := make(chan struct{})
	kinds := simKinds()
	for i, f := range schedule {
		time.Sleep(f.at - c.now())
		k := kinds[f.kind]
		c.record(&trace.Fault{At: c.now(), ID: i + 1, Name: k.name, Detail: f.String(), Momentary: true})
		going.Go(func() {
			end := k.do(c, f)
			if end == nil {
				return
			}
			c.count(k.name)
			c.noteQuorum()
			select {
			case <-time.After(f.lasts):
			case <-over:
			}
			end()
			c.noteQuorum()
		})
	}
	time.Sleep(limit - c.now())
	close(over)
	going.Wait()
	c.net.mend()
	c.noteQuorum()
}

// crash cuts the power of machines at one moment. They start again one after the other.
func (c *simCluster) crash(f simFault, nodes ...*simNode) func() {
	var stopping sync.WaitGroup
	down := make([]bool, len(nodes))
	for i, n := range nodes {
		stopping.Go(func() { down[i] = n.stop(true) })
	}
	stopping.Wait()
	if !slices.Contains(down, true) {
		return nil
	}
	return func() {
		for i, n := range nodes {
			if down[i] {
				n.start()
				time.Sleep(time.Duration(f.amount * float64(200*time.Millisecond)))
			}
		}
	}
}

// isolate cuts a node off from all others.
func (c *simCluster) isolate(f simFault) func() {
	n := c.nodes[f.node]
	set := func(cut bool) {
		for _, o := range c.nodes {
			if o != n {
				c.net.setCut(n.ip, o.ip, cut)
				c.net.setCut(o.ip, n.ip, cut)
			}
		}
	}
	set(true)
	return func() { set(false) }
}

func (c *simCluster) cutOneWay(f simFault) func() {
	from, to := c.nodes[f.node].ip, c.nodes[f.other].ip
	c.net.setCut(from, to, true)
	return func() { c.net.setCut(from, to, false) }
}

func (c *simCluster) pause(f simFault) func() {
	n := c.nodes[f.node]
	if n.process() == nil {
		return nil
	}
	n.pause()
	return n.resume
}

// jump sets a machine's clock, and back.
func (c *simCluster) jump(f simFault) func() {
	n := c.nodes[f.node]
	n.skew.Store(int64((f.amount - 0.5) * float64(6*time.Hour)))
	return func() { n.skew.Store(0) }
}

func (c *simCluster) slowNetwork(f simFault) func() {
	c.net.setLatency(time.Duration(f.amount * float64(300*time.Millisecond)))
	return func() { c.net.setLatency(simLatency) }
}

func (c *simCluster) slowDisk(f simFault) func() {
	d := c.nodes[f.node].disk
	d.setSync(time.Duration(f.amount * float64(500*time.Millisecond)))
	return func() { d.setSync(simSync) }
}

// breakDisk makes the log's writes fail, and history's with them.
func (c *simCluster) breakDisk(f simFault) func() {
	d := c.nodes[f.node].disk
	d.setBroken(syscall.EIO)
	return func() { d.setBroken(nil) }
}

func (c *simCluster) fillDisk(f simFault) func() {
	n := c.nodes[f.node]
	n.full.Store(true)
	return func() { n.full.Store(false) }
}

func (c *simCluster) transfer(f simFault) func() {
	n := c.leader()
	if n == nil {
		return nil
	}
	p := n.hold()
	if p == nil {
		return nil
	}
	defer p.readers.Done()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	to := ""
	if o := c.nodes[f.other].process(); o != nil && f.amount < 0.5 {
		to = o.node.NodeID()
	}
	if err := p.node.TransferLeader(ctx, to); errors.Is(err, ErrNoNode) {
		return nil
	}
	return func() {}
}

// simCounts counts what happened, by name.
type simCounts map[string]int

func (s simCounts) String() (text string) {
	for _, name := range slices.Sorted(maps.Keys(s)) {
		text += fmt.Sprintf("%8d %s\n", s[name], name)
	}
	return text
}

// missing are the kinds that never happened of those that simulation is there for.
func (s simCounts) missing() (list []string) {
	all := []string{simSeenSnapshot, simSeenRestore, simSeenCatchUp, simSeenWindow, simSeenPlan, simSeenHistoryRead, simSeenCut, simSeenTail,
		simSeenLost, simSeenKept, simSeenFull, simSeenFailed, simSeenPromoted}
	for _, k := range simKinds() {
		all = append(all, k.name)
	}
	return slices.DeleteFunc(all, func(name string) bool { return s[name] > 0 })
}

func (c *simCluster) count(name string) { c.countIf(name, true) }

func (c *simCluster) countIf(name string, happened bool) {
	if happened {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.seen[name]++
	}
}

// TestSimulatedFaultsAreTheSeeds: a seed that has failed brings the same faults at the same moments again.
func TestSimulatedFaultsAreTheSeeds(t *testing.T) {
	const seed = 12 // members change
	faults := func() (list []trace.Fault) {
		_, _, events := simulate(t, seed, nil)
		for _, e := range events {
			if f, ok := e.(*trace.Fault); ok {
				list = append(list, *f)
			}
		}
		return list
	}
	first := faults()
	again := faults()
	if len(first) < 3 || !slices.EqualFunc(first, again, func(a, b trace.Fault) bool {
		return a.At == b.At && a.Name == b.Name && a.Detail == b.Detail
	}) {
		t.Errorf("%d faults and then %d, not the same:\n%v\n%v", len(first), len(again), first, again)
	}
}
