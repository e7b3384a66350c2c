package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cantus-bus/cantus/internal/record"
	"github.com/cantus-bus/cantus/internal/topic"
)

// historyStep makes and applies an entry that has to do with windows, plans or retention, right or wrong.
func (w *world) historyStep() {
	m := w.m
	newest := int(m.windows.newest())
	number := func(name string) uint64 { return uint64(rapid.IntRange(0, newest+1).Draw(w.r, name)) }
	switch rapid.IntRange(0, 4).Draw(w.r, "history") {
	case 0:
		limit := func(name string) uint64 { return uint64(rapid.IntRange(0, 4).Draw(w.r, name)) }
		w.command(record.KindConfig, w.now, ConfigBody(StreamConfig{ProducerLease: 1 + int64(limit("lease")), WindowCount: limit("count"), WindowAge: int64(limit("age")),
			RetainAge: int64(limit("retain age")), RetainBytes: limit("retain bytes"), RetainCount: limit("retain count")}))
	case 1:
		w.command(record.KindCheckpoint, w.now, CheckpointBody(number("id")))
	case 2:
		w.command(record.KindRetain, w.now, RetainBody(number("through")))
	default:
		g := Generation{Number: m.NextGeneration(), FirstWindow: number("first"), LastWindow: number("last")}
		if gs := m.Generations(); rapid.Bool().Draw(w.r, "right") && newest > 0 {
			g.FirstWindow, g.LastWindow = m.windows.oldest(), uint64(newest)
			if len(gs) > 0 && gs[len(gs)-1].LastWindow < uint64(newest) {
				g.FirstWindow = gs[len(gs)-1].LastWindow + 1
			}
		}
		for p := range topic.PartitionID(m.table.Partitions()) {
			if node := m.table.PartitionNode(p); len(g.Plans) == 0 || g.Plans[len(g.Plans)-1].Partition < node {
				g.Plans = append(g.Plans, PartitionPlan{node, []byte(fmt.Sprint("plan ", p))})
			}
		}
		w.command(record.KindPlan, w.now, PlanBody(g))
	}
	w.checkHistory()
}

// checkHistory holds windows and generations against their invariants.
func (w *world) checkHistory() {
	windows, seq := w.m.Windows(), w.m.FirstSeq()
	for i, n := range windows {
		if n.Number != windows[0].Number+uint64(i) || n.FirstSeq != seq || n.LastSeq < seq {
			w.r.Fatalf("window %+v where seq %d begins", n, seq)
		}
		if found, ok := w.m.Window(n.Number); !ok || found != n {
			w.r.Fatalf("window %d is found as %+v", n.Number, found)
		}
		seq = n.LastSeq + 1
	}
	if len(windows) == 0 && len(w.sealed) > 0 {
		w.r.Fatal("no window is left")
	}
	next := w.m.windows.oldest()
	for _, g := range w.m.Generations() {
		first, ok1 := w.m.Window(g.FirstWindow)
		last, ok2 := w.m.Window(g.LastWindow)
		if !ok1 || !ok2 || g.FirstWindow != next || g.FirstSeq != first.FirstSeq || g.LastSeq != last.LastSeq || g.Number >= w.m.NextGeneration() {
			w.r.Fatalf("generation %+v where window %d begins", g, next)
		}
		next = g.LastWindow + 1
	}
}

func stateBytes(t testing.TB, s *State) []byte {
	t.Helper()
	var b bytes.Buffer
	n, err := s.WriteTo(&b)
	if err != nil || n != int64(b.Len()) {
		t.Fatalf("wrote %d of %d bytes: %v", n, b.Len(), err)
	}
	return b.Bytes()
}

// TestRestoreAnywhere writes the state somewhere in a random log while the machine goes on, and lets a machine made of it apply the rest:
// it must answer, store and become what the first does.
func TestRestoreAnywhere(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := &world{machineTest: newMachineTest(t, 12, 4), r: r, model: newModel(12, 4)}
		for range rapid.IntRange(0, 120).Draw(r, "entries") {
			if rapid.IntRange(0, 2).Draw(r, "kind of entry") == 0 {
				w.historyStep()
			} else {
				w.step()
			}
		}
		at := rapid.IntRange(0, len(w.entries)).Draw(r, "at")
		a := newMachineTest(t, 12, 4)
		for _, e := range w.entries[:at] {
			a.apply(e)
		}
		state, then, stored := a.m.Capture(), a.m.Digest(), len(a.mem.stored)
		for _, e := range w.entries[at:] {
			a.apply(e)
		}
		data := stateBytes(t, state)
		b := newMachineTest(t, 1, 1) // the limits come with the state
		in := bytes.NewReader(append(slices.Clone(data), "the tail"...))
		if err := b.m.Restore(in); err != nil {
			r.Fatal(err)
		}
		if rest, _ := io.ReadAll(in); string(rest) != "the tail" {
			r.Fatalf("%q was left unread", rest)
		}
		checkRestored(r, b.m, state, then)
		if !bytes.Equal(stateBytes(t, b.m.Capture()), data) {
			r.Fatal("the restored state is written in another way")
		}
		for b.index = state.Index(); b.index < a.index; {
			b.apply(w.entries[b.index])
		}
		checkWentOn(r, a, b, at, stored)
	})
}

