package check

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cantus-bus/cantus/internal/topic"
	"github.com/cantus-bus/cantus/jepsen/history"
)

// world is a cluster that keeps every promise, and what clients do with it. Its topics:
//
//	app/a app/b app/b/c   messages of producers, single or in atomic batches
//	cond/x                conditional batches, not judged by porcupine
//	last/x last/y         messages that point reads ask for
//	reg/a reg/b           registers, judged by porcupine
//	bank/0 bank/1 bank/2  accounts
type world struct {
	rng     *rand.Rand
	now     time.Duration
	seq     uint64
	ids     uint64
	last    map[string]entry
	numbers map[string]uint64
	stream  []entry
	whole   []uint64 // seqs at which no batch is halfway
	events  []history.Event
	readers int
}

// entry is a message of the stream.
type entry struct {
	at    time.Duration
	seq   uint64
	id    uint64
	topic string
	value int64
}

const accounts, total = 3, 300

func newWorld(seed uint64) *world {
	return &world{rng: rand.New(rand.NewPCG(seed, 1)), now: time.Second, last: map[string]entry{}, numbers: map[string]uint64{}}
}

// generate makes a good history.
func generate(seed uint64) *history.Memory {
	w := newWorld(seed)
	w.run(120)
	return w.history()
}

func (w *world) run(steps int) {
	w.add(&history.Phase{Name: history.PhaseSetup}, &history.Quorum{At: time.Second / 2, Up: true})
	w.transfer(true)
	for range steps {
		w.step()
	}
}

// history lets the readers read and puts everything in order.
func (w *world) history() *history.Memory {
	mid := (time.Second + w.now) / 2
	w.read(0, 0, "**")
	w.read(mid, 0, "app/**")
	w.read(mid, 0, "app/b", "last/**")
	w.read(mid, w.headAt(mid), "**")
	w.read(mid, w.headAt(mid)/2, "app/b/c", "app/a", "cond/x")
	w.read(mid, 0, "none/**")
	w.fault(mid)
	digests := map[string]string{"machine": "aa", "window 1": "bb"}
	v := &history.Verify{At: w.now + time.Second, Settled: true}
	for _, n := range []string{"n1", "n2", "n3"} {
		v.Nodes = append(v.Nodes, history.NodeDigests{Node: n, Seq: w.seq, Digests: map[string]string{"machine": digests["machine"], "window 1": digests["window 1"]}})
	}
	w.add(v)
	slices.SortStableFunc(w.events, func(a, b history.Event) int { return int(written(a) - written(b)) })
	w.add(&history.End{At: w.now + 2*time.Second, Events: uint64(len(w.events))})
	head := history.Header{Workload: "test", Linearizable: []string{"reg/**", "bank/**"}, Bank: &history.Bank{Total: total}}
	for i := range accounts {
		head.Bank.Accounts = append(head.Bank.Accounts, fmt.Sprintf("bank/%d", i))
	}
	return &history.Memory{Head: head, List: w.events}
}

func (w *world) fault(mid time.Duration) {
	w.add(&history.Fault{At: mid, ID: 1, Name: "kill", Aim: "leader", Targets: []string{"n1"}, Momentary: true},
		&history.NodeChanged{At: mid, Node: "n1", State: history.NodeDown}, &history.NodeChanged{At: mid + 20, Node: "n1", State: history.NodeUp},
		&history.Fault{At: mid + 30, ID: 2, Name: "cut", Targets: []string{"n2"}}, &history.FaultEnd{At: mid + 40, ID: 2})
}

func (w *world) add(list ...history.Event) { w.events = append(w.events, list...) }

