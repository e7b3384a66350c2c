package cluster

import (
	"context"
	"errors"
	flags "flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cantus-bus/cantus/internal/bubble"
	"github.com/cantus-bus/cantus/jepsen/check"
	trace "github.com/cantus-bus/cantus/jepsen/history"
)

var (
	simRuns = flags.Int("sim.runs", 6, "simulated runs of TestSimulation")
	simTime = flags.Duration("sim.time", 10*time.Second, "virtual time under faults of each run of TestSimulation")
	simSeed = flags.Uint64("sim.seed", 0, "seed of the first run; 0: of the clock")
	simSame = flags.Bool("sim.same", false, "all runs of TestSimulation have the same seed")
)

const (
	simCalm     = time.Second // virtual, after them
	simPause    = 100 * time.Millisecond
	simPatience = 60 * time.Second // virtual, for all to be settled then
	simProbe    = time.Minute      // virtual, longer than a probe of gossip that waits for a node which has ended
	simEnough   = 1000             // runs that must come by everything
)

// TestSimulation runs whole nodes in virtual time, over a network and disks that fail, and judges what their clients saw. What
// goroutines do at one moment is not in the seed's hand, so a seed replays the faults and not always the failure.
func TestSimulation(t *testing.T) {
	seed := *simSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	var (
		mu    sync.Mutex
		total check.Counts
		seen  = simCounts{}
	)
	t.Run("runs", func(t *testing.T) {
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			t.Run(fmt.Sprint("worker ", w), func(t *testing.T) {
				t.Parallel()
				for i := w; i < *simRuns && !t.Failed(); i += workers {
					run := simulateOne(t, simSeedOf(seed, i))
					mu.Lock()
					total.Published += run.Published
					total.Deliveries += run.Deliveries
					total.Reads += run.Reads
					total.Faults += run.Faults
					total.Duration += run.Duration
					for name, n := range run.seen {
						seen[name] += n
					}
					mu.Unlock()
				}
			})
		}
	})
	t.Logf("seeds %d to %d: %s\n%s", seed, simSeedOf(seed, *simRuns-1), total, seen)
	if missing := seen.missing(); len(missing) > 0 && *simRuns >= simEnough && !*simSame && !t.Failed() {
		t.Errorf("in %d runs this never happened, so they do not show what they are for: %s", *simRuns, strings.Join(missing, ", "))
	}
}

func simSeedOf(first uint64, run int) uint64 {
	if *simSame {
		return first
	}
	return first + uint64(run)
}

// simRun is what came of a run.
type simRun struct {
	check.Counts
	seen simCounts
}

// simulateOne makes one run that must keep every promise.
func simulateOne(t *testing.T, seed uint64) simRun {
	var c *simCluster
	r, errs, list := simulate(t, seed, func(made *simCluster) { c = made })
	if !r.OK() || len(errs) > 0 || t.Failed() {
		writeSimulated(t, seed, list)
		t.Fatalf("seed %d\n%s\nand %v\nagain with the same faults, 20 times: go test -run '^TestSimulation$' ./cluster -v -sim.same -sim.runs 20 -sim.seed %d -sim.time %v",
			seed, r.String(), errs, seed, *simTime)
	}
	if testing.Verbose() && *simRuns == 1 {
		writeSimulated(t, seed, list)
		t.Log(r.String())
	}
	return simRun{r.Counts, c.seen}
}

// TestSimulationFindsSkippedSyncs: disks that acknowledge before they are durable lose what was acked when all machines fail at
// once. A simulation that did not see that would see nothing.
func TestSimulationFindsSkippedSyncs(t *testing.T) {
	for i := range uint64(50) {
		seed := 2*i + 1 // members stay
		r, errs, _ := simulate(t, seed, func(c *simCluster) {
			c.limit, c.schedule = 12*time.Second, nil
			for at := 3 * time.Second; at < c.limit; at += 3 * time.Second {
				c.schedule = append(c.schedule, simFault{at: at, kind: simKindOf(simCutOfAll)})
			}
			for _, n := range c.nodes {
				n.disk.skips = true
			}
		})
		if !r.OK() || len(errs) > 0 {
			t.Logf("seed %d: %v, and %v", seed, r.Broken(), errs)
			return
		}
	}
	t.Error("never found")
}