// checkRestored compares a machine just restored with what the state says.
func checkRestored(r *rapid.T, m *Machine, s *State, want Digest) {
	if fmt.Sprint(s.Digest()) != fmt.Sprint(want) || fmt.Sprint(m.Digest()) != fmt.Sprint(want) {
		r.Fatalf("digests\n%v of the state\n%v of the machine restored, want\n%v", s.Digest(), m.Digest(), want)
	}
	last, ok := s.Sealed()
	windows := m.Windows()
	if ok != (len(windows) > 0) || ok && last != windows[len(windows)-1] {
		r.Fatalf("last window %+v, but %v were restored", last, windows)
	}
	if m.AppliedIndex() != s.Index() || m.LastSeq() != s.Seq() || m.LastTime() != s.Time() || m.FirstSeq() != s.First() {
		r.Fatal("index, seqs or time were not restored")
	}
}

// checkWentOn compares two machines that applied the same rest of the log.
func checkWentOn(r *rapid.T, a, b *machineTest, at, stored int) {
	if fmt.Sprint(a.m.Digest()) != fmt.Sprint(b.m.Digest()) || a.m.LastMessageTime() != b.m.LastMessageTime() ||
		a.m.NextGeneration() != b.m.NextGeneration() || a.m.Producers() != b.m.Producers() || a.m.Config() != b.m.Config() {
		r.Fatal("the states differ in the end")
	}
	if !slices.Equal(slices.Concat(a.results[at:]...), slices.Concat(b.results...)) {
		r.Fatalf("results differ:\n%v\n%v", a.results[at:], b.results)
	}
	if !bytes.Equal(a.mem.stored[stored:], b.mem.stored) {
		r.Fatal("stored bytes differ")
	}
	for id := range topic.ID(a.m.table.Nodes()) {
		if a.m.table.Name(id) != b.m.table.Name(id) {
			r.Fatalf("topic %d is %q and %q", id, a.m.table.Name(id), b.m.table.Name(id))
		}
	}
	if fmt.Sprint(a.m.Windows(), a.m.Generations()) != fmt.Sprint(b.m.Windows(), b.m.Generations()) {
		r.Fatal("windows or generations differ")
	}
}

// exampleState is one that has something of everything.
func exampleState(tb testing.TB) *State {
	m := newMachineTest(tb, 100, 4)
	m.command(record.KindConfig, 1000, ConfigBody(StreamConfig{ProducerLease: 100, WindowCount: 2, RetainCount: 5}))
	m.command(record.KindOpenProducer, 1001, OpenProducerBody(producerID('p')))
	m.command(record.KindOpenProducer, 1002, OpenProducerBody(producerID('q')))
	m.publish(1003, neverFresh, batchSpec{producer: 'p', epoch: 1, number: 1, topics: []string{"app/shop/orders", "app"}})
	m.publish(1004, neverFresh, batchSpec{producer: 'p', epoch: 1, number: 3, pre: []preSpec{{"app", 9}}, topics: []string{"app"}})
	m.publish(1005, neverFresh, batchSpec{topics: []string{"app/shop/orders", "app/shop/baskets"}})
	m.publish(1006, neverFresh, batchSpec{topics: []string{"app", "app"}})
	m.command(record.KindPlan, 1007, PlanBody(Generation{Number: 1, FirstWindow: 1, LastWindow: 2, Plans: []PartitionPlan{{2, []byte("the plan")}}}))
	m.command(record.KindPlan, 1008, PlanBody(Generation{Number: 2, FirstWindow: 3, LastWindow: 3, Plans: []PartitionPlan{{2, []byte("next")}}}))
	m.command(record.KindRetain, 1009, RetainBody(2))
	m.publish(1010, neverFresh, batchSpec{topics: []string{"b"}})
	return m.m.Capture()
}

func restoreBytes(data []byte) (*Machine, error) {
	m := New(Options{Table: topic.NewTable(1), Log: &memLog{}, MaxProducers: 1, CheckPlan: checkPlan})
	return m, m.Restore(bytes.NewReader(data))
}