// written is when an event is written.
func written(e history.Event) time.Duration {
	switch e := e.(type) {
	case *history.Publish:
		return e.Return
	case *history.Read:
		return e.Return
	case *history.Probe:
		return e.Return
	case *history.Delivery:
		return e.At
	case *history.Progress:
		return e.At
	case *history.CaughtUp:
		return e.At
	case *history.ReaderOpened:
		return e.At
	case *history.ReaderResumed:
		return e.At
	case *history.ReaderEnded:
		return e.At
	case *history.Fault:
		return e.At
	case *history.FaultEnd:
		return e.At
	case *history.NodeChanged:
		return e.At
	case *history.Verify:
		return e.At
	case *history.Quorum:
		return e.At
	case *history.End:
		return e.At
	}
	return 0
}

func (w *world) step() {
	w.now += time.Duration(1+w.rng.IntN(4)) * time.Millisecond
	pick := func(list ...string) string { return list[w.rng.IntN(len(list))] }
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		w.publish(pick("app/a", "app/b", "app/b/c"))
	case 3:
		w.publish("app/a", pick("app/b", "app/a"), "app/b/c")
	case 4:
		w.publish(pick("last/x", "last/y"))
	case 5:
		w.conditional("cond/x")
	case 6:
		w.conditional(pick("reg/a", "reg/b"))
	case 7:
		w.transfer(false)
	case 8:
		w.point(pick("last/x", "last/y"), w.rng.IntN(3))
	case 9:
		w.point(pick("reg/a", "reg/b"), 0)
	case 10:
		w.each("bank/**", w.rng.IntN(2) == 0)
	case 11:
		w.each("last/**", false)
	}
}

// call makes a publish whose effect, if any, is now.
func (w *world) call(topics ...string) *history.Publish {
	prod := fmt.Sprintf("p%d", w.rng.IntN(3))
	p := &history.Publish{Process: w.rng.IntN(5), Producer: prod, Epoch: 1, Number: w.numbers[prod] + 1, Atomic: len(topics) > 1,
		Invoke: w.now - w.little(), Return: w.now + w.little()}
	w.numbers[prod] += uint64(len(topics))
	for _, t := range topics {
		w.ids++
		p.Messages = append(p.Messages, history.Sent{ID: w.ids, Topic: t})
	}
	w.add(p)
	return p
}

func (w *world) little() time.Duration { return time.Duration(1 + w.rng.IntN(3_000_000)) }

// execute puts a publish into the stream.
func (w *world) execute(p *history.Publish) {
	for i, m := range p.Messages {
		w.seq++
		if i == 0 {
			p.FirstSeq = w.seq
		}
		e := entry{w.now, w.seq, m.ID, m.Topic, m.Value}
		w.stream = append(w.stream, e)
		w.last[m.Topic] = e
	}
	w.whole = append(w.whole, w.seq)
}

// settle gives a publish one of the outcomes that a good cluster may give.
func (w *world) settle(p *history.Publish) {
	switch w.rng.IntN(10) {
	case 0:
		p.Outcome, p.Code = history.Refused, "disk full"
	case 1:
		p.Outcome = history.Unknown
	case 2:
		w.execute(p)
		p.Outcome, p.FirstSeq = history.Unknown, 0
	default:
		w.execute(p)
		p.Outcome = history.OK
	}
}

func (w *world) publish(topics ...string) { w.settle(w.call(topics...)) }

// conditional publishes if the topic's last message is the one that the caller believes.
func (w *world) conditional(name string) {
	p := w.call(name)
	now := w.last[name].seq
	p.Pre = []history.Precondition{{Topic: name, LastSeq: now}}
	if w.rng.IntN(3) == 0 && now > 1 {
		p.Pre[0].LastSeq = 0
		p.Outcome, p.Code, p.Failed, p.FailedSeq = history.Refused, "precondition failed", true, now
		return
	}
	w.settle(p)
}

