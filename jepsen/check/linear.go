package check

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/jepsen/history"
)

// linearTime bounds the search for one group of topics that operations tie together.
const linearTime = 20 * time.Second

// maxLinearOps bounds the operations of a group. The search keeps states in memory, so it is bounded by this.
const maxLinearOps = 50_000

// linear collects the operations that must have one order, and searches for it. The model is a set of registers, one for
// each topic, that hold the id of the last message: a publish writes some if its preconditions hold, a read reads some.
// Registers and bank accounts alike are that.
type linear struct {
	l       *ledger
	filters topic.Filters // nil: nothing to check
	ops     []linearOp
	skipped int
}

type linearOp struct {
	line        int
	call, ret   time.Duration
	unseen      bool // of unknown fate, and nobody saw what it writes
	pre, writes []register
	reads       []register
}

// register is a topic and the id of its last message; 0: none.
type register struct {
	topic uint32
	id    uint64
}

func newLinear(l *ledger, filters topic.Filters) *linear { return &linear{l: l, filters: filters} }

func (c *linear) observe(line int, e history.Event) {
	if c.filters == nil {
		return
	}
	switch e := e.(type) {
	case *history.Publish:
		c.publish(line, e)
	case *history.Read:
		if e.Lin && e.Outcome == history.OK {
			c.read(line, e)
		}
	}
}

func (c *linear) publish(line int, p *history.Publish) {
	if len(p.Messages) == 0 || !c.filters.Match(p.Messages[0].Topic) {
		return
	}
	op := linearOp{line: line, call: p.Invoke, ret: p.Return}
	for _, pre := range p.Pre {
		id, ok := c.idAt(pre.LastSeq)
		if !ok {
			c.skipped++
			return
		}
		op.pre = append(op.pre, register{c.l.topic(pre.Topic), id})
	}
	for _, m := range p.Messages {
		op.writes = append(op.writes, register{c.l.topic(m.Topic), m.ID})
	}
	switch p.Outcome {
	case history.OK:
	case history.Refused:
		if !p.Failed || p.FailedIndex >= len(p.Pre) {
			return // says nothing
		}
		id, ok := c.idAt(p.FailedSeq)
		if !ok {
			c.skipped++
			return
		}
		op.writes, op.pre = nil, nil
		op.reads = []register{{c.l.topic(p.Pre[p.FailedIndex].Topic), id}}
	default:
		op.ret = math.MaxInt64
		op.unseen = !c.seen(p)
	}
	c.ops = append(c.ops, op)
}

// seen says that somebody saw a publish's messages.
func (c *linear) seen(p *history.Publish) bool {
	for _, m := range p.Messages {
		if got := c.l.messages.get(m.ID); got != nil && got.seq != 0 {
			return true
		}
	}
	return false
}

// idAt is the id of the message at a seq; 0 for seq 0. False: nobody knows.
func (c *linear) idAt(seq uint64) (uint64, bool) {
	if seq == 0 {
		return 0, true
	}
	p := c.l.places.get(seq)
	if !p.claimed() {
		return 0, false
	}
	return p.idAt(), true
}

func (c *linear) read(line int, r *history.Read) {
	op := linearOp{line: line, call: r.Invoke, ret: r.Return}
	found := map[string]uint64{}
	for _, f := range r.Found {
		found[f.Topic] = f.ID
	}
	switch r.Op {
	case history.ReadLast:
		if !c.filters.Match(r.Topic) {
			return
		}
		op.reads = []register{{c.l.topic(r.Topic), found[r.Topic]}}
	case history.ReadEach:
		filters, err := topic.ParseFilters(r.Filters)
		if err != nil {
			return
		}
		for t, name := range c.l.topics {
			if c.filters.Match(name) && filters.Match(name) {
				op.reads = append(op.reads, register{uint32(t), found[name]})
			}
		}
	}
	if len(op.reads) > 0 && r.AsOf == 0 {
		c.ops = append(c.ops, op)
	}
}

// registers are all that an operation touches.
func (o *linearOp) registers() []register { return slices.Concat(o.pre, o.writes, o.reads) }