// TestFailedBootstrapIsNotRepeated: a node that cannot store its first configuration fails, and does not try again and again without
// a pause.
func TestFailedBootstrapIsNotRepeated(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		c := newSimCluster(t, 0, 1)
		n := c.nodes[0]
		n.disk.broken = errors.New("input/output error")
		n.host = c.net.boot(n.ip)
		node, err := Open(n.options())
		if err != nil {
			t.Fatal(err)
		}
		<-node.Failed()
		time.Sleep(10 * time.Second) // passes at once, unless somebody never rests
		if err := node.Crash(); err != nil {
			t.Log(err)
		}
	})
}

// TestLostBootstrapIsNotRepeated: a founder that has voted for a faster one can store no first configuration, and waits for that one's
// entries without trying again and again.
func TestLostBootstrapIsNotRepeated(t *testing.T) {
	bubble.Test(t, t.Name(), func(t *testing.T) {
		c := newSimCluster(t, 1, simFounders)
		for _, n := range c.nodes {
			if err := n.disk.open().SetUint64([]byte("CurrentTerm"), 1); err != nil {
				t.Fatal(err)
			}
		}
		c.start()
		time.Sleep(10 * time.Second) // passes at once, unless somebody never rests
		for _, n := range c.nodes {
			if p := n.process(); p == nil || p.node.ClusterID() == "" || p.node.raft.LastIndex() > 0 {
				t.Errorf("%s has not come to the start of a cluster, or has not lost it", n.name)
			}
		}
		c.end()
		if len(c.errs) > 0 {
			t.Error(c.errs)
		}
	})
}

// simulate makes one run. errs is what was wrong and no client saw.
func simulate(t *testing.T, seed uint64, change func(*simCluster)) (r check.Report, errs []error, list []trace.Event) {
	t.Helper()
	bubble.Test(t, fmt.Sprintf("simulation with seed %d", seed), func(t *testing.T) {
		c := newSimCluster(t, seed, simFounders)
		if change != nil {
			change(c)
		}
		c.start()
		c.run(seed)
		var err error
		r, err = check.All(&trace.Memory{Head: simHeader(seed), List: c.list})
		if err != nil {
			t.Error(err)
		}
		errs, list = c.errs, c.list
	})
	return r, errs, list
}

func simHeader(seed uint64) trace.Header {
	return trace.Header{Seed: seed, Workload: "simulation", Linearizable: []string{"reg/**"}}
}

// run lets clients work under faults, heals everything, and waits until it is settled.
func (c *simCluster) run(seed uint64) {
	publishing, stopPublishing := context.WithCancel(context.Background())
	reading, stopReading := context.WithCancel(context.Background())
	var publishers, going sync.WaitGroup
	for i := range 4 {
		p := c.newPublisher(i, seed)
		publishers.Go(func() { p.run(publishing) })
	}
	for i := range 3 {
		r := &simRegister{p: c.newPublisher(10+i, seed), rng: rand.New(rand.NewPCG(seed, uint64(300+i)))}
		publishers.Go(func() { r.run(publishing) })
	}
	var readers []*simReader
	for i, filters := range []string{"**", "**", "app/**", "app/b,other/**", "none/**"} {
		r := c.newReader(i, seed, strings.Split(filters, ",")...)
		readers = append(readers, r)
		going.Go(func() { r.run(reading) })
	}
	going.Go(func() { c.scan(reading, seed) })
	c.nemesis(c.schedule, c.limit)
	time.Sleep(simCalm)
	stopPublishing()
	publishers.Wait()
	v := c.settle(simPatience)
	c.record(v)
	time.Sleep(simPause)
	close(c.quiet)
	for _, r := range readers {
		for end := time.Now().Add(simPatience); r.after.Load() < v.Nodes[0].Seq && time.Now().Before(end); {
			time.Sleep(simPause)
		}
	}
	stopReading()
	going.Wait()
	c.record(&trace.End{At: c.now()})
	c.end()
}

// end closes all nodes.
func (c *simCluster) end() {
	var closing sync.WaitGroup
	for _, n := range c.nodes {
		closing.Go(func() { n.leave(false) })
	}
	closing.Wait()
	c.watching.Wait()
	time.Sleep(simProbe) // in a bubble time stands still when this goroutine has ended
}

// writeSimulated leaves the history of a run that failed, for people.
func writeSimulated(t *testing.T, seed uint64, list []trace.Event) {
	w, err := trace.Create(fmt.Sprintf("%s/simulation-%d.jsonl", os.TempDir(), seed), simHeader(seed))
	if err != nil {
		t.Error(err)
		return
	}
	for _, e := range list {
		if _, end := e.(*trace.End); !end {
			w.Write(e)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