// transfer moves money between accounts, or fills them.
func (w *world) transfer(fill bool) {
	if fill {
		p := w.call("bank/0", "bank/1", "bank/2")
		for i := range p.Messages {
			p.Messages[i].Value = total / accounts
		}
		w.execute(p)
		p.Outcome = history.OK
		return
	}
	from := w.rng.IntN(accounts)
	a, b := fmt.Sprintf("bank/%d", from), fmt.Sprintf("bank/%d", (from+1)%accounts)
	p := w.call(a, b)
	p.Pre = []history.Precondition{{Topic: a, LastSeq: w.last[a].seq}, {Topic: b, LastSeq: w.last[b].seq}}
	sum := int64(w.rng.IntN(5))
	p.Messages[0].Value, p.Messages[1].Value = w.last[a].value-sum, w.last[b].value+sum
	w.settle(p)
}

// point reads a topic's last message: linearizable, with a lowest seq, or as of one.
func (w *world) point(name string, how int) {
	r := &history.Read{Op: history.ReadLast, Topic: name, Outcome: history.OK, Invoke: w.now - w.little(), Return: w.now + w.little()}
	upTo := w.seq
	switch how {
	case 0:
		r.Lin = true
	case 1:
		r.MinSeq = w.seq - w.rng.Uint64N(w.seq)
		upTo = r.MinSeq + w.rng.Uint64N(w.seq-r.MinSeq+1)
	case 2:
		r.AsOf = w.seq - w.rng.Uint64N(w.seq)
		upTo = r.AsOf
	}
	r.Found = w.lastAt(name, upTo)
	w.add(r)
}

func (w *world) lastAt(name string, upTo uint64) (found []history.Found) {
	for _, e := range w.stream[:upTo] {
		if e.topic == name {
			found = []history.Found{{Seq: e.seq, Topic: e.topic, ID: e.id, Value: e.value}}
		}
	}
	return found
}

func (w *world) each(filter string, lin bool) {
	r := &history.Read{Op: history.ReadEach, Filters: []string{filter}, Outcome: history.OK, Lin: lin, Invoke: w.now - w.little(), Return: w.now + w.little(), Snapshot: w.seq}
	if !lin {
		r.MinSeq = w.seq - w.rng.Uint64N(w.seq)
		r.Snapshot = w.whole[slices.IndexFunc(w.whole, func(s uint64) bool { return s >= r.MinSeq })]
	}
	f, _ := topic.ParseFilter(filter)
	for name := range w.last {
		if f.Match(name) {
			r.Found = append(r.Found, w.lastAt(name, r.Snapshot)...)
		}
	}
	slices.SortFunc(r.Found, func(a, b history.Found) int { return int(a.Seq) - int(b.Seq) })
	w.add(r)
}

func (w *world) headAt(t time.Duration) (head uint64) {
	for _, e := range w.stream {
		if e.at <= t {
			head = e.seq
		}
	}
	return head
}

// read lets a reader read the whole stream. Every other one is still open at the end.
func (w *world) read(at time.Duration, base uint64, filters ...string) {
	id := w.readers
	w.readers++
	fs, _ := topic.ParseFilters(filters)
	head := w.headAt(at)
	w.add(&history.ReaderOpened{At: at, Reader: id, Filters: filters, Start: history.StartSeq, From: base + 1, Base: base, Head: head})
	prev, caught := base, false
	pass := func(seq uint64) { // everything up to seq is behind
		if !caught && seq >= head {
			caught = true
			w.add(&history.CaughtUp{At: at, Reader: id, Head: head})
		}
		if w.rng.IntN(3) == 0 && seq > prev {
			w.add(&history.Progress{At: at, Reader: id, Seq: seq})
		}
		if w.rng.IntN(20) == 0 {
			w.add(&history.ReaderResumed{At: at, Reader: id, After: prev, Prev: prev})
		}
	}
	for _, e := range w.stream[base:] {
		at = max(at, e.at) + w.little()/10
		if fs.Match(e.topic) {
			pass(e.seq - 1)
			w.add(&history.Delivery{At: at, Reader: id, Seq: e.seq, Prev: prev, Topic: e.topic, ID: e.id})
			prev = e.seq
		}
	}
	pass(w.seq)
	if id%2 == 0 {
		w.add(&history.ReaderEnded{At: max(at, w.now) + time.Second, Reader: id, Position: w.seq})
	}
}
