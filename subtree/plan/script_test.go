package plan

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cantus-bus/cantus/internal/topic"
)

// script is the state of one file of commands:
//
//	plan [budget=N] [even] [max=N] [min=BYTES] [keep]   plans the volumes of the input, lines of "topic bytes [times]" (times: a %d in
//	                                                    the topic runs from 1), and prints the stores; keep: with the last plans in force
//	store                                               prints the store of each topic of the input
//	bytes                                               prints the encoded plan of the input's partition
type script struct {
	plans []*Plan
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "plan":
				return s.plan(t, d)
			case "store":
				return s.store(d)
			case "bytes":
				return s.bytes(d)
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

func parseVolumes(t *testing.T, input string) (list []Volume) {
	for _, line := range strings.Split(strings.TrimSpace(input), "\n") {
		f := strings.Fields(line)
		bytes, err := strconv.ParseUint(f[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if len(f) == 2 {
			list = append(list, Volume{f[0], 1, bytes})
			continue
		}
		times, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		for i := range times {
			list = append(list, Volume{fmt.Sprintf(f[0], i+1), 1, bytes})
		}
	}
	return list
}

func (s *script) plan(t *testing.T, d *datadriven.TestData) string {
	table, err := TableOf(parseVolumes(t, d.Input))
	if err != nil {
		return err.Error()
	}
	o := Options{Even: d.HasArg("even")}
	d.MaybeScanArgs(t, "budget", &o.Budget)
	d.MaybeScanArgs(t, "max", &o.MaxStores)
	d.MaybeScanArgs(t, "min", &o.MinStoreBytes)
	previous := s.plans
	if !d.HasArg("keep") {
		previous = nil
	}
	r, err := Compute(table, previous, o)
	if err != nil {
		return err.Error()
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d stores of %d, %d plans kept\n", r.Stores, r.Budget, r.Kept)
	for _, p := range r.Plans {
		printPlan(&out, table, p)
	}
	if previous != nil {
		moved, all := movedBytes(table, previous, r.Plans)
		fmt.Fprintf(&out, "moved: %d of %d bytes\n", moved, all)
	}
	s.plans = r.Plans
	return out.String()
}

// printPlan names at most six rules of a store.
func printPlan(out *strings.Builder, t *topic.Table, p *Plan) {
	fmt.Fprintf(out, "%s\n", p.Partition())
	stores := make([]struct{ topics, bytes uint64 }, p.Len())
	for id := range topic.ID(t.Nodes()) {
		if i := p.StoreOf(t.Name(id)); t.IsTopic(id) && i >= 0 {
			_, bytes, _ := t.Stats(id)
			stores[i].topics++
			stores[i].bytes += bytes
		}
	}
	for i, s := range stores {
		rules := p.RulesOf(i)
		if n := len(rules); n > 6 {
			rules = append(rules[:5], fmt.Sprintf("and %d more", n-5))
		}
		fmt.Fprintf(out, "  %d: %d topics, %d bytes: %s\n", p.ID(i), s.topics, s.bytes, strings.Join(rules, ", "))
	}
}

// storeID is the id of a topic's store; plans are looked through one by one.
func storeID(plans []*Plan, name string) uint32 {
	for _, p := range plans {
		if i := p.StoreOf(name); i >= 0 {
			return p.ID(i)
		}
	}
	return 0 // the Default plan's
}

// movedBytes counts the bytes of topics whose store has another id in the new plans.
func movedBytes(t *topic.Table, old, fresh []*Plan) (moved, all uint64) {
	for id := range topic.ID(t.Nodes()) {
		if !t.IsTopic(id) {
			continue
		}
		_, bytes, _ := t.Stats(id)
		all += bytes
		if storeID(old, t.Name(id)) != storeID(fresh, t.Name(id)) {
			moved += bytes
		}
	}
	return moved, all
}

func (s *script) store(d *datadriven.TestData) string {
	var out strings.Builder
	for _, name := range strings.Split(d.Input, "\n") {
		found := "no plan"
		for _, p := range s.plans {
			if i := p.StoreOf(name); i >= 0 {
				found = fmt.Sprintf("store %d of %s", p.ID(i), p.Partition())
			}
		}
		fmt.Fprintf(&out, "%s: %s\n", name, found)
	}
	return out.String()
}

func (s *script) bytes(d *datadriven.TestData) string {
	for _, p := range s.plans {
		if p.Partition() == d.Input {
			return annotate(p.Append(nil))
		}
	}
	return "no plan"
}

// annotate prints encoded bytes with what each field is, read by the drawing in codec.go and not by Decode.
func annotate(src []byte) string {
	var out strings.Builder
	field := func(n int, format string, args ...any) {
		fmt.Fprintf(&out, "%-30s %s\n", fmt.Sprintf("%x", src[:n]), fmt.Sprintf(format, args...))
		src = src[n:]
	}
	number := func(what string) int {
		v, n := binary.Uvarint(src)
		field(n, "%s %d", what, v)
		return int(v)
	}
	text := func(what string, n int) { field(n, "%s %q", what, src[:n]) }
	number("version")
	text("partition", number("path length"))
	for range number("stores") {
		number("  id, from the one before")
	}
	for range number("rules") {
		number("  path shares")
		if n := number("  path adds"); n > 0 {
			text("  path", n)
		}
		kind, n := Kind(src[0]), 1
		field(1, "  kind %s", kind)
		if kind == Spread {
			n = number("  parts")
		}
		for range n {
			number("    store")
		}
	}
	fmt.Fprintf(&out, "%d bytes left\n", len(src))
	return out.String()
}
