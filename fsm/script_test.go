package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// TestScripts runs testdata/*.txt. Commands, each one entry of the log unless said otherwise:
//
//	limits topics=N producers=N     a fresh machine; not an entry
//	open p                          opens producer p (one letter)
//	publish [time=N] [new]          one batch per line; "new": names travel as new ones though the table knows them
//	expire cutoff=N | config lease=N version=N ... | checkpoint id=N | retain through=N | plan ...
//	state | messages | digest id=N  what there is; not entries
//	history | retention | restore   windows and generations; limits; go on with a machine made of the state; not entries
//	replay                          a fresh machine with the same log must have the same digest; not an entry
//
// A batch is: PRODUCER[/EPOCH] [#NUMBER] [atomic] [if TOPIC=SEQ]... TOPIC[xN]... with "-" for no producer. Without EPOCH it is the
// producer's latest, without NUMBER the number after the last one sent. Time goes on by 10 per entry.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := newScript(t)
		datadriven.RunTest(t, path, s.run)
	})
}

type script struct {
	*machineTest
	t     *testing.T
	clock int64
	epoch map[byte]uint32
	sent  map[byte]uint64
}

func newScript(t *testing.T) *script {
	s := &script{t: t}
	s.reset(1000, 1000)
	return s
}

func (s *script) reset(maxTopics, maxProducers int) {
	s.machineTest = newMachineTest(s.t, maxTopics, maxProducers)
	s.clock = 0
	s.epoch, s.sent = map[byte]uint32{}, map[byte]uint64{}
}

func (s *script) run(t *testing.T, d *datadriven.TestData) string {
	switch d.Cmd {
	case "limits":
		s.reset(intArg(t, d, "topics", 1000), intArg(t, d, "producers", 1000))
		return ""
	case "publish":
		return s.runPublish(d)
	case "state":
		return s.state()
	case "messages":
		return s.messages()
	case "replay":
		return s.runReplay()
	case "history":
		return s.history()
	case "retention":
		c := s.m.Config()
		return fmt.Sprintf("age=%d bytes=%d count=%d\n", c.RetainAge, c.RetainBytes, c.RetainCount)
	case "restore":
		return s.runRestore()
	case "plan":
		return s.runPlan(d)
	case "digest":
		return s.checkpoint(uint64(intArg(t, d, "id", 0)))
	}
	return s.runCommand(d)
}

// runPlan reads lines "PARTITION PLAN"; a plan of "bad" is refused by the check.
func (s *script) runPlan(d *datadriven.TestData) string {
	g := Generation{
		Number:      uint64(intArg(s.t, d, "number", 0)),
		FirstWindow: uint64(intArg(s.t, d, "first", 0)),
		LastWindow:  uint64(intArg(s.t, d, "last", 0)),
	}
	for line := range strings.Lines(d.Input) {
		words := strings.Fields(line)
		id, ok := s.m.table.Lookup(words[0])
		if !ok {
			id = 1 << 20
		}
		g.Plans = append(g.Plans, PartitionPlan{id, []byte(strings.Join(words[1:], " "))})
	}
	return show(s.command(record.KindPlan, s.now(d), PlanBody(g)))
}

// history prints where the stream was cut and how it is split.
func (s *script) history() string {
	var b strings.Builder
	for _, w := range s.m.Windows() {
		fmt.Fprintf(&b, "window %d seq=%d..%d bytes=%d time=%d..%d\n", w.Number, w.FirstSeq, w.LastSeq, w.Bytes, w.FirstTime, w.LastTime)
	}
	for _, g := range s.m.Generations() {
		fmt.Fprintf(&b, "generation %d windows=%d..%d seq=%d..%d\n", g.Number, g.FirstWindow, g.LastWindow, g.FirstSeq, g.LastSeq)
		for _, p := range g.Plans {
			fmt.Fprintf(&b, "  %s: %s\n", s.m.table.Name(p.Partition), p.Plan)
		}
	}
	if b.Len() == 0 {
		return "none\n"
	}
	return b.String()
}

func intArg(t *testing.T, d *datadriven.TestData, name string, otherwise int) int {
	d.MaybeScanArgs(t, name, &otherwise)
	return otherwise
}

