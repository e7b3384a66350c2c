package check

import (
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/jepsen/history"
)

// garden is a good history that a fault is planted into.
type garden struct {
	*history.Memory
	rng *rand.Rand
}

// plants are faults, one for each way to break a promise. Each returns false if the history has no place for it.
var plants = []struct {
	breaks Name
	what   string
	plant  func(g *garden) bool
}{
	{Lost, "an acked message that nobody gets", plantLost},
	{Lost, "an acked message with another one in its place", plantReplaced},
	{Twice, "a delivery repeated", plantRepeat},
	{Order, "two deliveries swapped", plantSwap},
	{Foreign, "a message of another filter", plantForeign},
	{Foreign, "a message before the start", plantBefore},
	{Missing, "a message that one reader does not get", plantMissing},
	{Chain, "a wrong link to the match before", plantChain},
	{Dense, "a seq left out", plantHole},
	{Disagree, "two messages swapped for one reader", plantDisagree},
	{Disagree, "an ack with another message's seq", plantWrongAck},
	{Disagree, "two acks for one seq", plantTwoAcks},
	{Progress, "a mark ahead of a delivery", plantMark},
	{CaughtUp, "caught-up before the last match", plantCaughtUp},
	{CaughtUp, "caught-up twice", plantCaughtUpTwice},
	{Refused, "a refused publish in the stream", plantRefused},
	{Phantom, "a message that nobody published", plantPhantom},
	{Phantom, "a payload that was changed", plantPayload},
	{Producer, "two messages of a producer swapped", plantProducer},
	{RealTime, "an ack before an earlier seq's publish", plantRealTime},
	{Conditions, "a precondition that did not hold", plantCondition},
	{Stale, "a read of what was replaced", plantStale},
	{Stale, "a read of all without one", plantStaleEach},
	{Money, "a coin lost", plantCoin},
	{Linear, "a linearizable read of an old value", plantLinear},
	{Digests, "a replica that differs", plantDigest},
	{Digests, "a replica that is behind", plantBehind},
	{Availability, "twenty seconds without an ack", plantSilence},
	{Stuck, "a reader that gets nothing any more", plantStuck},
	{Stuck, "a reader that ends with an error", plantEnd},
}

// TestPlantedFaults: exactly the check that a fault concerns speaks, and it shows lines.
func TestPlantedFaults(t *testing.T) {
	covered := map[Name]bool{Torn: true} // planted in the world, below
	for _, p := range plants {
		covered[p.breaks] = true
		t.Run(string(p.breaks)+"/"+p.what, func(t *testing.T) {
			const wanted, tries = 25, 2000 // not every history has a place for every fault
			planted := 0
			for seed := uint64(0); planted < wanted && seed < tries; seed++ {
				g := &garden{generate(seed), rand.New(rand.NewPCG(seed, 2))}
				if !p.plant(g) {
					continue
				}
				planted++
				mustBreak(t, g.Memory, p.breaks)
			}
			if planted < wanted {
				t.Errorf("planted only %d times", planted)
			}
		})
	}
	for _, p := range promises {
		if !covered[p.name] {
			t.Errorf("no fault is planted for %s", p.name)
		}
	}
}

func mustBreak(t rapid.TB, h history.Source, name Name) {
	r := judge(t, h)
	if got := r.Broken(); !slices.Equal(got, []Name{name}) {
		t.Fatalf("broken: %v, want only %s\n%s", got, name, r.String())
	}
	for _, v := range r.Checks {
		for _, x := range v.Examples {
			if len(x.Evidence) == 0 {
				t.Fatalf("%s: nothing to show for %q", v.Name, x.Seen)
			}
		}
	}
}

// TestTornBatch plants a batch with another message inside, which no change of a finished history could do alone.
func TestTornBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		w := newWorld(seed)
		w.run(40)
		b := w.call("app/a", "app/b")
		x := w.call("app/a")
		x.Producer = "other"
		b.Outcome, x.Outcome = history.Unknown, history.Unknown
		first, second := *b, *b
		first.Messages, second.Messages = b.Messages[:1], b.Messages[1:]
		order := []*history.Publish{&first, x, &second}
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 1:
			order = []*history.Publish{&second, &first} // turned around
		case 2:
			order = []*history.Publish{&first, x} // half of it
		}
		if order[0] == &second { // its producer's order is broken too, unless it promises none
			b.Producer = ""
		}
		for _, p := range order {
			w.execute(p)
		}
		w.run(40)
		mustBreak(t, w.history(), Torn)
	})
}

// pick returns the place of a random event of a type that want accepts; -1 if there is none.
func pick[E history.Event](g *garden, want func(E) bool) (int, E) {
	var places []int
	var none E
	for i, e := range g.List {
		if e, ok := e.(E); ok && want(e) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return -1, none
	}
	i := places[g.rng.IntN(len(places))]
	return i, g.List[i].(E)
}

// change puts an event in the place of another, which stays as it was.
func (g *garden) insert(i int, e history.Event) { g.List = slices.Insert(g.List, i, e) }

func (g *garden) remove(drop func(history.Event) bool) { g.List = slices.DeleteFunc(g.List, drop) }

// plain accepts publishes of one message without conditions that no read asks for.
func plain(outcome history.Outcome) func(*history.Publish) bool {
	return func(p *history.Publish) bool {
		return p.Outcome == outcome && len(p.Messages) == 1 && len(p.Pre) == 0 && p.Messages[0].Topic[:4] == "app/"
	}
}

// stream is the deliveries of the reader of everything, by seq.
func (g *garden) stream() map[uint64]*history.Delivery {
	m := map[uint64]*history.Delivery{}
	for _, e := range g.List {
		if d, ok := e.(*history.Delivery); ok && d.Reader == 0 {
			m[d.Seq] = d
		}
	}
	return m
}

// seqOf is where an id stands; 0: nowhere.
func (g *garden) seqOf(id uint64) uint64 {
	for seq, d := range g.stream() {
		if d.ID == id {
			return seq
		}
	}
	return 0
}

func (g *garden) publishOf(id uint64) *history.Publish {
	for _, e := range g.List {
		if p, ok := e.(*history.Publish); ok && slices.ContainsFunc(p.Messages, func(m history.Sent) bool { return m.ID == id }) {
			return p
		}
	}
	return nil
}

// relink makes the chains say what was delivered.
func (g *garden) relink() {
	prev := map[int]uint64{}
	for _, e := range g.List {
		switch e := e.(type) {
		case *history.ReaderOpened:
			prev[e.Reader] = e.Base
		case *history.Delivery:
			e.Prev = prev[e.Reader]
			prev[e.Reader] = e.Seq
		}
	}
}

// link is a delivery after which its reader has another, with none of its marks between.
func (g *garden) neighbours() (i, j int) {
	i, d := pick(g, func(d *history.Delivery) bool { return true })
	for j := i + 1; j < len(g.List); j++ {
		switch e := g.List[j].(type) {
		case *history.Delivery:
			if e.Reader == d.Reader {
				return i, j
			}
		case *history.Progress:
			if e.Reader == d.Reader {
				return -1, -1
			}
		case *history.CaughtUp:
			if e.Reader == d.Reader {
				return -1, -1
			}
		case *history.ReaderResumed:
			if e.Reader == d.Reader {
				return -1, -1
			}
		}
	}
	return -1, -1
}