// TestRestoreRefuses: cut anywhere, any bit flipped, blocks left out or changed over, and what is no state at all.
func TestRestoreRefuses(t *testing.T) {
	good := stateBytes(t, exampleState(t))
	if _, err := restoreBytes(good); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, data []byte, words string) {
		t.Helper()
		_, err := restoreBytes(data)
		if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "offset ") || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for n := range good {
		refused(fmt.Sprintf("cut at %d", n), good[:n], "it ends here")
		flipped := slices.Clone(good)
		flipped[n] ^= 1 << (n % 8)
		refused(fmt.Sprintf("a bit of byte %d flipped", n), flipped, "")
		zeroed := slices.Clone(good)
		if clear(zeroed[n:]); n%8 == 0 && !bytes.Equal(zeroed, good) {
			refused(fmt.Sprintf("zeroed from %d", n), zeroed, "")
		}
	}
	refused("zeros", make([]byte, 1000), "not a state")
	refused("text", bytes.Repeat([]byte("foreign "), 1000), "not a state")
	future := newBlockWriter(io.Discard)
	future.crc = 0
	var b bytes.Buffer
	future.w = &b
	future.emit(append([]byte(stateMagic), stateVersion+1, 0, 0, 0))
	refused("of the next version", b.Bytes(), "newer")
	m := newMachineTest(t, 1, 1)
	m.publish(1, neverFresh, batchSpec{topics: []string{"a"}})
	if err := m.m.Restore(bytes.NewReader(good)); !errors.Is(err, ErrInvariant) {
		t.Errorf("a machine that is not new: %v", err)
	}
}

// sections takes a good state apart.
func sections(tb testing.TB, data []byte) (list [][]byte) {
	b := &blockReader{r: bytes.NewReader(data)}
	err := b.header()
	for s := sectionHead; s <= sectionDigest && err == nil; s++ {
		b.begin(s)
		var p []byte
		p, err = io.ReadAll(b)
		list = append(list, p)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return list
}

// assemble makes a state of sections, with right checksums.
func assemble(list [][]byte) []byte {
	var out bytes.Buffer
	b := newBlockWriter(&out)
	for i, p := range list {
		b.section = byte(i) + sectionHead
		_, _ = b.Write(p)
		b.end()
	}
	return out.Bytes()
}

// TestRestoreChecksTheDigest: sections that are whole and belong to different states.
func TestRestoreChecksTheDigest(t *testing.T) {
	a := sections(t, stateBytes(t, exampleState(t)))
	other := newMachineTest(t, 100, 4)
	other.publish(1, neverFresh, batchSpec{topics: []string{"x/y"}})
	b := sections(t, stateBytes(t, other.m.Capture()))
	for i := range a {
		mixed := slices.Clone(a)
		mixed[i] = b[i]
		if _, err := restoreBytes(assemble(mixed)); !errors.Is(err, record.ErrCorrupt) {
			t.Errorf("section %d of another state: %v", i+1, err)
		}
	}
}

// FuzzRestore puts arbitrary bytes in the place of a section, with right checksums, or of everything.
func FuzzRestore(f *testing.F) {
	good := stateBytes(f, exampleState(f))
	parts := sections(f, good)
	f.Add(uint8(0), good)
	for i, p := range parts {
		f.Add(uint8(i+1), p)
	}
	f.Fuzz(func(t *testing.T, section uint8, data []byte) {
		if section > 0 {
			list := slices.Clone(parts)
			list[int(section-1)%len(list)] = data
			data = assemble(list)
		}
		m, err := restoreBytes(data)
		if err != nil {
			if !errors.Is(err, record.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if _, err := restoreBytes(stateBytes(t, m.Capture())); err != nil {
			t.Fatalf("what was restored does not restore: %v", err)
		}
	})
}

// TestStateOfManyBlocks crosses the borders of blocks.
func TestStateOfManyBlocks(t *testing.T) {
	m := newMachineTest(t, 100_000, 10)
	for i := range 20 {
		var specs []batchSpec
		for j := range 500 {
			specs = append(specs, batchSpec{topics: []string{fmt.Sprintf("team-%d/service-%d/topic-%d", i, j%7, j)}})
		}
		m.publish(int64(i), neverFresh, specs...)
	}
	data := stateBytes(t, m.m.Capture())
	if len(data) < 2*(blockHeaderSize+blockSize+checksumSize)+stateHeaderSize {
		t.Fatalf("the state has only %d bytes", len(data))
	}
	again, err := restoreBytes(data)
	if err != nil || !bytes.Equal(stateBytes(t, again.Capture()), data) {
		t.Fatalf("restored differently: %v", err)
	}
	block := blockHeaderSize + blockSize + checksumSize
	first := bytes.Index(data, []byte{sectionTopics, 0, 0, 0})
	swapped := slices.Concat(data[:first], data[first+block:first+2*block], data[first:first+block], data[first+2*block:])
	if _, err := restoreBytes(swapped); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("blocks changed over: %v", err)
	}
	if _, err := restoreBytes(slices.Concat(data[:first], data[first+block:])); !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("a block is missing: %v", err)
	}
}