func (s *script) now(d *datadriven.TestData) int64 {
	s.clock += 10
	return int64(intArg(s.t, d, "time", int(s.clock)))
}

func (s *script) runCommand(d *datadriven.TestData) string {
	now := s.now(d)
	switch d.Cmd {
	case "open":
		p := d.CmdArgs[0].Key[0]
		r := s.command(record.KindOpenProducer, now, OpenProducerBody(producerID(p)))
		if r.Code == OK {
			s.epoch[p], s.sent[p] = r.Epoch, r.LastNumber
		}
		return show(r)
	case "expire":
		return show(s.command(record.KindExpireProducers, now, ExpireBody(int64(intArg(s.t, d, "cutoff", 0)))))
	case "config":
		c := StreamConfig{ProducerLease: int64(intArg(s.t, d, "lease", 0)), Version: uint64(intArg(s.t, d, "version", 0)),
			WindowBytes: uint64(intArg(s.t, d, "bytes", 0)), WindowCount: uint64(intArg(s.t, d, "count", 0)), WindowAge: int64(intArg(s.t, d, "age", 0)),
			MaxTopics: uint32(intArg(s.t, d, "topics", 0)), MaxProducers: uint32(intArg(s.t, d, "producers", 0)),
			RetainAge: int64(intArg(s.t, d, "retain_age", 0)), RetainBytes: uint64(intArg(s.t, d, "retain_bytes", 0)), RetainCount: uint64(intArg(s.t, d, "retain_count", 0))}
		return show(s.command(record.KindConfig, now, ConfigBody(c)))
	case "checkpoint":
		return show(s.command(record.KindCheckpoint, now, CheckpointBody(uint64(intArg(s.t, d, "id", 0)))))
	case "retain":
		return show(s.command(record.KindRetain, now, RetainBody(uint64(intArg(s.t, d, "through", 0)))))
	}
	d.Fatalf(s.t, "unknown command %q", d.Cmd)
	return ""
}

func (s *script) runPublish(d *datadriven.TestData) string {
	var specs []batchSpec
	for line := range strings.Lines(d.Input) {
		specs = append(specs, s.parseBatch(d, strings.Fields(line)))
	}
	fresh := func(string) bool { return d.HasArg("new") }
	var out strings.Builder
	for _, r := range s.publish(s.now(d), fresh, specs...) {
		out.WriteString(show(r))
	}
	return out.String()
}

// parseBatch reads one line of a publish.
func (s *script) parseBatch(d *datadriven.TestData, words []string) batchSpec {
	var b batchSpec
	if words[0] != "-" {
		p, epoch, found := strings.Cut(words[0], "/")
		b.producer = p[0]
		b.epoch, b.number = s.epoch[b.producer], s.sent[b.producer]+1
		if found {
			b.epoch = uint32(number(d, s.t, epoch))
		}
	}
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case w[0] == '#':
			b.number = uint64(number(d, s.t, w[1:]))
		case w == "atomic":
			b.atomic = true
		case w == "if":
			i++
			name, seq, _ := strings.Cut(words[i], "=")
			b.pre = append(b.pre, preSpec{topic: name, lastSeq: uint64(number(d, s.t, seq))})
		default:
			b.topics = append(b.topics, repeat(d, s.t, w)...)
		}
	}
	if b.producer != 0 {
		s.sent[b.producer] = b.number + uint64(len(b.topics)) - 1
	}
	return b
}

// repeat reads TOPIC[xN].
func repeat(d *datadriven.TestData, t *testing.T, w string) []string {
	if i := strings.LastIndexByte(w, 'x'); i > 0 {
		return slices.Repeat([]string{w[:i]}, number(d, t, w[i+1:]))
	}
	return []string{w}
}

func number(d *datadriven.TestData, t *testing.T, s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		d.Fatalf(t, "not a number: %v", err)
	}
	return n
}