// groups sorts the operations into those that share no topic.
func (c *linear) groups() [][]linearOp {
	parent := make([]uint32, len(c.l.topics))
	for i := range parent {
		parent[i] = uint32(i)
	}
	root := func(t uint32) uint32 {
		for parent[t] != t {
			parent[t] = parent[parent[t]]
			t = parent[t]
		}
		return t
	}
	for i := range c.ops {
		all := c.ops[i].registers()
		for _, r := range all[1:] {
			parent[root(r.topic)] = root(all[0].topic)
		}
	}
	byRoot := map[uint32][]linearOp{}
	var order []uint32
	for _, op := range c.ops {
		t := root(op.registers()[0].topic)
		if byRoot[t] == nil {
			order = append(order, t)
		}
		byRoot[t] = append(byRoot[t], op)
	}
	groups := make([][]linearOp, len(order))
	for i, t := range order {
		groups[i] = byRoot[t]
	}
	return groups
}

// finish searches. Operations of unknown fate that left no trace although somebody read all of their topic do not widen
// the search.
func (c *linear) finish(rs *readers) {
	out := c.l.out
	c.ops = slices.DeleteFunc(c.ops, func(o linearOp) bool { return o.unseen && rs.readAll(o.writes[0].topic) })
	if c.skipped > 0 {
		out.note("%d conditional publishes name seqs that nobody saw: they are left out of the search for one order", c.skipped)
	}
	for _, ops := range c.groups() {
		out.looked(Linear, uint64(len(ops)))
		if len(ops) > maxLinearOps {
			out.verdicts[Linear].Undecided = "more operations on a group of topics than the search can hold"
			continue
		}
		c.search(ops)
	}
}

// search looks for an order of a group's operations.
func (c *linear) search(ops []linearOp) {
	slots := map[uint32]int{} // place of a topic's register in the state
	list := make([]porcupine.Operation, len(ops))
	for i := range ops {
		for _, r := range ops[i].registers() {
			if _, ok := slots[r.topic]; !ok {
				slots[r.topic] = len(slots)
			}
		}
		list[i] = porcupine.Operation{Input: &ops[i], Call: int64(ops[i].call), Return: int64(ops[i].ret)}
	}
	model := porcupine.Model{
		Init: func() any { return string(make([]byte, 8*len(slots))) },
		Step: func(state, input, _ any) (bool, any) { return step(state.(string), input.(*linearOp), slots) },
	}
	result, info := porcupine.CheckOperationsVerbose(model, list, linearTime)
	switch result {
	case porcupine.Unknown:
		c.l.out.verdicts[Linear].Undecided = "the search for one order was not over in " + linearTime.String()
	case porcupine.Illegal:
		c.report(ops, &info)
	}
}

// step applies an operation to the registers. False: it cannot have happened in this state.
func step(state string, op *linearOp, slots map[uint32]int) (bool, any) {
	holds := func(r register) bool {
		at := 8 * slots[r.topic]
		return binary.LittleEndian.Uint64([]byte(state[at:at+8])) == r.id
	}
	for _, r := range op.reads {
		if !holds(r) {
			return false, state
		}
	}
	for _, r := range op.pre {
		if !holds(r) {
			// One that was acked cannot have happened; one of unknown fate may have been refused.
			return op.ret == math.MaxInt64, state
		}
	}
	if len(op.writes) == 0 {
		return true, state
	}
	next := []byte(state)
	for _, r := range op.writes {
		binary.LittleEndian.PutUint64(next[8*slots[r.topic]:], r.id)
	}
	return true, string(next)
}

// report shows where the longest order that could be made breaks off.
func (c *linear) report(ops []linearOp, info *porcupine.LinearizationInfo) {
	var longest []porcupine.Operation
	for _, group := range info.PartialLinearizationsOperations() {
		for _, order := range group {
			if len(order) > len(longest) {
				longest = order
			}
		}
	}
	placed := map[int]bool{}
	var lines []int
	for i, o := range longest {
		line := o.Input.(*linearOp).line
		placed[line] = true
		if i >= len(longest)-4 {
			lines = append(lines, line)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(ops), func(o linearOp) bool { return placed[o.line] })
	slices.SortFunc(rest, func(a, b linearOp) int { return int(a.ret - b.ret) })
	for _, o := range rest {
		lines = append(lines, o.line)
	}
	c.l.out.found(Linear, lines, "no order explains %d operations on %d topics: the longest one places %d; shown are its last, then those that could not follow, soonest returned first",
		len(ops), c.topics(ops), len(longest))
}

func (c *linear) topics(ops []linearOp) int {
	set := map[uint32]bool{}
	for i := range ops {
		for _, r := range ops[i].registers() {
			set[r.topic] = true
		}
	}
	return len(set)
}
