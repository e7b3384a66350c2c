package nemesis

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// turns is how often faults were chosen, and how often that came to something: not each is possible at any time, and not each step is
// come by when it is waited for.
type turns struct {
	tried, done map[string]int // by name
	aimed       map[string]int // tries by name and aim
}

// next is the fault whose turn it is: the one done least often, of these one tried least often, and then chance. false: each was done so
// many times. Whom it hits takes turns, too.
func (t *turns) next(r *rand.Rand, mix []Fault, each int) (Fault, bool) {
	order := func(f, g Fault) int {
		return cmp.Or(cmp.Compare(t.done[f.Name], t.done[g.Name]), cmp.Compare(t.tried[f.Name], t.tried[g.Name]))
	}
	if len(mix) == 0 {
		return Fault{}, false
	}
	first := slices.MinFunc(mix, order)
	if t.done[first.Name] >= each {
		return Fault{}, false
	}
	mix = slices.DeleteFunc(slices.Clone(mix), func(f Fault) bool { return order(f, first) != 0 })
	f := mix[r.IntN(len(mix))]
	if len(f.aims) > 0 {
		f.aims = []aim{slices.MinFunc(f.aims, func(a, b aim) int { return cmp.Compare(t.aimed[named(f.Name, a)], t.aimed[named(f.Name, b)]) })}
		t.aimed[named(f.Name, f.aims[0])]++
	}
	return f, true
}

// named is a fault's name with whom it hits.
func named(fault string, a aim) string { return strings.TrimSuffix(fault+" "+string(a), " ") }

// choose chooses a fault; false: there is none, or none is wanted any more.
func (n *Nemesis) choose(r *rand.Rand) (f Fault, ok bool) {
	if len(n.o.Mix) == 0 {
		return Fault{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.o.Each == 0 {
		f = n.o.Mix[r.IntN(len(n.o.Mix))]
	} else if f, ok = n.tries.next(r, n.o.Mix, n.o.Each); !ok {
		return f, false
	}
	n.tries.tried[f.Name]++
	return f, true
}

// Tried says how often each fault was chosen, whatever that came to.
func (n *Nemesis) Tried() map[string]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.tries.tried)
}

// Missing lists the faults that were not injected as often as Options.Each wants.
func (n *Nemesis) Missing() (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range n.o.Mix {
		if n.tries.done[f.Name] < n.o.Each {
			names = append(names, f.Name)
		}
	}
	return names
}