// show prints a result without its zero fields.
func show(r Result) string {
	var b strings.Builder
	b.WriteString(r.Code.String())
	for _, f := range []struct {
		name  string
		value uint64
	}{
		{"index", uint64(r.Index)}, {"count", uint64(r.Count)}, {"first", r.FirstSeq}, {"time", uint64(r.Time)}, {"detail", r.Detail},
		{"epoch", uint64(r.Epoch)}, {"last_number", r.LastNumber}, {"last_seq", r.LastSeq},
	} {
		if f.value != 0 {
			fmt.Fprintf(&b, " %s=%d", f.name, f.value)
		}
	}
	return b.String() + "\n"
}

func (s *script) state() string {
	m := s.m
	var b strings.Builder
	fmt.Fprintf(&b, "index=%d seq=%d time=%d lease=%d version=%d\n", m.AppliedIndex(), m.LastSeq(), m.LastTime(),
		m.Config().ProducerLease, m.Config().Version)
	for id := topic.ID(0); int(id) < m.table.Nodes(); id++ {
		if m.table.IsTopic(id) {
			messages, bytes, last := m.table.Stats(id)
			fmt.Fprintf(&b, "topic %d %s messages=%d bytes=%d last_seq=%d\n", id, m.table.Name(id), messages, bytes, last)
		}
	}
	for _, p := range sortedProducers(m) {
		fmt.Fprintf(&b, "producer %c epoch=%d used=%d\n", p.name, p.epoch, p.lastUsed)
		for i := range p.ring {
			r := p.at(i)
			fmt.Fprintf(&b, "  #%d..%d %v %d\n", r.first, r.last(), r.code, r.place)
		}
	}
	return b.String()
}

type letteredProducer struct {
	*producer
	name byte
}

func sortedProducers(m *Machine) (list []letteredProducer) {
	for id, p := range m.producers.byID {
		list = append(list, letteredProducer{p, id[len("producer ")]})
	}
	slices.SortFunc(list, func(a, b letteredProducer) int { return int(a.name) - int(b.name) })
	return list
}

func (s *script) messages() string {
	var b strings.Builder
	for run := s.mem.stored[:s.mem.visible]; len(run) > 0; run = run[record.Scan(run):] {
		r := record.First(run)
		p := r.Payload()
		by := "-"
		if p[0] != 0 {
			by = fmt.Sprintf("%c#%d", p[0], p[1])
		}
		fmt.Fprintf(&b, "%d time=%d %s %s\n", r.Seq(), r.Time(), s.m.table.Name(topic.ID(r.Topic())), by)
	}
	return b.String()
}

func (s *script) runReplay() string {
	again := s.replay()
	if diff := compare(s.machineTest, again); diff != nil {
		return diff.Error() + "\n"
	}
	return "same\n"
}

// runRestore goes on with a machine made of this one's state.
func (s *script) runRestore() string {
	again := newMachineTest(s.t, s.maxTopics, s.maxProducers)
	if err := again.m.Restore(bytes.NewReader(stateBytes(s.t, s.m.Capture()))); err != nil {
		return err.Error() + "\n"
	}
	s.m, again.m.log = again.m, s.m.log
	return "restored\n"
}

func (s *script) checkpoint(id uint64) string {
	d, ok := s.m.Checkpoint(id)
	if !ok {
		return "not kept\n"
	}
	return fmt.Sprintf("index=%d seq=%d time=%d parts=%d\n", d.Index, d.Seq, d.Time, len(d.Parts))
}

// compare says where two machines' states, results or stored bytes differ.
func compare(a, b *machineTest) error {
	var diff []error
	da, db := a.m.Digest(), b.m.Digest()
	for name, v := range da.Parts {
		if db.Parts[name] != v {
			diff = append(diff, fmt.Errorf("digest %s differs", name))
		}
	}
	if da.Seq != db.Seq || da.Time != db.Time {
		diff = append(diff, fmt.Errorf("seq, time: %d, %d and %d, %d", da.Seq, da.Time, db.Seq, db.Time))
	}
	ra, rb := slices.Concat(a.results...), slices.Concat(b.results...)
	if !slices.Equal(ra, rb) {
		diff = append(diff, fmt.Errorf("results differ:\n%v\n%v", ra, rb))
	}
	if string(a.mem.stored[:a.mem.visible]) != string(b.mem.stored[:b.mem.visible]) {
		diff = append(diff, errors.New("stored bytes differ"))
	}
	return errors.Join(diff...)
}
